//! Which certificates are refused although they are good by themselves: by
//! serial, by key, or all of a name that were issued until a timestamp. The
//! auth layer checks every request, and open streams are checked again whenever
//! the list changes, so that a revocation takes effect at once.
//!
//! The list is a view in memory. It is stored elsewhere: a server fills it from
//! its store, which all servers share; a node from what its server sends.

use std::collections::{HashMap, HashSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strata_types::Role;
use tokio::sync::watch;

use crate::{CertificateId, Name};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "camelCase")]
pub enum Revocation {
    Serial {
        /// In lower-case hexadecimal digits.
        serial: String,
    },
    /// Every certificate of a key.
    Key {
        /// SHA-256 of the public key, in hexadecimal.
        key: String,
    },
    /// Every certificate of a name and role that was issued until then. Also
    /// those of which there is no record.
    Name {
        /// Subject of the certificates.
        name: Name,
        /// Role of the holder.
        role: Role,
        /// Those issued later are not meant.
        until: Timestamp,
    },
    /// Every certificate of a role that was issued until then, whomever it
    /// names: after a restore it is not known which were revoked.
    Role {
        /// Role of the holder.
        role: Role,
        /// Those issued later are not meant.
        until: Timestamp,
    },
}

/// A certificate is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("certificate {serial} of {role} {name} was revoked; {}", rollback_files(*role))]
pub struct Revoked {
    pub serial: String,
    pub name: Name,
    /// Role of the holder.
    pub role: Role,
}

fn rollback_files(role: Role) -> &'static str {
    match role {
        Role::Node => "a node joins again with a new token: strata token create --join",
        _ => "request another one from an admin",
    }
}

#[derive(Debug, Default)]
struct Denylist {
    serials: HashSet<String>,
    keys: HashSet<String>,
    names: HashMap<(Role, Name), Timestamp>,
    roles: HashMap<Role, Timestamp>,
}

/// The revocations that are in force, and news of them.
#[derive(Debug)]
pub struct Revocations {
    denied: RwLock<Denylist>,
    changed: watch::Sender<()>,
}

impl Default for Revocations {
    fn default() -> Self {
        Self {
            denied: RwLock::default(),
            changed: watch::Sender::new(()),
        }
    }
}

impl Revocations {
    fn read(&self) -> RwLockReadGuard<'_, Denylist> {
        self.denied.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Denylist)) {
        change(&mut self.denied.write().unwrap_or_else(PoisonError::into_inner));
        self.changed.send_replace(());
    }

    /// Refuses a certificate that was revoked.
    pub fn check(&self, certificate: &CertificateId) -> Result<(), Revoked> {
        let denied = self.read();
        let CertificateId {
            serial, key, name, ..
        } = certificate;
        let in_time = || {
            let until = denied.refused_until(certificate.role, name);
            until.is_some_and(|until| certificate.issued_at <= until)
        };
        if !denied.serials.contains(serial) && !denied.keys.contains(key) && !in_time() {
            return Ok(());
        }
        Err(Revoked {
            serial: serial.clone(),
            name: name.clone(),
            role: certificate.role,
        })
    }

    /// Until when certificates of a name are refused, if any are.
    pub fn refused_until(&self, role: Role, name: &Name) -> Option<Timestamp> {
        self.read().refused_until(role, name)
    }

    /// Takes one more into force.
    pub fn add(&self, revocation: &Revocation) {
        self.change(|denied| denied.add(revocation));
    }

    /// One is in force no more.
    pub fn remove(&self, revocation: &Revocation) {
        self.change(|denied| match revocation {
            Revocation::Serial { serial } => drop(denied.serials.remove(serial)),
            Revocation::Key { key } => drop(denied.keys.remove(key)),
            Revocation::Name { name, role, until } => {
                let of = (*role, name.clone());
                if denied.names.get(&of) == Some(until) {
                    denied.names.remove(&of);
                }
            }
            Revocation::Role { role, until } => {
                if denied.roles.get(role) == Some(until) {
                    denied.roles.remove(role);
                }
            }
        });
    }

    /// These, and no others, are in force.
    pub fn replace(&self, revocations: &[Revocation]) {
        self.change(|denied| {
            *denied = Denylist::default();
            for revocation in revocations {
                denied.add(revocation);
            }
        });
    }

    /// All that are in force.
    pub fn list(&self) -> Vec<Revocation> {
        let denied = self.read();
        let serials = denied.serials.iter().cloned();
        let keys = denied.keys.iter().cloned();
        let names = denied.names.iter();
        serials
            .map(|serial| Revocation::Serial { serial })
            .chain(keys.map(|key| Revocation::Key { key }))
            .chain(names.map(|((role, name), until)| Revocation::Name {
                name: name.clone(),
                role: *role,
                until: *until,
            }))
            .chain(denied.roles.iter().map(|(role, until)| Revocation::Role {
                role: *role,
                until: *until,
            }))
            .collect()
    }

    /// Wakes with every change from now on.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl Denylist {
    fn refused_until(&self, role: Role, name: &Name) -> Option<Timestamp> {
        // The table is small and the key is owned: looked up by a clone.
        let by_name = self.names.get(&(role, name.clone())).copied();
        by_name.max(self.roles.get(&role).copied())
    }

    fn add(&mut self, revocation: &Revocation) {
        match revocation {
            Revocation::Serial { serial } => drop(self.serials.insert(serial.clone())),
            Revocation::Key { key } => drop(self.keys.insert(key.clone())),
            Revocation::Name { name, role, until } => {
                let known = self.names.entry((*role, name.clone())).or_insert(*until);
                *known = (*known).max(*until);
            }
            Revocation::Role { role, until } => {
                let known = self.roles.entry(*role).or_insert(*until);
                *known = (*known).max(*until);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(serial: &str, key: &str, issued: i64) -> CertificateId {
        CertificateId {
            serial: serial.into(),
            key: key.into(),
            name: "n1".parse().unwrap(),
            role: Role::Node,
            issued_at: Timestamp::from_second(issued).unwrap(),
            expires_at: Timestamp::from_second(issued + 1000).unwrap(),
            issuer: String::new(),
        }
    }

    fn until(second: i64) -> Revocation {
        Revocation::Name {
            name: "n1".parse().unwrap(),
            role: Role::Node,
            until: Timestamp::from_second(second).unwrap(),
        }
    }

    #[test]
    fn a_certificate_is_refused_by_serial_by_key_and_by_the_age_of_its_name() {
        let list = Revocations::default();
        let good = id("aa", "k1", 100);
        assert_eq!(list.check(&good), Ok(()));
        for revocation in [
            Revocation::Serial {
                serial: "aa".into(),
            },
            Revocation::Key { key: "k1".into() },
            until(100),
        ] {
            list.add(&revocation);
            assert!(list.check(&good).is_err(), "{revocation:?}");
            list.remove(&revocation);
            assert_eq!(list.check(&good), Ok(()), "{revocation:?}");
        }
    }

    #[test]
    fn revocation_by_name_spares_later_certificates() {
        let list = Revocations::default();
        list.add(&until(100));
        assert_eq!(list.check(&id("aa", "k1", 101)), Ok(()));
        let mut admin = id("aa", "k1", 50);
        admin.role = Role::Admin;
        assert_eq!(list.check(&admin), Ok(()));
        // An earlier timestamp does not undo a later one.
        list.add(&until(50));
        assert!(list.check(&id("aa", "k1", 100)).is_err());
    }

    #[test]
    fn revocation_changes_are_notified_and_copies_agree() {
        let (list, copy) = (Revocations::default(), Revocations::default());
        let mut news = list.subscribe();
        assert!(!news.has_changed().unwrap());
        list.add(&until(100));
        assert!(news.has_changed().unwrap());
        news.mark_unchanged();
        list.add(&Revocation::Key { key: "k9".into() });
        assert!(news.has_changed().unwrap());
        copy.replace(&list.list());
        assert!(copy.check(&id("aa", "k1", 100)).is_err());
        assert!(copy.check(&id("aa", "k9", 500)).is_err());
        copy.replace(&[]);
        assert_eq!(copy.check(&id("aa", "k9", 500)), Ok(()));
    }
}
