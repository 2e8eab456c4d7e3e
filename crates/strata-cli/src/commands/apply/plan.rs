//! Plans and applies one document. Updates carry the version that was read: a
//! concurrent change wins.

use serde::Serialize;
use serde_json::{Value, json};
use strata_api::rest::{Instance, NewInstance, NewProject, NewWorkload, Project, Workload};
use strata_client::rest::{Query, Resource, RestClient, Tagged};
use strata_types::ErrorKind;

use super::document::{DesiredResource, Document};
use crate::commands::spec::{Difference, differences, merge_patch, spec_of, value};
use crate::failure::{Result, unable};

/// Planned action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Created,
    Changed,
    Unchanged,
}

/// Plan of one document.
pub(super) struct Step {
    pub(super) document: Document,
    pub(super) action: Action,
    pub(super) changes: Vec<Difference>,
    patch: Value,
    etag: Option<String>,
}

/// Reads the observed state and plans.
pub(super) async fn plan(rest: &RestClient, document: Document) -> Result<Step> {
    let there = match &document.wanted {
        DesiredResource::Project(quota) => {
            let now = find::<Project>(rest, &document).await?;
            let wanted = json!({ "quota": quota });
            now.map(|now| (json!({ "quota": now.object.quota }), wanted, now.etag))
        }
        DesiredResource::Workload(spec) => match find::<Workload>(rest, &document).await? {
            Some(now) => Some((value(&now.object.spec)?, value(spec)?, now.etag)),
            None => None,
        },
        DesiredResource::Instance(spec) => match find::<Instance>(rest, &document).await? {
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
        Err(error) => Err(unable(format!("read {}", document.reference()))(error)),
    }
}

impl Step {
    /// Executes the plan; returns the instance that it creates or replaces.
    pub(super) async fn run(&self, rest: &RestClient) -> Result<Option<Instance>> {
        match (self.action, &self.document.wanted) {
            (Action::Unchanged, _) => Ok(None),
            (_, DesiredResource::Project(quota)) => {
                let new = NewProject {
                    name: self.document.name.clone(),
                    quota: *quota,
                    ..NewProject::default()
                };
                self.put::<Project>(rest, &new).await?;
                Ok(None)
            }
            (_, DesiredResource::Workload(spec)) => {
                let new = NewWorkload {
                    id: None,
                    name: self.document.name.clone(),
                    project: Some(self.document.project.clone()),
                    spec: spec.as_ref().clone(),
                };
                self.put::<Workload>(rest, &new).await?;
                Ok(None)
            }
            (_, DesiredResource::Instance(spec)) => {
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
