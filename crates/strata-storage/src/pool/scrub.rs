//! Everything is read over and compared with its checksum; what is kept twice
//! is mended from the other copy.

use rustix::io::Errno;
use strata_types::storage::{DeviceState, Scrub};
use tokio_util::sync::CancellationToken;

use super::long::Call;
use super::{Progress, Shared, StoragePool, observe};
use crate::btrfs::{Fs, ScrubFigures};
use crate::{Result, StorageError};

const SCRUB: &str = "scrub";

impl StoragePool {
    /// Reads everything over and mends what can be. When nothing was wrong,
    /// errors are counted from nothing again: what was wrong is mended.
    pub async fn scrub(&self, progress: &Progress<'_>, cancel: CancellationToken) -> Result<Scrub> {
        let turn = self.turn(SCRUB, None)?;
        let devices = self.run(to_scrub).await?;
        let numbers: Vec<u64> = devices.iter().map(|(number, _)| *number).collect();
        let call = Call {
            what: SCRUB,
            work: move |pool: &Shared, fs: &Fs| scrub(pool, fs, &numbers),
            watch: move |fs: &Fs| {
                let total = devices.iter().map(|(_, bytes)| bytes).sum();
                // A device that is done answers no more: all of it is read.
                let read = devices.iter().map(|(number, bytes)| {
                    let progress = fs.scrub_progress(*number);
                    progress.map_or(0, |progress| progress.bytes.min(*bytes))
                });
                Some((read.sum(), total))
            },
            stop: |fs: &Fs| {
                if let Err(errno) = fs.cancel_scrub() {
                    tracing::debug!(%errno, "scrub not cancelled");
                }
            },
        };
        self.long(turn, call, progress, &cancel).await
    }
}

/// Devices that are there, and what is given to data on each.
fn to_scrub(pool: &Shared) -> Result<Vec<(u64, u64)>> {
    let facts = observe::facts(pool)?;
    let record = pool.record();
    Ok(record
        .devices
        .iter()
        .filter_map(|device| {
            let known = facts
                .devices
                .iter()
                .find(|known| known.name == device.name)?;
            let there = known.state != DeviceState::Missing;
            let number = device.number.filter(|_| there)?;
            Some((number, known.allocated_bytes))
        })
        .collect())
}

/// All devices at once: they do not wait for each other.
fn scrub(pool: &Shared, fs: &Fs, numbers: &[u64]) -> Result<Scrub> {
    let results: Vec<Result<ScrubFigures, Errno>> = std::thread::scope(|scope| {
        let threads: Vec<_> = numbers
            .iter()
            .map(|number| scope.spawn(|| fs.scrub(*number)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(Errno::IO)))
            .collect()
    });
    let mut scrub = Scrub {
        ended_at_ms: jiff::Timestamp::now().as_millisecond(),
        ..Scrub::default()
    };
    for result in results {
        let figures = result.map_err(|errno| pool.refused(SCRUB, errno.into()))?;
        scrub.bytes += figures.bytes;
        scrub.corrected += figures.corrected;
        scrub.uncorrectable += figures.uncorrectable;
    }
    if scrub.corrected == 0 && scrub.uncorrectable == 0 {
        for number in numbers {
            fs.errors(*number, true)
                .map_err(StorageError::at("reset error counters in", &pool.mount))?;
        }
    }
    pool.change(|record| {
        record.scrub = Some(scrub.clone());
        Ok(())
    })?;
    Ok(scrub)
}
