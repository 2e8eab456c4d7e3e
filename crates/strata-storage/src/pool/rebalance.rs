//! After devices came, data is moved where the profile needs it: what was
//! written while a device was missing is kept twice again, and both copies of
//! new data find room.

use rustix::io::Errno;
use strata_types::storage::Profile;
use tokio_util::sync::CancellationToken;

use super::long::Call;
use super::{Progress, Shared, StoragePool, observe, reserve};
use crate::btrfs::{Chunk, Fs};
use crate::plan::{FreeSpace, next_to_move};
use crate::{Result, StorageError};

const CONVERT: &str = "keep everything as often as asked in";
const SPREAD: &str = "spread data in";

impl StoragePool {
    /// Writes again what is not kept as often as the profile requires, then
    /// moves data in a mirrored pool until new devices can be used to the full.
    /// Does nothing when nothing is to be done. To be called after devices were
    /// added. Cancelled, what was moved stays moved.
    pub async fn rebalance(
        &self,
        progress: &Progress<'_>,
        cancel: CancellationToken,
    ) -> Result<()> {
        self.convert(progress, &cancel).await?;
        if self.0.record().profile == Profile::Mirrored {
            self.spread(progress, &cancel).await?;
        }
        Ok(())
    }

    async fn convert(&self, progress: &Progress<'_>, cancel: &CancellationToken) -> Result<()> {
        let turn = self.turn(CONVERT, None)?;
        let facts = self.run(observe::facts).await?;
        let (total, profile) = (facts.astray_bytes, facts.profile);
        if total == 0 {
            return Ok(());
        }
        let call = Call {
            what: CONVERT,
            work: move |pool: &Shared, fs: &Fs| {
                let converted = fs.convert(profile);
                converted.map_err(|errno| pool.refused(CONVERT, errno.into()))
            },
            watch: move |fs: &Fs| {
                let left = fs.spaces(profile).ok()?.astray;
                Some((total.saturating_sub(left), total))
            },
            stop,
        };
        self.long(turn, call, progress, cancel).await
    }

    async fn spread(&self, progress: &Progress<'_>, cancel: &CancellationToken) -> Result<()> {
        let turn = self.turn(SPREAD, None)?;
        let token = cancel.clone();
        let call = Call {
            what: SPREAD,
            work: move |pool: &Shared, fs: &Fs| spread(pool, fs, &token),
            watch: |_: &Fs| None,
            stop,
        };
        self.long(turn, call, progress, cancel).await
    }
}

fn stop(fs: &Fs) {
    if let Err(errno) = fs.cancel_convert() {
        tracing::debug!(%errno, "balance not cancelled");
    }
}

fn spread(pool: &Shared, fs: &Fs, cancel: &CancellationToken) -> Result<()> {
    let failed = || StorageError::at::<Errno>(SPREAD, &pool.mount);
    if to_move(fs).map_err(failed())?.is_none() {
        return Ok(());
    }
    reserve::release(fs).map_err(failed())?;
    let moved = move_all(pool, fs, cancel);
    reserve::take(pool, fs);
    moved
}

fn move_all(pool: &Shared, fs: &Fs, cancel: &CancellationToken) -> Result<()> {
    let failed = || StorageError::at::<Errno>(SPREAD, &pool.mount);
    // Each chunk is moved once at most.
    let most = fs.data_chunks().map_err(failed())?.len();
    for _ in 0..most {
        if cancel.is_cancelled() {
            return Err(StorageError::Cancelled { what: SPREAD });
        }
        let Some(chunk) = to_move(fs).map_err(failed())? else {
            return Ok(());
        };
        fs.move_chunk(&chunk)
            .map_err(|errno| pool.refused(SPREAD, errno.into()))?;
    }
    Ok(())
}

fn to_move(fs: &Fs) -> Result<Option<Chunk>, Errno> {
    let rooms: Vec<FreeSpace> = fs
        .devices()?
        .iter()
        .filter(|device| device.path.is_some())
        .map(|device| FreeSpace {
            device: device.id,
            bytes: device.bytes.saturating_sub(device.allocated),
        })
        .collect();
    Ok(next_to_move(&fs.data_chunks()?, &rooms).cloned())
}
