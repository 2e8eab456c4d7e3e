//! A device is used in part: the pool is made smaller and larger by any amount
//! while it is used, without a whole device that comes or goes.
//!
//! The kernel moves data in chunks of up to a gigabyte, for each of which it
//! needs room of that size below the cut. So a device can be cut to any size
//! that leaves the plan's reserve, but not always at once and, where chunks are
//! large and the pool is small, not always as far. A cut that finds no room is
//! made in steps: after each, chunks are smaller. What is left is answered.

use rustix::io::Errno;
use strata_types::storage::Profile;
use tokio_util::sync::CancellationToken;

use super::devices::settled;
use super::long::Call;
use super::{Progress, Shared, StoragePool, observe, reserve};
use crate::btrfs::{Fs, Refused};
use crate::config::check_size;
use crate::record::DeviceRecord;
use crate::{Result, StorageError, device, plan};

const RESIZE: &str = "resize a device of";
/// How often a cut that finds no room is begun again from a smaller device.
const ROUNDS: usize = 4;
/// How many sizes in between are tried in a round, each nearer to the present.
const STEPS: usize = 4;
/// File systems count devices in these.
const BLOCK: u64 = 4096;

impl StoragePool {
    /// Uses so much of a device, in whole blocks; what lies beyond is moved
    /// first. The room of a file that is used no more goes back to the disk.
    /// One that is not in use, or used by that much already, is no error.
    /// Cancelled, nothing is lost, and more of it is used.
    ///
    /// Answers how much more can be stored than with a device of that size:
    /// 0, or more where data could not be moved so far.
    pub async fn resize_device(
        &self,
        name: &str,
        to_bytes: u64,
        progress: &Progress<'_>,
        cancel: CancellationToken,
    ) -> Result<u64> {
        check_size(to_bytes)?;
        let turn = self.turn(RESIZE, None)?;
        let device = name.to_owned();
        let found = self.run(move |pool| to_resize(pool, &device, to_bytes));
        let Some((device, number)) = found.await? else {
            return Ok(0);
        };
        let call = Call {
            what: RESIZE,
            work: move |pool: &Shared, fs: &Fs| resize(pool, fs, &device, number, to_bytes),
            watch: |_: &Fs| None,
            stop: |fs: &Fs| {
                if let Err(refused) = fs.cancel_resize() {
                    tracing::debug!(?refused, "resize not cancelled");
                }
            },
        };
        self.long(turn, call, progress, &cancel).await
    }
}

/// Nothing when it is not in use.
fn to_resize(pool: &Shared, name: &str, to_bytes: u64) -> Result<Option<(DeviceRecord, u64)>> {
    let device = pool.record().device(name)?.clone();
    if to_bytes > device.bytes {
        let why = format!("{name} has {} bytes, not {to_bytes}", device.bytes);
        return Err(StorageError::invalid("bytes", why));
    }
    let Some(number) = device.number else {
        return Ok(None);
    };
    settled(pool, |facts| plan::may_resize(facts, name, to_bytes))?;
    Ok(Some((device, number)))
}

fn resize(
    pool: &Shared,
    fs: &Fs,
    device: &DeviceRecord,
    number: u64,
    to_bytes: u64,
) -> Result<u64> {
    if device.file && pool.record().preallocate {
        device::preallocate(&device.path, to_bytes)?;
    }
    reserve::release(fs).map_err(StorageError::at(RESIZE, &pool.mount))?;
    let resized = cut(fs, number, to_bytes);
    reserve::take(pool, fs);
    let used = resized.map_err(|refused| pool.refused(RESIZE, refused))?;
    if device.file && used < device.bytes {
        // What was moved away is gone permanently once this is on the disk.
        fs.sync().map_err(StorageError::at("sync", &pool.mount))?;
        device::give_back_from(&device.path, used, device.bytes)?;
    }
    let facts = observe::facts(pool)?;
    Ok(plan::more_than(&facts, &device.name, to_bytes))
}

/// Cuts or grows a device, and answers its size then: a cut for which there is
/// no room ends at the smallest size that could be had.
fn cut(fs: &Fs, number: u64, to_bytes: u64) -> Result<u64, Refused> {
    for _ in 0..ROUNDS {
        if try_size(fs, number, to_bytes)? {
            return Ok(to_bytes);
        }
        let now = size(fs, number)?;
        if !step_down(fs, number, now, to_bytes)? {
            break;
        }
    }
    let now = size(fs, number)?;
    tracing::info!(
        number,
        to_bytes,
        now,
        "device cut less: no room to move its data"
    );
    Ok(now)
}

/// Cuts a device to a size between `now` and `to_bytes`; whether one could be
/// had.
fn step_down(fs: &Fs, number: u64, now: u64, to_bytes: u64) -> Result<bool, Refused> {
    let mut step = to_bytes;
    for _ in 0..STEPS {
        step += now.saturating_sub(step) / 4 / BLOCK * BLOCK;
        if try_size(fs, number, step)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Cuts or grows a device; false if there is no room for what must be moved.
fn try_size(fs: &Fs, number: u64, bytes: u64) -> Result<bool, Refused> {
    if !make_room_for_metadata(fs, number, bytes)? {
        return Ok(false);
    }
    match fs.resize(number, bytes) {
        Err(Refused::Failed(Errno::NOSPC)) => Ok(false),
        other => other.map(|()| true),
    }
}

/// Whether metadata can be moved off what lies beyond so much of a device, after
/// chunks of data that are empty were released if need be.
pub(super) fn make_room_for_metadata(fs: &Fs, number: u64, to_bytes: u64) -> Result<bool, Refused> {
    if metadata_has_room(fs, number, to_bytes)? {
        return Ok(true);
    }
    if let Err(errno) = fs.gather(0) {
        tracing::debug!(%errno, "empty chunks not released");
    }
    metadata_has_room(fs, number, to_bytes)
}

fn metadata_has_room(fs: &Fs, number: u64, to_bytes: u64) -> Result<bool, Refused> {
    let devices = fs.devices()?;
    let sizes: Vec<_> = devices
        .iter()
        .filter(|device| device.path.is_some())
        .map(|device| (device.id, device.bytes))
        .collect();
    let used = fs.spaces(Profile::Single)?.metadata_used;
    let stripes = fs.stripes()?;
    Ok(plan::metadata_has_room(
        &stripes, &sizes, number, to_bytes, used,
    ))
}

fn size(fs: &Fs, number: u64) -> Result<u64, Refused> {
    let devices = fs.devices()?;
    let found = devices.iter().find(|device| device.id == number);
    found
        .map(|device| device.bytes)
        .ok_or(Refused::Failed(Errno::NODEV))
}
