//! When backups are made: records that people write and the server follows.

use strata_store::Transaction;
use strata_types::backup::BackupSchedule;
use strata_types::{Error, Label, Result};

use super::record::{decode, encode, encode_over};
use super::{Core, Who, keys, now_ms, public};
use crate::cron::Cron;

impl Core {
    /// All schedules, by name.
    pub async fn schedules(&self) -> Result<Vec<BackupSchedule>> {
        let found = self.store().list(keys::SCHEDULES).await.map_err(public)?;
        let readable = |entry: &strata_store::Entry| match decode(&entry.key, &entry.value) {
            Ok(schedule) => Some(schedule),
            Err(error) => {
                tracing::error!(%error, "schedule left out");
                None
            }
        };
        Ok(found.entries.iter().filter_map(readable).collect())
    }

    /// One of them.
    pub async fn schedule(&self, name: &str) -> Result<BackupSchedule> {
        let missing = || {
            let name: String = name.chars().take(80).collect();
            Error::not_found(format!("there is no schedule {name}"))
                .with_hint("see those there are: strata backup schedule list")
        };
        let label: Label = name.parse().map_err(|_| missing())?;
        let key = keys::schedule(&label);
        let found = self.store().get(&key).await.map_err(public)?;
        decode(&key, &found.ok_or_else(missing)?.value)
    }

    /// Makes a schedule, or gives it another time. What it did last stays.
    pub async fn put_schedule(&self, who: &Who, new: BackupSchedule) -> Result<BackupSchedule> {
        who.everywhere()?;
        let name = Label::from_field("name", &new.name)?;
        let cron: Cron = new
            .when
            .parse()
            .map_err(|why| Error::invalid("when", why))?;
        let known = self.schedule(&new.name).await.ok();
        let next = BackupSchedule {
            last_at_ms: known.and_then(|known| known.last_at_ms),
            next_at_ms: cron.after(now_ms()),
            ..new
        };
        if next.next_at_ms.is_none() {
            return Err(Error::invalid("when", "is a moment that never comes"));
        }
        self.write_schedule(&name, &next).await?;
        Ok(next)
    }

    pub(crate) async fn write_schedule(&self, name: &Label, next: &BackupSchedule) -> Result<()> {
        let key = keys::schedule(name);
        let before = self.store().get(&key).await.map_err(public)?;
        let text = match before {
            Some(before) => encode_over(&before.value, next)?,
            None => encode(next)?,
        };
        let put = Transaction::new().put(key, text);
        self.commit(put).await.map(drop).map_err(public)
    }

    /// Writes down when a schedule is due next, unless somebody has changed or
    /// removed it meanwhile: theirs counts.
    pub(crate) async fn move_schedule_on(&self, name: &Label, next: &BackupSchedule) -> Result<()> {
        let key = keys::schedule(name);
        let Some(entry) = self.store().get(&key).await.map_err(public)? else {
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
        match self.commit_as_leader(put).await {
            Ok(_) | Err(strata_store::StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(public(error)),
        }
    }

    /// Ends a schedule. Backups that it made stay.
    pub async fn remove_schedule(&self, who: &Who, name: &str) -> Result<()> {
        who.everywhere()?;
        let found = self.schedule(name).await?;
        let name = Label::from_field("name", &found.name)?;
        let gone = Transaction::new().delete(keys::schedule(&name));
        self.commit(gone).await.map(drop).map_err(public)
    }
}
