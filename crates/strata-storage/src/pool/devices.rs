//! Devices come, wait, are used, and leave. Which ones is decided elsewhere.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use strata_types::storage::{DeviceState, PoolDevice};
use tokio_util::sync::CancellationToken;

use super::long::Call;
use super::{Progress, Shared, StoragePool, observe, open, reserve, resize};
use crate::btrfs::{Fs, Refused};
use crate::config::{NewSpare, check_size};
use crate::plan::Facts;
use crate::record::{DeviceRecord, Record};
use crate::{Result, StorageError, attach, device, plan};

const REMOVE: &str = "remove a device from";

impl StoragePool {
    /// Adds a device that waits to be used.
    pub async fn add_spare(&self, new: NewSpare) -> Result<PoolDevice> {
        self.run(move |pool| {
            let name = pool.change(|record| add_record(record, &pool.dir, &new))?;
            observe::device(pool, &name)
        })
        .await
    }

    /// Removes a spare from the record, and removes it if it is a file of the
    /// pool. One that is gone already is no error.
    pub async fn remove_spare(&self, name: &str) -> Result<()> {
        let turn = self.turn("remove a spare from", None)?;
        let name = name.to_owned();
        self.run(move |pool| {
            let _turn = turn;
            // A file that is still in use must not be lost by an old record.
            if let Ok(fs) = pool.fs() {
                open::reconcile(pool, &fs)?;
            }
            let Ok(device) = pool.record().device(&name).cloned() else {
                return Ok(());
            };
            if device.number.is_some() {
                return Err(StorageError::DeviceState {
                    state: observe::device(pool, &name)?.state,
                    name,
                    must_be: "SPARE",
                });
            }
            if device.file && device.path.exists() {
                attach::wait_until_free(&device.path)?;
            }
            forget(pool, &device)
        })
        .await
    }

    /// Uses a spare from now on. One that is in use already is no error.
    pub async fn add_device(&self, name: &str) -> Result<PoolDevice> {
        let turn = self.turn("add a device to", None)?;
        let name = name.to_owned();
        self.run(move |pool| {
            // Held until the kernel is done, also when no caller waits any
            // more.
            let _turn = turn;
            add_device(pool, &name)?;
            observe::device(pool, &name)
        })
        .await
    }

    /// Moves everything off a device, which is a spare afterwards; one that is
    /// missing is removed from the record. One that left already is no error.
    /// Cancelled, it stays in use with what was not moved yet; nothing is lost.
    pub async fn remove_device(
        &self,
        name: &str,
        progress: &Progress<'_>,
        cancel: CancellationToken,
    ) -> Result<()> {
        let turn = self.turn(REMOVE, Some(name))?;
        let device = name.to_owned();
        let Some(leaving) = self.run(move |pool| to_remove(pool, &device)).await? else {
            return Ok(());
        };
        let (number, total) = (leaving.number, leaving.bytes);
        let call = Call {
            what: REMOVE,
            work: move |pool: &Shared, fs: &Fs| {
                reserve::release(fs).map_err(StorageError::at(REMOVE, &pool.mount))?;
                let removed = match leaving.missing {
                    Some(_) => fs.remove_device(number),
                    None => resize::make_room_for_metadata(fs, number, 0).and_then(|has_room| {
                        match has_room {
                            true => fs.remove_device(number),
                            false => Err(Refused::Failed(Errno::NOSPC)),
                        }
                    }),
                };
                open::reconcile(pool, fs)?;
                reserve::take(pool, fs);
                removed.map_err(|refused| pool.refused(REMOVE, refused))?;
                match leaving.missing {
                    Some(device) => forget(pool, &device),
                    None => Ok(()),
                }
            },
            watch: move |fs: &Fs| {
                let devices = fs.devices().ok()?;
                let left = devices.iter().find(|device| device.id == number);
                let left = left.map_or(0, |device| device.allocated);
                Some((total.saturating_sub(left), total))
            },
            stop: |fs: &Fs| {
                if let Err(refused) = fs.cancel_remove() {
                    tracing::debug!(?refused, "device removal not cancelled");
                }
            },
        };
        self.long(turn, call, progress, &cancel).await?;
        progress(total, total);
        Ok(())
    }
}

fn add_record(record: &mut Record, dir: &Path, new: &NewSpare) -> Result<String> {
    let (name, path, bytes, file) = match new {
        NewSpare::File { bytes } => {
            check_size(*bytes)?;
            let name = record.next_name();
            let path: PathBuf = dir.join("devices").join(format!("{name}.img"));
            let bytes = device::make_file(&path, *bytes)?;
            (name, path, bytes, true)
        }
        NewSpare::Device { path, overwrite } => {
            if let Some(known) = record.devices.iter().find(|known| known.path == *path) {
                return Ok(known.name.clone());
            }
            let bytes = device::free_block_device(path, *overwrite)?;
            check_size(bytes)?;
            (record.next_name(), path.clone(), bytes, false)
        }
    };
    record.devices.push(DeviceRecord {
        name: name.clone(),
        path,
        file,
        bytes,
        number: None,
    });
    Ok(name)
}

/// From the record first: a file without a record is no device.
pub(super) fn forget(pool: &Shared, device: &DeviceRecord) -> Result<()> {
    pool.change(|record| {
        record.devices.retain(|known| known.name != device.name);
        Ok(())
    })?;
    if !device.file {
        return Ok(());
    }
    match std::fs::remove_file(&device.path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(StorageError::at("remove", &device.path)),
    }
}

pub(super) fn add_device(pool: &Shared, name: &str) -> Result<()> {
    let device = pool.record().device(name)?.clone();
    let fs = pool.fs()?;
    if device.number.is_some() {
        return Ok(());
    }
    // Held until the file system has it.
    let attached = prepare(pool, &device)?;
    fs.add_device(&attached.path)
        .map_err(|refused| pool.refused("add a device to", refused))?;
    open::reconcile(pool, &fs)
}

/// Makes a spare ready to be taken into the file system.
pub(super) fn prepare(pool: &Shared, device: &DeviceRecord) -> Result<attach::Attached> {
    if device.file && pool.record().preallocate {
        device::preallocate(&device.path, device.bytes)?;
    }
    device::attached(device)
}

/// A device that is to leave.
struct DepartingDevice {
    number: u64,
    /// What is on it.
    bytes: u64,
    /// It is not there: what was on it is written again from the other copy.
    missing: Option<DeviceRecord>,
}

/// What was deleted takes its room for a moment longer, so a refusal for lack
/// of room counts only when no more of it comes free.
pub(super) fn settled(pool: &Shared, check: impl Fn(&Facts) -> Result<()>) -> Result<Facts> {
    const ROUNDS: usize = 20;
    const POLL_INTERVAL: Duration = Duration::from_millis(100);
    let (mut least, mut rounds) = (u64::MAX, 0);
    loop {
        let facts = observe::facts(pool)?;
        let error = match check(&facts) {
            Ok(()) => return Ok(facts),
            Err(error @ StorageError::BelowUsed { .. }) => error,
            Err(error) => return Err(error),
        };
        rounds = if facts.stored_bytes < least {
            0
        } else {
            rounds + 1
        };
        least = least.min(facts.stored_bytes);
        if rounds >= ROUNDS {
            return Err(error);
        }
        let fs = pool.fs()?;
        fs.sync().map_err(StorageError::at("sync", &pool.mount))?;
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Waits until no more room comes free.
pub(super) fn settle(pool: &Shared) -> Result<()> {
    const ROUNDS: usize = 5;
    const MAX_POLLS: usize = 300;
    const POLL_INTERVAL: Duration = Duration::from_millis(100);
    let (mut least, mut rounds) = (u64::MAX, 0);
    for _ in 0..MAX_POLLS {
        let fs = pool.fs()?;
        fs.sync().map_err(StorageError::at("sync", &pool.mount))?;
        let stored = observe::facts(pool)?.stored_bytes;
        rounds = if stored < least { 0 } else { rounds + 1 };
        least = least.min(stored);
        if rounds >= ROUNDS {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Nothing when it left already.
fn to_remove(pool: &Shared, name: &str) -> Result<Option<DepartingDevice>> {
    let device = pool.record().device(name)?.clone();
    let Some(number) = device.number else {
        return Ok(None);
    };
    let facts = settled(pool, |facts| plan::may_leave(facts, name))?;
    let known = facts.devices.iter().find(|device| device.name == name);
    Ok(known.map(|known| DepartingDevice {
        number,
        bytes: known.allocated_bytes,
        missing: (known.state == DeviceState::Missing).then_some(device),
    }))
}

/// What a device must be to be put in the place of another.
pub(super) fn must_be_spare(pool: &Shared, name: &str) -> Result<DeviceRecord> {
    let device = pool.record().device(name)?.clone();
    let state = observe::device(pool, name)?.state;
    if state != DeviceState::Spare {
        return Err(StorageError::DeviceState {
            name: name.into(),
            state,
            must_be: "SPARE",
        });
    }
    Ok(device)
}
