//! The pool as others see it: a handle that can be cloned. What waits for the
//! kernel runs on blocking threads.

mod clear;
mod devices;
mod files;
mod freeze;
mod long;
mod observe;
mod open;
mod rebalance;
mod replace;
mod reserve;
mod resize;
mod scrub;
mod snapshots;
mod stage;
mod tree;
mod volume_record;
mod volumes;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_types::storage::{ExpandPlan, Pool, ShrinkPlan};

use crate::btrfs::Fs;
use crate::config::PoolConfig;
use crate::record::Record;
use crate::{Result, StorageError, mount, plan};

/// Receives how much is done, and how much there is to do.
pub type Progress<'a> = dyn Fn(u64, u64) + Send + Sync + 'a;

#[derive(Clone)]
pub struct StoragePool(Arc<Shared>);

struct Shared {
    dir: PathBuf,
    mount: PathBuf,
    id: String,
    reserve: u64,
    record: Mutex<Record>,
    /// One change of the devices at a time; its caller, for as long as the
    /// kernel is at it.
    changing: Arc<tokio::sync::Mutex<()>>,
    /// What is being done to which device.
    doing: Arc<Mutex<Option<DeviceTask>>>,
    /// One change of volumes at a time: they take milliseconds.
    volumes: Mutex<()>,
    /// No other process has the pool while this is locked.
    _lock: File,
}

/// What is being done to the devices.
#[derive(Clone, Debug)]
struct DeviceTask {
    what: &'static str,
    /// The device that leaves.
    leaving: Option<String>,
}

impl Shared {
    /// The file system, if the one that is mounted is ours.
    fn fs(&self) -> Result<Fs> {
        let not_mounted = || StorageError::NotMounted {
            mount: self.mount.clone(),
        };
        let fs = Fs::open(&self.mount).map_err(|_| not_mounted())?;
        let id = fs.info().map_err(|_| not_mounted())?.id;
        if crate::btrfs::id_text(id) != self.id {
            return Err(not_mounted());
        }
        Ok(fs)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the record, on the disk first.
    fn change<T>(&self, change: impl FnOnce(&mut Record) -> Result<T>) -> Result<T> {
        let mut record = self.record();
        let mut new = record.clone();
        let answer = change(&mut new)?;
        if new != *record {
            new.write(&self.dir)?;
            *record = new;
        }
        Ok(answer)
    }
}

impl StoragePool {
    /// Makes the pool the first time, finds it again every other time: after a
    /// crash or a restart of the machine too. Mounts it without a device that
    /// is gone if nothing is on that alone.
    pub async fn open(config: PoolConfig) -> Result<Self> {
        let opened = blocking(move || open::open(&config)).await?;
        Ok(Self(Arc::new(opened)))
    }

    /// Where the pool is mounted.
    pub fn mount(&self) -> &Path {
        &self.0.mount
    }

    /// Its id; also in the file `pool-id` of the mount.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// What must stay free for writers.
    pub fn reserve_bytes(&self) -> u64 {
        self.0.reserve
    }

    /// Waits until what was deleted has given its room back: the kernel does
    /// that a moment later. Bounded; nothing depends on it but what is free.
    pub async fn settle(&self) -> Result<()> {
        self.run(devices::settle).await
    }

    /// How the pool is.
    pub async fn status(&self) -> Result<Pool> {
        self.run(observe::status).await
    }

    /// Which spares an expansion would use.
    pub async fn plan_expand(&self, min_bytes: u64) -> Result<ExpandPlan> {
        self.run(move |pool| plan::expand(&observe::facts(pool)?, min_bytes))
            .await
    }

    /// Which devices a shrink would give back.
    pub async fn plan_shrink(&self, max_bytes: u64) -> Result<ShrinkPlan> {
        self.run(move |pool| {
            // What was written a moment ago counts, too.
            let synced = pool.fs()?.sync();
            synced.map_err(StorageError::at("sync", &pool.mount))?;
            plan::shrink(&observe::facts(pool)?, max_bytes)
        })
        .await
    }

    /// How much less could be stored without a device.
    pub async fn given_by(&self, name: &str) -> Result<u64> {
        let name = name.to_owned();
        self.run(move |pool| Ok(plan::more_than(&observe::facts(pool)?, &name, 0)))
            .await
    }

    /// Unmounts the pool; its loop devices release their files by themselves.
    /// Refused while a process uses it.
    pub async fn close(&self) -> Result<()> {
        self.run(|pool| {
            mount::unmount_all(&pool.mount)?;
            for device in &pool.record().devices {
                if device.file && device.path.exists() {
                    crate::attach::wait_until_free(&device.path)?;
                }
            }
            Ok(())
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(&self.0);
        blocking(move || work(&shared)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(StorageError::Cancelled { what: "the work" }),
        },
    }
}
