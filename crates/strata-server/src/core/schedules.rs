//! When backups are made: records that people write and the server follows.

use strata_store::Transaction;
use strata_types::backup::BackupSchedule;
use strata_types::{Error, Label, Result};

use super::record::{decode, encode, encode_over};
use super::{Core, Principal, keys, now_ms, public};
use crate::cron::Cron;

#[derive(Clone, Copy)]
pub struct Schedules<'a>(&'a Core);

impl Core {
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules(self)
    }
}

impl Schedules<'_> {
    /// All schedules, by name.
    pub async fn list(self) -> Result<Vec<BackupSchedule>> {
        let found = self.0.store().list(keys::SCHEDULES).await.map_err(public)?;
        let readable = |entry: &strata_store::Entry| match decode(&entry.key, &entry.value) {
            Ok(schedule) => Some(schedule),
            Err(error) => {
                tracing::error!(key = entry.key, %error, "unreadable backup schedule skipped");
                None
            }
        };
        Ok(found.entries.iter().filter_map(readable).collect())
    }

    pub async fn get(self, name: &str) -> Result<BackupSchedule> {
        let missing = || {
            let name: String = name.chars().take(80).collect();
            Error::not_found(format!("there is no schedule {name}"))
                .with_hint("list them: strata backup schedule list")
        };
        let label: Label = name.parse().map_err(|_| missing())?;
        let key = keys::schedule(&label);
        let found = self.0.store().get(&key).await.map_err(public)?;
        decode(&key, &found.ok_or_else(missing)?.value)
    }

    /// Makes a schedule, or gives it another time. What it did last stays.
    pub async fn put(self, principal: &Principal, new: BackupSchedule) -> Result<BackupSchedule> {
        principal.require_all_projects()?;
        let name = Label::from_field("name", &new.name)?;
        let cron: Cron = new
            .when
            .parse()
            .map_err(|why| Error::invalid("when", why))?;
        let known = self.get(&new.name).await.ok();
        let next = BackupSchedule {
            last_at_ms: known.and_then(|known| known.last_at_ms),
            next_at_ms: cron.after(now_ms()),
            ..new
        };
        if next.next_at_ms.is_none() {
            return Err(Error::invalid("when", "never occurs"));
        }
        self.write(&name, &next).await?;
        Ok(next)
    }

    pub(crate) async fn write(self, name: &Label, next: &BackupSchedule) -> Result<()> {
        let key = keys::schedule(name);
        let before = self.0.store().get(&key).await.map_err(public)?;
        let text = match before {
            Some(before) => encode_over(&before.value, next)?,
            None => encode(next)?,
        };
        let put = Transaction::new().put(key, text);
        self.0.commit(put).await.map(drop).map_err(public)
    }

    /// Records when a schedule is due next, unless a caller has changed or
    /// removed it meanwhile: the change of the caller counts.
    pub(crate) async fn advance(self, name: &Label, next: &BackupSchedule) -> Result<()> {
        let key = keys::schedule(name);
        let Some(entry) = self.0.store().get(&key).await.map_err(public)? else {
            return Ok(());
        };
        let now: BackupSchedule = decode(&key, &entry.value)?;
        if now.when != next.when || now.paused {
            return Ok(());
        }
        let merged = BackupSchedule {
            last_at_ms: next.last_at_ms,
            next_at_ms: next.next_at_ms,
            ..now
        };
        let put = Transaction::new()
            .if_unchanged(&*key, entry.changed)
            .put(&*key, encode_over(&entry.value, &merged)?);
        match self.0.commit_as_leader(put).await {
            Ok(_) | Err(strata_store::StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(public(error)),
        }
    }

    /// Ends a schedule. Backups that it made stay.
    pub async fn delete(self, principal: &Principal, name: &str) -> Result<()> {
        principal.require_all_projects()?;
        let found = self.get(name).await?;
        let name = Label::from_field("name", &found.name)?;
        let gone = Transaction::new().delete(keys::schedule(&name));
        self.0.commit(gone).await.map(drop).map_err(public)
    }
}
