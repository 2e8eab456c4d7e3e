//! Secrets of projects: values that instances are given and nobody is shown.
//!
//! A value goes in by a request and out to the node of an instance that names
//! it, nowhere else: no view, event, log or answer has it. The store seals it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use strata_api::strata::v1;
use strata_store::{StoreError, Transaction};
use strata_types::instance::InstanceSpec;
use strata_types::{Error, Label, Result};

use super::follow::public;
use super::record::encode;
use super::tables::Kept;
use super::workloads::split;
use super::{Core, Precondition, Who, keys, now_ms};
use crate::core::Instance;

/// The largest value, in bytes.
pub const LARGEST_SECRET: usize = 64 * 1024;
/// So many secrets a project has at most.
const MOST: usize = 1000;

/// A secret of a project.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// Its name, unique in the project.
    pub name: Label,
    /// Whose it is.
    pub project: Label,
    /// In base64.
    value: String,
    /// Grows with each value.
    pub version: u64,
    /// Who gave it its value.
    #[serde(default)]
    pub changed_by: String,
    /// When it was made, in Unix milliseconds.
    pub created_at_ms: i64,
    /// When it got its value.
    pub changed_at_ms: i64,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({}/{})", self.project, self.name)
    }
}

impl Secret {
    fn value(&self) -> Result<Vec<u8>> {
        let value = BASE64_STANDARD.decode(&self.value);
        value.map_err(|_| Error::internal(format!("the secret {} cannot be read", self.name)))
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        let padding = self.value.bytes().rev().take_while(|b| *b == b'=').count();
        (self.value.len() / 4 * 3).saturating_sub(padding)
    }
}

impl Core {
    /// Makes a secret. The flag says whether it is new: the same again gives
    /// the same.
    pub async fn create_secret(
        &self,
        who: &Who,
        project: &Label,
        name: &Label,
        value: &[u8],
    ) -> Result<(Arc<Kept<Secret>>, bool)> {
        who.in_project(project)?;
        self.project_record(project)?;
        check(value)?;
        let taken = |same: &Secret| match same.value()? == value {
            true => Ok(()),
            false => Err(Error::already_exists(format!(
                "there is a secret {name} in project {project}, with another value"
            ))
            .with_hint(format!("replace its value: strata secret update {name}"))),
        };
        if let Some(known) = self.known_secret(project, name) {
            taken(&known)?;
            return Ok((known, false));
        }
        let has = self.secrets(who, Some(project)).len();
        if has >= MOST {
            let why = format!("project {project} has {has} secrets, and {MOST} is the most");
            return Err(Error::exhausted(why).with_hint("delete some: strata secret delete"));
        }
        let now = now_ms();
        let record = Secret {
            name: name.clone(),
            project: project.clone(),
            value: BASE64_STANDARD.encode(value),
            version: 1,
            changed_by: who.name.clone(),
            created_at_ms: now,
            changed_at_ms: now,
        };
        let key = keys::secret(project, name);
        let put = Transaction::new().if_absent(&*key);
        let put = self.in_open_project(put, project)?;
        match self.commit(put.put(&*key, encode(&record)?)).await {
            Ok(_) => Ok((self.secret_record(project, name)?, true)),
            Err(StoreError::Conflict { key: taken }) if taken == key => Err(Error::already_exists(
                format!("the secret {name} was made meanwhile"),
            )),
            Err(error) => Err(public(error)),
        }
    }

    /// Gives a secret another value. Instances get it when they are next
    /// started by the server.
    pub async fn update_secret(
        &self,
        who: &Who,
        known: &Kept<Secret>,
        value: &[u8],
        precondition: Precondition,
    ) -> Result<Arc<Kept<Secret>>> {
        who.in_project(&known.project)?;
        precondition.check(known)?;
        check(value)?;
        let record = Secret {
            value: BASE64_STANDARD.encode(value),
            version: known.version.saturating_add(1),
            changed_by: who.name.clone(),
            changed_at_ms: now_ms(),
            ..known.record.clone()
        };
        let key = keys::secret(&known.project, &known.name);
        let put = Transaction::new().if_unchanged(&*key, known.revision);
        let put = self.commit(put.put(key, encode(&record)?)).await;
        put.map_err(public)?;
        self.secret_record(&known.project, &known.name)
    }

    /// Removes a secret that nothing names.
    pub async fn delete_secret(
        &self,
        who: &Who,
        known: &Kept<Secret>,
        precondition: Precondition,
    ) -> Result<()> {
        who.in_project(&known.project)?;
        precondition.check(known)?;
        let users = self.users_of_secret(known);
        if !users.is_empty() {
            let users: Vec<_> = users.into_iter().take(10).collect();
            let why = format!("the secret {} is used by {}", known.name, users.join(", "));
            return Err(Error::wrong_state(why).with_hint("delete or change those first"));
        }
        let key = keys::secret(&known.project, &known.name);
        let gone = Transaction::new()
            .if_unchanged(&*key, known.revision)
            .delete(key);
        self.commit(gone).await.map(drop).map_err(public)
    }

    /// The instances and workloads that name a secret.
    pub(crate) fn users_of_secret(&self, secret: &Secret) -> BTreeSet<String> {
        let names = |project: &Label, spec: &InstanceSpec| {
            let given = spec.given_secrets().unwrap_or_default();
            *project == secret.project && given.iter().any(|one| one.name == secret.name)
        };
        let tables = self.tables();
        let instances = tables.instances.values();
        let instances = instances.filter(|one| names(&one.project, &one.spec));
        let workloads = tables.workloads.values();
        let workloads = workloads.filter(|one| names(&one.project, &one.spec));
        let instances = instances.map(|one| format!("instance {}", one.name));
        let workloads = workloads.map(|one| format!("workload {}", one.name));
        instances.chain(workloads).collect()
    }

    /// Refuses a specification that names secrets that are not there.
    pub(super) fn check_secrets(&self, project: &Label, spec: &InstanceSpec) -> Result<()> {
        for (i, one) in spec.given_secrets()?.iter().enumerate() {
            if self.known_secret(project, &one.name).is_none() {
                let why = format!("there is no secret {} in project {project}", one.name);
                let hint = format!("make it: strata secret create {} --from-file …", one.name);
                return Err(Error::invalid(format!("secrets[{i}]"), why).with_hint(hint));
            }
        }
        Ok(())
    }

    /// What the node of an instance is given.
    pub(crate) fn assigned_secrets(&self, instance: &Instance) -> Vec<v1::AssignedSecret> {
        let value = |text: &String| {
            let given = strata_types::pod::PodSecret::parse("secrets", text).ok()?;
            let secret = self.known_secret(&instance.project, &given.name)?;
            secret.value().ok()
        };
        let secrets = instance.spec.secrets.iter();
        secrets
            .map(|text| v1::AssignedSecret {
                reference: text.clone(),
                value: value(text),
            })
            .collect()
    }

    /// A secret by `PROJECT/NAME`, or by name in a project. One that the
    /// caller may not know of is not there.
    pub fn secret(
        &self,
        who: &Who,
        project: Option<&Label>,
        text: &str,
    ) -> Result<Arc<Kept<Secret>>> {
        let (project, name) = split(project, text);
        let project = project.filter(|project| who.sees(project));
        let found = project.zip(name.parse().ok());
        let found = found.and_then(|(project, name)| self.known_secret(&project, &name));
        found.ok_or_else(|| {
            let text: String = text.chars().take(80).collect();
            Error::not_found(format!("there is no secret {text}"))
                .with_hint("see those there are: strata secret list")
        })
    }

    /// All that `who` may know of, in order of project and name.
    pub fn secrets(&self, who: &Who, project: Option<&Label>) -> Vec<Arc<Kept<Secret>>> {
        let tables = self.tables();
        let all = tables.secrets.values();
        let wanted = all.filter(|one| project.is_none_or(|project| one.project == *project));
        wanted
            .filter(|one| who.sees(&one.project))
            .cloned()
            .collect()
    }

    fn known_secret(&self, project: &Label, name: &Label) -> Option<Arc<Kept<Secret>>> {
        let key = (project.clone(), name.clone());
        self.tables().secrets.get(&key).cloned()
    }

    fn secret_record(&self, project: &Label, name: &Label) -> Result<Arc<Kept<Secret>>> {
        self.known_secret(project, name)
            .ok_or_else(|| Error::not_found(format!("the secret {name} is gone already")))
    }
}

fn check(value: &[u8]) -> Result<()> {
    match value.len() {
        0 => Err(Error::invalid("value", "must not be empty")),
        size if size > LARGEST_SECRET => {
            let why = format!("has {size} bytes; {LARGEST_SECRET} is the most");
            Err(Error::invalid("value", why))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed_and_knows_its_size() {
        for size in [1, 2, 3, 4, 100] {
            let secret = Secret {
                name: "db".parse().unwrap(),
                project: "shop".parse().unwrap(),
                value: BASE64_STANDARD.encode(vec![b'x'; size]),
                version: 1,
                changed_by: String::new(),
                created_at_ms: 0,
                changed_at_ms: 0,
            };
            assert_eq!(secret.size(), size);
            assert_eq!(secret.value().unwrap(), vec![b'x'; size]);
            assert_eq!(format!("{secret:?}"), "Secret(shop/db)");
        }
    }
}
