//! Calls to the kernel that take as long as the data is large. Each runs on a
//! thread of its own, which no caller has to wait for: when the process ends,
//! the kernel ends the call, and nothing is lost. Progress and cancelling go
//! beside it.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::{DeviceTask, Progress, Shared, StoragePool, blocking};
use crate::btrfs::{Fs, Refused};
use crate::{Result, StorageError};

/// The interval of progress reports.
const TICK: Duration = Duration::from_millis(250);

/// The right to change the devices, for as long as it is held.
pub(super) struct DevicePermit {
    pool: Arc<Shared>,
    _turn: OwnedMutexGuard<()>,
}

impl Drop for DevicePermit {
    fn drop(&mut self) {
        *self
            .pool
            .doing
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Shared {
    pub(super) fn leaving(&self) -> Option<String> {
        let doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        doing.as_ref().and_then(|doing| doing.leaving.clone())
    }

    pub(super) fn refused(&self, what: &'static str, refused: Refused) -> StorageError {
        match refused {
            Refused::Failed(Errno::CANCELED | Errno::INTR) => StorageError::Cancelled { what },
            Refused::Failed(errno) => StorageError::at(what, &self.mount)(errno),
            Refused::Busy => StorageError::Busy {
                doing: "the kernel is still at the last one".into(),
            },
            Refused::TooFew | Refused::Last => {
                let record = self.record();
                StorageError::TooFewDevices {
                    least: crate::config::least_devices(record.profile),
                    present: record.devices.iter().filter(|d| d.number.is_some()).count(),
                }
            }
        }
    }
}

/// What a long call does, how far it is, and how it is stopped.
pub(super) struct Call<W, P, S> {
    pub(super) what: &'static str,
    pub(super) work: W,
    /// What is done, and of how much.
    pub(super) watch: P,
    pub(super) stop: S,
}

impl StoragePool {
    /// One change of the devices at a time.
    pub(super) fn turn(&self, what: &'static str, leaving: Option<&str>) -> Result<DevicePermit> {
        let doing = &self.0.doing;
        let Ok(turn) = Arc::clone(&self.0.changing).try_lock_owned() else {
            let doing = doing.lock().unwrap_or_else(PoisonError::into_inner);
            return Err(StorageError::Busy {
                doing: doing.as_ref().map_or("at its end", |d| d.what).into(),
            });
        };
        *doing.lock().unwrap_or_else(PoisonError::into_inner) = Some(DeviceTask {
            what,
            leaving: leaving.map(str::to_owned),
        });
        Ok(DevicePermit {
            pool: Arc::clone(&self.0),
            _turn: turn,
        })
    }

    /// Runs a call to its end, reports its progress, and cancels it on request.
    /// The turn is released when the kernel is done, with or without waiters.
    pub(super) async fn long<T, W, P, S>(
        &self,
        turn: DevicePermit,
        call: Call<W, P, S>,
        progress: &Progress<'_>,
        cancel: &CancellationToken,
    ) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Shared, &Fs) -> Result<T> + Send + 'static,
        P: Fn(&Fs) -> Option<(u64, u64)> + Send + Sync + 'static,
        S: Fn(&Fs) + Send + Sync + 'static,
    {
        let what = call.what;
        if cancel.is_cancelled() {
            return Err(StorageError::Cancelled { what });
        }
        let (done, mut ended) = tokio::sync::oneshot::channel();
        let work = call.work;
        std::thread::Builder::new()
            .name(format!("pool-{}", what.split(' ').next().unwrap_or("work")))
            .spawn(move || {
                let pool = Arc::clone(&turn.pool);
                let result = pool.fs().and_then(|fs| work(&pool, &fs));
                drop(turn);
                // No caller may be waiting any more.
                let _ = done.send(result);
            })
            .map_err(StorageError::at("start a thread for", &self.0.mount))?;

        let (watch, stop) = (Arc::new(call.watch), Arc::new(call.stop));
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                result = &mut ended => {
                    return result.unwrap_or(Err(StorageError::Cancelled { what }));
                }
                () = cancel.cancelled(), if !cancel.is_cancelled() => {}
                _ = tick.tick() => {}
            }
            let (shared, watch) = (Arc::clone(&self.0), Arc::clone(&watch));
            let stop = cancel.is_cancelled().then(|| Arc::clone(&stop));
            let now = blocking(move || {
                let fs = shared.fs()?;
                // Again each time: it may not have been at a point to stop.
                if let Some(stop) = stop {
                    stop(&fs);
                }
                Ok(watch(&fs))
            });
            if let Ok(Some((moved, total))) = now.await {
                progress(moved, total);
            }
        }
    }
}
