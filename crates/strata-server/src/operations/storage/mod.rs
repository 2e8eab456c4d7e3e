//! The storage pool: made larger and smaller while it is used, mended, looked
//! over. One change of its devices at a time; the others wait their turn.

/// Waits while somebody else changes the devices: who was given up on half-way
/// may still be at it, in the kernel. (A macro, because what is awaited borrows.)
macro_rules! in_turn {
    ($change:expr) => {{
        let until = tokio::time::Instant::now() + $crate::operations::storage::TURN;
        loop {
            match $change.await {
                Err(strata_storage::StorageError::Busy { .. })
                    if tokio::time::Instant::now() < until =>
                {
                    tokio::time::sleep($crate::operations::storage::LOOK).await;
                }
                other => break other,
            }
        }
    }};
}
use crate::operations::step_failed;

mod expand;
mod replace;
mod scrub;
mod shrink;

use std::sync::Arc;

use strata_storage::{PoolConfig, StorageError, StoragePool};
use strata_types::storage::{DeviceResize, Pool, PoolState};
use strata_types::{Error, Result};
use strata_workflow::{At, Claim, Kind, Step, StepError};
use tokio::sync::OnceCell;

pub use expand::{ExpandInput, ExpandStorage};
pub use replace::{ReplaceDevice, ReplaceInput};
pub use scrub::{ScrubInput, ScrubStorage};
pub use shrink::{ShrinkInput, ShrinkStorage};

/// The pool of this server's machine. It is made when it is first needed, and
/// found again when the server starts. Cheap to clone.
#[derive(Clone, Default)]
pub struct Storage(Option<Arc<Lazy>>);

struct Lazy {
    config: PoolConfig,
    pool: OnceCell<StoragePool>,
}

impl Storage {
    /// As configured.
    pub fn new(config: PoolConfig) -> Self {
        let pool = OnceCell::new();
        Self(Some(Arc::new(Lazy { config, pool })))
    }

    /// Of a server that has none.
    pub fn none() -> Self {
        Self(None)
    }

    /// The pool, made or opened if it is not yet.
    pub async fn pool(&self) -> Result<StoragePool> {
        let Some(lazy) = &self.0 else {
            return Err(Error::wrong_state("this server has no storage pool")
                .with_hint("ask the server that has it, or see [storage] in the configuration"));
        };
        let open = || StoragePool::open(lazy.config.clone());
        let pool = lazy.pool.get_or_try_init(open).await;
        Ok(pool.map_err(Error::from)?.clone())
    }

    /// What is told of a pool that was not made yet.
    pub(crate) fn unmade(&self) -> Result<Pool> {
        let Some(lazy) = &self.0 else {
            return Err(Error::wrong_state("this server has no storage pool")
                .with_hint("ask the server that has it, or see [storage] in the configuration"));
        };
        Ok(Pool {
            id: String::new(),
            state: PoolState::Offline,
            message: "it is made when something first needs it".into(),
            profile: lazy.config.profile,
            path: lazy.config.folder.join("mount").display().to_string(),
            bytes: 0,
            used_bytes: 0,
            free_bytes: 0,
            devices: Vec::new(),
            volumes: 0,
            scrub: None,
        })
    }

    /// The pool if it was ever made.
    pub async fn existing(&self) -> Result<Option<StoragePool>> {
        match &self.0 {
            Some(lazy)
                if lazy.pool.initialized() || lazy.config.folder.join("pool.json").exists() =>
            {
                self.pool().await.map(Some)
            }
            _ => Ok(None),
        }
    }

    async fn step_pool(&self) -> Result<StoragePool, StepError> {
        self.pool().await.map_err(step_failed)
    }
}

/// What changes its devices has the pool to itself.
fn claims() -> Vec<Claim> {
    vec![Claim::exclusive("storage")]
}

/// Uses another amount of a device. Undone, it is used as before; one that has
/// left meanwhile is left alone.
fn resize_step<K>(resize: DeviceResize) -> Step<K>
where
    K: Kind<Context = Storage>,
{
    let back = resize.clone();
    let step = Step::new(format!("resize {}", resize.name), move |at: At<K>| {
        let resize = resize.clone();
        async move { resize_device(&at, &resize.name, resize.to_bytes).await }
    });
    let step = step.undo(move |at: At<K>| {
        let resize = back.clone();
        async move { resize_device(&at, &resize.name, resize.from_bytes).await }
    });
    step.timeout(LONGEST).undo_timeout(LONGEST)
}

async fn resize_device<K>(at: &At<K>, name: &str, to_bytes: u64) -> Result<(), StepError>
where
    K: Kind<Context = Storage>,
{
    let pool = at.context.step_pool().await?;
    at.progress(format!(
        "{} of {name} are used from now on",
        bytes(to_bytes)
    ));
    let tell = teller(at, "moved");
    let resized = in_turn!(pool.resize_device(name, to_bytes, &tell, at.cancellation()));
    resized.map_err(failed)
}

/// As long as the largest pool may take.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(14 * 24 * 3600);

/// How long that is waited for, and how often it is looked.
const TURN: std::time::Duration = std::time::Duration::from_secs(3600);
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// A step of the pool failed.
fn failed(error: StorageError) -> StepError {
    match error {
        StorageError::Cancelled { .. } => StepError::Cancelled,
        other => step_failed(other.into()),
    }
}

/// Tells how many bytes are done.
fn teller<K: Kind>(at: &At<K>, what: &'static str) -> impl Fn(u64, u64) + Send + Sync + 'static {
    let at = at.clone();
    let began = std::time::Instant::now();
    move |done, total| {
        let fraction = match total {
            0 => 1.0,
            total => done as f64 / total as f64,
        };
        let seconds = began.elapsed().as_secs_f64().max(0.001);
        let rate = done as f64 / seconds;
        let mut text = format!("{what}: {} of {}", bytes(done), bytes(total));
        if done > 0 && done < total && seconds > 1.0 {
            let left = ((total - done) as f64 / rate).ceil();
            text += &format!(", {}/s, {left:.0} s left", bytes(rate as u64));
        }
        at.progress_to(fraction, text);
    }
}

/// An amount for people.
pub(crate) fn bytes(amount: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = amount as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{amount} B"),
        _ if value < 10.0 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn amounts_are_told_as_people_say_them() {
        let told = [0, 999, 1000, 1_540_000, 25_000_000_000].map(bytes);
        assert_eq!(told, ["0 B", "999 B", "1.0 kB", "1.5 MB", "25 GB"]);
    }
}
