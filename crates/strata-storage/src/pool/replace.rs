//! One device in the place of another, also of one that is not there.

use std::path::Path;

use rustix::io::Errno;
use strata_types::storage::{DeviceState, PoolDevice};
use tokio_util::sync::CancellationToken;

use super::long::Call;
use super::{Progress, Shared, StoragePool, devices, observe, open, reserve};
use crate::btrfs::{Fs, Refused, ReplaceState};
use crate::record::DeviceRecord;
use crate::{Result, StorageError};

const REPLACE: &str = "replace a device of";

/// What is to be done.
struct Task {
    number: u64,
    bytes: u64,
    /// It is not well: read from it only what is nowhere else.
    avoid: bool,
    old: DeviceRecord,
    with: DeviceRecord,
}

impl StoragePool {
    /// Copies what a device holds, or should hold, to a spare, and puts that in
    /// its place; then keeps everything as often as requested again. The old
    /// device is a spare afterwards if it was well, and is removed from the
    /// record if not. Repeated after it is done, it does nothing.
    pub async fn replace_device(
        &self,
        old: &str,
        with: &str,
        progress: &Progress<'_>,
        cancel: CancellationToken,
    ) -> Result<PoolDevice> {
        let turn = self.turn(REPLACE, Some(old))?;
        let (name, spare) = (old.to_owned(), with.to_owned());
        let task = self.run(move |pool| task(pool, &name, &spare)).await?;
        if let Some(task) = task {
            let bytes = task.bytes;
            let call = Call {
                what: REPLACE,
                work: move |pool: &Shared, fs: &Fs| replace(pool, fs, &task),
                watch: move |fs: &Fs| match fs.replace_state().ok()? {
                    ReplaceState::Running(thousandths) => Some((bytes / 1000 * thousandths, bytes)),
                    _ => None,
                },
                stop: |fs: &Fs| {
                    // One of the two runs, if any.
                    if let Err(errno) = fs.cancel_replace().or_else(|_| fs.cancel_convert()) {
                        tracing::debug!(%errno, "device replacement not cancelled");
                    }
                },
            };
            self.long(turn, call, progress, &cancel).await?;
            progress(bytes, bytes);
        } else {
            drop(turn);
        }
        self.rebalance(progress, cancel).await?;
        let with = with.to_owned();
        self.run(move |pool| observe::device(pool, &with)).await
    }
}

fn task(pool: &Shared, old: &str, with: &str) -> Result<Option<Task>> {
    let new = pool.record().device(with)?.clone();
    let known = pool.record().device(old).cloned();
    let in_place = new.number.is_some();
    let old = match known {
        Ok(old) if old.number.is_some() => old,
        // It went, and this one came: that is what was requested.
        _ if in_place => return Ok(None),
        Ok(_) => {
            return Err(StorageError::DeviceState {
                name: old.into(),
                state: DeviceState::Spare,
                must_be: "in use",
            });
        }
        Err(error) => return Err(error),
    };
    let new = devices::must_be_spare(pool, &new.name)?;
    let observed = observe::device(pool, &old.name)?;
    if new.bytes < observed.bytes {
        return Err(StorageError::DeviceTooSmall {
            name: new.name,
            bytes: new.bytes,
            needed: observed.bytes,
        });
    }
    Ok(Some(Task {
        number: old.number.unwrap_or_default(),
        bytes: observed.bytes,
        avoid: observed.state == DeviceState::Missing || observed.errors > 0,
        old,
        with: new,
    }))
}

/// Copies it. The kernel holds each chunk still while it is copied, and takes
/// another for what is written meanwhile; there is none when chunks have all of
/// the devices, be they empty. By itself it gives empty ones back twice a minute:
/// they are given back here, then those that hold little.
fn copy(fs: &Fs, task: &Task, to: &Path) -> Result<(), Refused> {
    let mut tries = GATHER.iter();
    loop {
        match (fs.replace(task.number, to, task.avoid), tries.next()) {
            (Err(Refused::Failed(Errno::NOSPC)), Some(hundredths)) => gather(fs, *hundredths)?,
            (other, _) => return other,
        }
    }
}

/// How full a chunk may be to be given back, try by try. Empty ones are looked
/// for again: a pool that is written fast may have taken them at once.
const GATHER: [u64; 9] = [0, 0, 20, 40, 60, 80, 90, 0, 0];

fn gather(fs: &Fs, hundredths: u64) -> Result<(), Refused> {
    tracing::info!(hundredths, "no free chunk for the copy: compacting");
    fs.sync().map_err(Refused::Failed)?;
    // Some may have been given back before the room ended, before it was
    // stopped, or before something could not be read: the result of the copy
    // counts, and goes around what is nowhere to be read.
    if let Err(errno) = fs.gather(hundredths) {
        tracing::info!(%errno, "compaction stopped early");
    }
    Ok(())
}

fn replace(pool: &Shared, fs: &Fs, task: &Task) -> Result<()> {
    let attached = devices::prepare(pool, &task.with)?;
    reserve::release(fs).map_err(StorageError::at(REPLACE, &pool.mount))?;
    copy(fs, task, &attached.path).map_err(|refused| pool.refused(REPLACE, refused))?;
    drop(attached);
    open::reconcile(pool, fs)?;
    if fs.replace_state() == Ok(ReplaceState::Cancelled) {
        return Err(StorageError::Cancelled { what: REPLACE });
    }
    if task.with.bytes > task.bytes {
        fs.use_all_of(task.number)
            .map_err(StorageError::at("use all of", &task.with.path))?;
    }
    if task.avoid {
        devices::forget(pool, &task.old)?;
    }
    reserve::take(pool, fs);
    Ok(())
}
