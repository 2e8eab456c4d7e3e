//! A device is used in part: the pool is made smaller and larger by any amount
//! while it is used, without a whole device that comes or goes.

use tokio_util::sync::CancellationToken;

use super::devices::settled;
use super::long::Call;
use super::{Progress, Shared, StoragePool, ballast};
use crate::btrfs::Fs;
use crate::config::check_size;
use crate::record::DeviceRecord;
use crate::{Result, StorageError, device, plan};

const RESIZE: &str = "resize a device of";

impl StoragePool {
    /// Uses so much of a device, in whole blocks; what lies beyond is moved
    /// first. The room of a file that is used no more goes back to the disk.
    /// One that is not in use, or used by that much already, is no error.
    /// Cancelled, as much is used as before; nothing is lost.
    pub async fn resize_device(
        &self,
        name: &str,
        to_bytes: u64,
        progress: &Progress<'_>,
        cancel: CancellationToken,
    ) -> Result<()> {
        check_size(to_bytes)?;
        let turn = self.turn(RESIZE, None)?;
        let device = name.to_owned();
        let found = self.run(move |pool| to_resize(pool, &device, to_bytes));
        let Some((device, number)) = found.await? else {
            return Ok(());
        };
        let call = Call {
            what: RESIZE,
            work: move |pool: &Shared, fs: &Fs| resize(pool, fs, &device, number, to_bytes),
            watch: |_: &Fs| None,
            stop: |fs: &Fs| {
                if let Err(refused) = fs.cancel_resize() {
                    tracing::debug!(?refused, "a resize cannot be stopped just now");
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

fn resize(pool: &Shared, fs: &Fs, device: &DeviceRecord, number: u64, to_bytes: u64) -> Result<()> {
    if device.file && pool.record().preallocate {
        device::preallocate(&device.path, to_bytes)?;
    }
    ballast::release(fs).map_err(StorageError::at(RESIZE, &pool.mount))?;
    let resized = fs.resize(number, to_bytes);
    ballast::take(pool, fs);
    resized.map_err(|refused| pool.refused(RESIZE, refused))?;
    if !device.file || to_bytes >= device.bytes {
        return Ok(());
    }
    // What was moved away is gone for good once this is on the disk.
    fs.sync().map_err(StorageError::at("sync", &pool.mount))?;
    device::give_back_from(&device.path, to_bytes, device.bytes)
}
