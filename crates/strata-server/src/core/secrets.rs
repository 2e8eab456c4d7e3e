//! Secrets of projects: values that instances are given and that no caller is
//! shown.
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

use super::record::encode;
use super::store_watch::public;
use super::tables::Versioned;
use super::workloads::split;
use super::{Core, Precondition, Principal, keys, now_ms};
use crate::core::Instance;

/// The largest value, in bytes.
pub const MAX_SECRET_BYTES: usize = 64 * 1024;
/// The values of one instance together, in bytes. Its node keeps them in memory.
const MAX_INSTANCE_SECRET_BYTES: usize = 1 << 20;
/// So many secrets a project has at most.
const MAX_SECRETS: usize = 1000;

/// So many users of a secret are listed.
const MAX_USERS: usize = 100;

/// A secret of a project.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// Its name, unique in the project.
    pub name: Label,
    /// The project that owns it.
    pub project: Label,
    /// In base64.
    value: String,
    /// Grows with each value.
    pub version: u64,
    /// The principal that set its value.
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

/// The secrets, and the rules of what may name them.
#[derive(Clone, Copy)]
pub struct Secrets<'a>(&'a Core);

impl Core {
    pub fn secrets(&self) -> Secrets<'_> {
        Secrets(self)
    }
}

impl Secrets<'_> {
    /// Makes a secret. The flag says whether it is new: the same again gives
    /// the same.
    pub async fn create(
        self,
        principal: &Principal,
        project: &Label,
        name: &Label,
        value: &[u8],
    ) -> Result<(Arc<Versioned<Secret>>, bool)> {
        principal.in_project(project)?;
        self.0.projects().record(project)?;
        check(value)?;
        let taken = |same: &Secret| match same.value()? == value {
            true => Ok(()),
            false => Err(Error::already_exists(format!(
                "there is a secret {name} in project {project}, with another value"
            ))
            .with_hint(format!("replace its value: strata secret update {name}"))),
        };
        if let Some(known) = self.known(project, name) {
            taken(&known)?;
            return Ok((known, false));
        }
        let has = self.list(principal, Some(project)).len();
        if has >= MAX_SECRETS {
            let why = format!("project {project} has {has} secrets, and {MAX_SECRETS} is the most");
            return Err(Error::exhausted(why).with_hint("delete some: strata secret delete"));
        }
        let now = now_ms();
        let record = Secret {
            name: name.clone(),
            project: project.clone(),
            value: BASE64_STANDARD.encode(value),
            version: 1,
            changed_by: principal.name.clone(),
            created_at_ms: now,
            changed_at_ms: now,
        };
        let key = keys::secret(project, name);
        let text = encode(&record)?;
        self.0.check_bytes(principal, project, &key, text.len())?;
        let put = Transaction::new().if_absent(&*key);
        let put = self.0.projects().in_open(put, project)?;
        match self.0.commit_effect(put.put(&*key, text), &key).await {
            Ok(_) => Ok((self.record(project, name)?, true)),
            Err(StoreError::Conflict { key: taken }) if taken == key => Err(Error::already_exists(
                format!("the secret {name} was made meanwhile"),
            )),
            Err(error) => Err(public(error)),
        }
    }

    /// Gives a secret another value. Instances get it when they are next
    /// started by the server.
    pub async fn update(
        self,
        principal: &Principal,
        known: &Versioned<Secret>,
        value: &[u8],
        precondition: Precondition,
    ) -> Result<Arc<Versioned<Secret>>> {
        principal.in_project(&known.project)?;
        precondition.check(known)?;
        check(value)?;
        self.check_users(known, value.len())?;
        let record = Secret {
            value: BASE64_STANDARD.encode(value),
            version: known.version.saturating_add(1),
            changed_by: principal.name.clone(),
            changed_at_ms: now_ms(),
            ..known.record.clone()
        };
        let key = keys::secret(&known.project, &known.name);
        let text = encode(&record)?;
        self.0
            .check_bytes(principal, &known.project, &key, text.len())?;
        let put = Transaction::new().if_unchanged(&*key, known.revision);
        let put = self.0.commit(put.put(key, text)).await;
        put.map_err(public)?;
        self.record(&known.project, &known.name)
    }

    /// Removes a secret that nothing names.
    pub async fn delete(
        self,
        principal: &Principal,
        known: &Versioned<Secret>,
        precondition: Precondition,
    ) -> Result<()> {
        principal.in_project(&known.project)?;
        precondition.check(known)?;
        let users = self.users(known);
        if !users.is_empty() {
            let users: Vec<_> = users.into_iter().take(10).collect();
            let why = format!("the secret {} is used by {}", known.name, users.join(", "));
            return Err(Error::wrong_state(why).with_hint("delete or change those first"));
        }
        let key = keys::secret(&known.project, &known.name);
        let gone = Transaction::new()
            .if_unchanged(&*key, known.revision)
            .delete(key);
        self.0.commit(gone).await.map(drop).map_err(public)
    }

    /// The instances and workloads that name a secret; [`MAX_USERS`] of them
    /// where there are more.
    pub(crate) fn users(self, secret: &Secret) -> Vec<String> {
        self.0.tables().users_of_secret(secret, MAX_USERS)
    }

    /// Refuses a value with which an instance would have too much.
    fn check_users(self, secret: &Secret, size: usize) -> Result<()> {
        if size <= secret.size() {
            return Ok(());
        }
        let users = {
            let tables = self.0.tables();
            let mut users = Vec::new();
            for one in tables.instances.values() {
                if one.project == secret.project {
                    users.push(one.clone());
                }
            }
            users
        };
        for user in users {
            let given = user.spec.given_secrets().unwrap_or_default();
            if !given.iter().any(|one| one.name == secret.name) {
                continue;
            }
            let sum = self.total_size(&user.project, &user.spec, Some((secret, size)))?;
            if sum > MAX_INSTANCE_SECRET_BYTES {
                let why = format!(
                    "instance {} would have secrets of {sum} bytes; {MAX_INSTANCE_SECRET_BYTES} is \
                     the most for one instance",
                    user.name
                );
                return Err(Error::invalid("value", why));
            }
        }
        Ok(())
    }

    /// The bytes of all secrets of an instance, with another size for one. A
    /// secret that has two places counts once: a node has it once.
    fn total_size(
        self,
        project: &Label,
        spec: &InstanceSpec,
        changed: Option<(&Secret, usize)>,
    ) -> Result<usize> {
        let names: BTreeSet<Label> = spec.given_secrets()?.into_iter().map(|s| s.name).collect();
        let size = |name: Label| match changed {
            Some((secret, size)) if secret.name == name => size,
            _ => self.known(project, &name).map_or(0, |secret| secret.size()),
        };
        Ok(names.into_iter().map(size).sum())
    }

    /// Refuses a specification that names secrets that are not there, or too
    /// much of them.
    pub(super) fn check_spec(self, project: &Label, spec: &InstanceSpec) -> Result<()> {
        for (i, one) in spec.given_secrets()?.iter().enumerate() {
            if self.known(project, &one.name).is_none() {
                let why = format!("there is no secret {} in project {project}", one.name);
                let hint = format!("make it: strata secret create {} --from-file …", one.name);
                return Err(Error::invalid(format!("secrets[{i}]"), why).with_hint(hint));
            }
        }
        let sum = self.total_size(project, spec, None)?;
        if sum > MAX_INSTANCE_SECRET_BYTES {
            let why = format!(
                "have {sum} bytes together; {MAX_INSTANCE_SECRET_BYTES} is the most for one instance"
            );
            return Err(Error::invalid("secrets", why).with_hint(
                "a node keeps them in memory: give it fewer secrets, and keep large files in a \
                 volume",
            ));
        }
        Ok(())
    }

    /// What the node of an instance is given.
    pub(crate) fn assigned(self, instance: &Instance) -> Vec<v1::AssignedSecret> {
        let value = |text: &String| {
            let given = strata_types::pod::PodSecret::parse("secrets", text).ok()?;
            let secret = self.known(&instance.project, &given.name)?;
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
    pub fn find(
        self,
        principal: &Principal,
        project: Option<&Label>,
        text: &str,
    ) -> Result<Arc<Versioned<Secret>>> {
        let (project, name) = split(project, text);
        let project = project.filter(|project| principal.sees(project));
        let found = project.zip(name.parse().ok());
        let found = found.and_then(|(project, name)| self.known(&project, &name));
        found.ok_or_else(|| {
            let text: String = text.chars().take(80).collect();
            Error::not_found(format!("there is no secret {text}"))
                .with_hint("list them: strata secret list")
        })
    }

    /// All that `principal` may know of, in order of project and name.
    pub fn list(
        self,
        principal: &Principal,
        project: Option<&Label>,
    ) -> Vec<Arc<Versioned<Secret>>> {
        let tables = self.0.tables();
        let all = tables.secrets.values();
        let found = all.filter(|one| project.is_none_or(|project| one.project == *project));
        found
            .filter(|one| principal.sees(&one.project))
            .cloned()
            .collect()
    }

    fn known(self, project: &Label, name: &Label) -> Option<Arc<Versioned<Secret>>> {
        let key = (project.clone(), name.clone());
        self.0.tables().secrets.get(&key).cloned()
    }

    fn record(self, project: &Label, name: &Label) -> Result<Arc<Versioned<Secret>>> {
        self.known(project, name)
            .ok_or_else(|| Error::not_found(format!("the secret {name} is gone already")))
    }
}

fn check(value: &[u8]) -> Result<()> {
    match value.len() {
        0 => Err(Error::invalid("value", "must not be empty")),
        size if size > MAX_SECRET_BYTES => {
            let why = format!("has {size} bytes; {MAX_SECRET_BYTES} is the most");
            Err(Error::invalid("value", why))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_redacted_and_has_a_size() {
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
