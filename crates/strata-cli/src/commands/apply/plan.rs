//! From a document and what is there to what is to be done, and doing it. A
//! thing is changed as it was seen: whoever changes it meanwhile wins.

use serde::Serialize;
use serde_json::{Value, json};
use strata_api::rest::{Instance, NewInstance, NewProject, NewWorkload, Project, Workload};
use strata_client::rest::{Query, Resource, RestClient, Tagged};
use strata_types::ErrorKind;

use super::document::{Document, Wanted};
use crate::commands::spec::{Difference, differences, merge_patch, spec_of, value};
use crate::failure::{Result, unable};

/// What is done with a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Created,
    Changed,
    Unchanged,
}

/// What is to be done for one document.
pub(super) struct Step {
    pub(super) document: Document,
    pub(super) action: Action,
    pub(super) changes: Vec<Difference>,
    patch: Value,
    etag: Option<String>,
}

/// Looks at what is there.
pub(super) async fn plan(rest: &RestClient, document: Document) -> Result<Step> {
    let there = match &document.wanted {
        Wanted::Project(quota) => {
            let now = find::<Project>(rest, &document).await?;
            let wanted = json!({ "quota": quota });
            now.map(|now| (json!({ "quota": now.object.quota }), wanted, now.etag))
        }
        Wanted::Workload(spec) => match find::<Workload>(rest, &document).await? {
            Some(now) => Some((value(&now.object.spec)?, value(spec)?, now.etag)),
            None => None,
        },
        Wanted::Instance(spec) => match find::<Instance>(rest, &document).await? {
            Some(now) => Some((value(&spec_of(&now.object))?, value(spec)?, now.etag)),
            None => None,
        },
    };
    Ok(match there {
        None => Step {
            document,
            action: Action::Created,
            changes: Vec::new(),
            patch: Value::Null,
            etag: None,
        },
        Some((before, after, etag)) => {
            let changes = differences(&before, &after);
            let action = match changes.is_empty() {
                true => Action::Unchanged,
                false => Action::Changed,
            };
            let patch = merge_patch(&before, &after);
            Step {
                document,
                action,
                changes,
                patch,
                etag,
            }
        }
    })
}

fn query(document: &Document) -> Query {
    Query::new().project(document.scope())
}

async fn find<T: Resource>(rest: &RestClient, document: &Document) -> Result<Option<Tagged<T>>> {
    match rest.get(&document.name, &query(document)).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(None),
        Err(error) => Err(unable(format!("look at {}", document.reference()))(error)),
    }
}

impl Step {
    /// Does it; gives the instance that is made or replaced by it.
    pub(super) async fn run(&self, rest: &RestClient) -> Result<Option<Instance>> {
        match (self.action, &self.document.wanted) {
            (Action::Unchanged, _) => Ok(None),
            (_, Wanted::Project(quota)) => {
                let new = NewProject {
                    name: self.document.name.clone(),
                    quota: *quota,
                    ..NewProject::default()
                };
                self.put::<Project>(rest, &new).await?;
                Ok(None)
            }
            (_, Wanted::Workload(spec)) => {
                let new = NewWorkload {
                    id: None,
                    name: self.document.name.clone(),
                    project: Some(self.document.project.clone()),
                    spec: spec.as_ref().clone(),
                };
                self.put::<Workload>(rest, &new).await?;
                Ok(None)
            }
            (_, Wanted::Instance(spec)) => {
                let new = NewInstance {
                    name: Some(self.document.name.clone()),
                    project: Some(self.document.project.clone()),
                    spec: Some(spec.as_ref().clone()),
                    ..Default::default()
                };
                self.put::<Instance>(rest, &new).await.map(Some)
            }
        }
    }

    async fn put<T: Resource>(&self, rest: &RestClient, new: &impl Serialize) -> Result<T> {
        let reference = self.document.reference();
        match self.action {
            Action::Created => {
                let made = rest.create(new).await;
                made.map_err(unable(format!("create {reference}")))
            }
            _ => {
                let (query, tag) = (query(&self.document), self.etag.as_deref());
                let changed = rest.update(&self.document.name, &query, &self.patch, tag);
                let changed = changed.await;
                changed.map_err(unable(format!("change {reference}")))
            }
        }
    }
}
