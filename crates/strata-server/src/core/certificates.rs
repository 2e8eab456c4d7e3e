//! The certificates that were issued, and which of them are revoked. Both are
//! records of the store, so every server refuses what one of them revoked.
//!
//! A certificate and all that were renewed from it are one lineage: they are
//! one holder's, and are revoked together. A renewal is written on the
//! condition that what it comes from is not revoked, so a revocation and a
//! renewal at the same moment end in nothing that works.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use strata_identity::{CertificateId, CertificateSpec, Name, Revocation};
use strata_store::{StoreError, Transaction};
use strata_types::{Error, ErrorKind, Result, Role};

use super::node_labels::LabelGrant;
use super::record::encode;
use super::store_watch::public;
use super::tables::Versioned;
use super::{Core, Principal, keys};

/// How often a change is computed again when concurrent writes win.
pub(super) const MAX_ATTEMPTS: usize = 32;
/// Renewals of one lineage within a day, or within ten lifetimes where those
/// are shorter: a holder renews after two thirds of one, so it needs fewer, and
/// each is kept for as long as it lasts.
const MAX_RENEWALS: usize = 32;
const RENEWAL_WINDOW: SignedDuration = SignedDuration::from_hours(24);
const RENEWAL_LIFETIMES: i32 = 10;
/// Records that have expired and go with the next one that is written.
const EXPIRED_BATCH: usize = 16;
/// The longest reason that is kept.
const MAX_REASON_LENGTH: usize = 512;

/// A certificate that was issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// In lower-case hexadecimal digits.
    pub serial: String,
    /// SHA-256 of its public key, in hexadecimal.
    pub key: String,
    /// The name in its subject.
    pub name: Name,
    pub role: Role,
    /// When it was signed.
    pub issued_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
    /// The serial of the one it was renewed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The serial of the first of its lineage.
    pub lineage: String,
    /// The issuer of the request: an admin, a join token, its holder, the
    /// server.
    #[serde(default)]
    pub issued_by: String,
    /// Which root signed it; empty in records from before there could be two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub issuer: String,
    /// The labels of a node that joins, until it is registered.
    #[serde(default, skip_serializing_if = "LabelGrant::is_none")]
    pub label_grant: LabelGrant,
}

impl Certificate {
    /// The first of a lineage.
    pub(super) fn first(id: &CertificateId, issued_by: &str) -> Self {
        Self {
            serial: id.serial.clone(),
            key: id.key.clone(),
            name: id.name.clone(),
            role: id.role,
            issued_at: id.issued_at,
            expires_at: id.expires_at,
            parent: None,
            lineage: id.serial.clone(),
            issued_by: issued_by.to_owned(),
            issuer: id.issuer.clone(),
            label_grant: LabelGrant::default(),
        }
    }

    /// What it is known by.
    pub fn id(&self) -> CertificateId {
        CertificateId {
            serial: self.serial.clone(),
            key: self.key.clone(),
            name: self.name.clone(),
            role: self.role,
            issued_at: self.issued_at,
            expires_at: self.expires_at,
            issuer: self.issuer.clone(),
        }
    }
}

/// A revocation as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RevocationRecord {
    pub what: Revocation,
    /// The principal that revoked it.
    pub revoked_by: String,
    /// The reason, for people.
    #[serde(default)]
    pub reason: String,
    /// Unix milliseconds of the revocation.
    pub revoked_at: Timestamp,
    /// What is refused has ended by itself by then.
    pub expires_at: Timestamp,
}

impl RevocationRecord {
    pub(crate) fn new(what: Revocation, by: &str, reason: &str, ends: Option<Timestamp>) -> Self {
        let now = Timestamp::now();
        let longest = CertificateSpec::MAX_TTL + Duration::from_secs(24 * 3600);
        Self {
            what,
            revoked_by: by.to_owned(),
            reason: reason.chars().take(MAX_REASON_LENGTH).collect(),
            revoked_at: now,
            expires_at: ends
                .or_else(|| now.checked_add(longest).ok())
                .unwrap_or(Timestamp::MAX),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revoke {
    /// A certificate that there is a record of, and its lineage.
    Serial(String),
    /// Every certificate of this key, and their lineages.
    Key(String),
    /// Every certificate that this name has now.
    Name(Name, Role),
}

/// Certificates that the CA issued, and their revocations.
#[derive(Clone, Copy)]
pub struct Certificates<'a>(&'a Core);

impl Core {
    /// Certificates that the CA issued, and their revocations.
    pub fn certificates(&self) -> Certificates<'_> {
        Certificates(self)
    }
}

impl Certificates<'_> {
    /// The revocations that are in force, for the auth layer.
    pub fn revocations(self) -> std::sync::Arc<strata_identity::Revocations> {
        self.0.tables().revoked.clone()
    }

    /// Every certificate that has not expired, the latest last.
    pub fn list(self) -> Vec<std::sync::Arc<Versioned<Certificate>>> {
        let now = Timestamp::now();
        let mut all: Vec<_> = self.0.tables().certificates.values().cloned().collect();
        all.retain(|one| one.expires_at > now);
        all.sort_by(|a, b| (a.issued_at, &a.serial).cmp(&(b.issued_at, &b.serial)));
        all
    }

    /// A certificate by its serial.
    pub fn get(self, serial: &str) -> Result<std::sync::Arc<Versioned<Certificate>>> {
        let found = self.0.tables().certificates.get(serial).cloned();
        found.ok_or_else(|| {
            let serial: String = serial.chars().take(80).collect();
            Error::not_found(format!("there is no record of a certificate {serial}"))
                .with_hint("list them: strata certificate list")
        })
    }

    /// The revocation that refuses a certificate, if one does.
    pub fn revocation_of(self, id: &CertificateId) -> Option<RevocationRecord> {
        let tables = self.0.tables();
        let found = |key: String| {
            tables
                .revocations
                .get(&key)
                .map(|stored| stored.record.clone())
        };
        let in_time = |key: String| {
            let record = found(key)?;
            match &record.what {
                Revocation::Name { until, .. } | Revocation::Role { until, .. }
                    if id.issued_at <= *until =>
                {
                    Some(record)
                }
                _ => None,
            }
        };
        found(keys::revoked_serial(&id.serial))
            .or_else(|| found(keys::revoked_key(&id.key)))
            .or_else(|| in_time(keys::revoked_name(id.role, &id.name)))
            .or_else(|| in_time(keys::revoked_role(id.role)))
    }

    /// Records a certificate that nothing was renewed from.
    pub async fn record(self, id: &CertificateId, issued_by: &str) -> Result<()> {
        let record = Certificate::first(id, issued_by);
        let put = self.put(Transaction::new(), &record)?;
        self.0.commit(put).await.map(drop).map_err(public)
    }

    /// Adds a certificate to a transaction, and lets some go that have ended.
    pub(super) fn put(self, transaction: Transaction, record: &Certificate) -> Result<Transaction> {
        let now = Timestamp::now();
        let tables = self.0.tables();
        let old = tables.certificates.values();
        let old = old.filter(|one| one.expires_at < now && one.serial != record.serial);
        let transaction = old.take(EXPIRED_BATCH).fold(transaction, |all, one| {
            all.delete(keys::certificate(&one.serial))
        });
        let old = tables.revocations.iter();
        let old = old.filter(|(_, one)| one.expires_at < now);
        let old = old.take(EXPIRED_BATCH).map(|(key, _)| key.clone());
        let transaction = old.fold(transaction, Transaction::delete);
        Ok(transaction.put(keys::certificate(&record.serial), encode(record)?))
    }

    /// Records that `child` was renewed from `parent`, and has a node's record
    /// follow its new key. Refused for what is revoked by then.
    pub async fn renew(self, parent: &CertificateId, child: &CertificateId) -> Result<()> {
        for _ in 0..MAX_ATTEMPTS {
            let mut record = Certificate::first(child, parent.name.as_str());
            record.parent = Some(parent.serial.clone());
            record.lineage = self
                .get(&parent.serial)
                .map_or_else(|_| parent.serial.clone(), |known| known.lineage.clone());
            self.check_renewals(&record)?;
            let transaction = self.unless_revoked(Transaction::new(), parent)?;
            let transaction = match parent.role {
                Role::Node => self.0.follow_key(transaction, parent, child)?,
                _ => transaction,
            };
            let transaction = self.put(transaction, &record)?;
            match self.0.commit(transaction).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { key }) => self.0.caught_up(&key).await?,
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::unavailable("the certificate changes too fast"))
    }

    fn check_renewals(self, record: &Certificate) -> Result<()> {
        let tables = self.0.tables();
        let of = tables.certificates.values();
        let lifetime = record.expires_at.duration_since(record.issued_at);
        let window = RENEWAL_WINDOW.min(lifetime.saturating_mul(RENEWAL_LIFETIMES));
        let since = record.issued_at.checked_sub(window);
        let since = since.unwrap_or(Timestamp::MIN);
        let of = of.filter(|one| {
            one.lineage == record.lineage && one.parent.is_some() && one.issued_at > since
        });
        if of.count() < MAX_RENEWALS {
            return Ok(());
        }
        let why = format!(
            "the certificate of {} was renewed {MAX_RENEWALS} times lately",
            record.name
        );
        Err(Error::exhausted(why).with_hint("use one of those, or wait"))
    }

    /// Adds the condition that a certificate is not revoked when the
    /// transaction is written.
    pub(super) fn unless_revoked(
        self,
        transaction: Transaction,
        id: &CertificateId,
    ) -> Result<Transaction> {
        let tables = self.0.tables();
        let revoked = tables.revoked.check(id);
        revoked.map_err(|why| Error::new(ErrorKind::Unauthenticated, why.to_string()))?;
        let name = keys::revoked_name(id.role, &id.name);
        let transaction = transaction
            .if_absent(keys::revoked_serial(&id.serial))
            .if_absent(keys::revoked_key(&id.key));
        Ok(match tables.revocations.get(&name) {
            Some(known) => transaction.if_unchanged(name, known.revision),
            None => transaction.if_absent(name),
        })
    }

    /// Revokes certificates, and returns how many of those there are records
    /// of.
    pub async fn revoke(self, principal: &Principal, what: &Revoke, reason: &str) -> Result<usize> {
        principal.require_all_projects()?;
        let by = principal.name.as_str();
        match what {
            Revoke::Serial(serial) => {
                let first = self.get(serial)?;
                self.revoke_lineage(&first.record, by, reason).await
            }
            Revoke::Key(key) => {
                let what = Revocation::Key { key: key.clone() };
                let record = RevocationRecord::new(what, by, reason, None);
                let put = Transaction::new().put(keys::revoked_key(key), encode(&record)?);
                self.0.commit(put).await.map_err(public)?;
                let of: Vec<Certificate> = {
                    let tables = self.0.tables();
                    let of = tables.certificates.values().filter(|one| one.key == *key);
                    of.map(|stored| stored.record.clone()).collect()
                };
                let mut count = 0;
                for one in of {
                    count += self.revoke_lineage(&one, by, reason).await?;
                }
                Ok(count)
            }
            Revoke::Name(name, role) => {
                let until = self.revoked_until(name, *role);
                let put = Self::revoke_name(Transaction::new(), name, *role, until, by, reason)?;
                self.0.commit(put).await.map_err(public)?;
                let of = |one: &&std::sync::Arc<Versioned<Certificate>>| {
                    one.name == *name && one.role == *role && one.issued_at <= until
                };
                Ok(self.0.tables().certificates.values().filter(of).count())
            }
        }
    }

    /// Until when certificates of a name have to be revoked for all that there
    /// are now: not before a timestamp that is in force, and not before the
    /// last of them, which a server with a clock that is ahead may have issued.
    pub(super) fn revoked_until(self, name: &Name, role: Role) -> Timestamp {
        let tables = self.0.tables();
        let known = tables.revoked.refused_until(role, name);
        let of = tables.certificates.values();
        let of = of.filter(|one| one.role == role && one.name == *name);
        let latest = of.map(|one| one.issued_at).chain(known).max();
        let now = Timestamp::now();
        latest.map_or(now, |latest| latest.max(now))
    }

    /// Adds to a transaction that all certificates of a name are revoked which
    /// were issued until a timestamp.
    pub(super) fn revoke_name(
        transaction: Transaction,
        name: &Name,
        role: Role,
        until: Timestamp,
        by: &str,
        reason: &str,
    ) -> Result<Transaction> {
        let what = Revocation::Name {
            name: name.clone(),
            role,
            until,
        };
        let record = RevocationRecord::new(what, by, reason, None);
        Ok(transaction.put(keys::revoked_name(role, name), encode(&record)?))
    }

    /// Revokes a certificate and all of its lineage. A renewal that was under
    /// way is either in the tables after the first commit, and is revoked in
    /// the next round, or is refused by it.
    async fn revoke_lineage(self, first: &Certificate, by: &str, reason: &str) -> Result<usize> {
        let mut next = vec![first.clone()];
        let mut count = 0;
        for _ in 0..MAX_ATTEMPTS {
            if next.is_empty() {
                break;
            }
            for one in &next {
                let serial = one.serial.clone();
                let what = Revocation::Serial { serial };
                let record = RevocationRecord::new(what, by, reason, Some(one.expires_at));
                let put = Transaction::new();
                let put = put.put(keys::revoked_serial(&one.serial), encode(&record)?);
                self.0.commit(put).await.map_err(public)?;
                count += 1;
            }
            let tables = self.0.tables();
            let of = tables.certificates.values().filter(|one| {
                let revoked = keys::revoked_serial(&one.serial);
                one.lineage == first.lineage && !tables.revocations.contains_key(&revoked)
            });
            next = of.map(|stored| stored.record.clone()).collect();
        }
        Ok(count)
    }
}
