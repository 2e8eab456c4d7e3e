//! The storage pool: made larger and smaller while it is used, repaired,
//! scrubbed. One change of its devices at a time; the others wait their turn.

/// Waits while another call changes the devices: one that was abandoned
/// half-way may still be under way, in the kernel. (A macro, because what is
/// awaited borrows.)
macro_rules! in_turn {
    ($change:expr) => {{
        let until = tokio::time::Instant::now() + $crate::operations::storage::POOL_WAIT_TIMEOUT;
        loop {
            match $change.await {
                Err(strata_storage::StorageError::Busy { .. })
                    if tokio::time::Instant::now() < until =>
                {
                    tokio::time::sleep($crate::operations::storage::POLL_INTERVAL).await;
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
mod service;
mod shrink;

use std::sync::Arc;

use serde::Serialize;
use strata_storage::{PoolConfig, StorageError, StoragePool};
use strata_types::storage::{DeviceResize, Pool, PoolState};
use strata_types::{Error, Result};
use strata_workflow::{Claim, Kind, Step, StepContext, StepError};
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
                .with_hint("use the server that has it, or see [storage] in the configuration"));
        };
        let open = || StoragePool::open(lazy.config.clone());
        let pool = lazy.pool.get_or_try_init(open).await;
        Ok(pool.map_err(Error::from)?.clone())
    }

    /// The state of a pool that was not created yet.
    pub(crate) fn not_created(&self) -> Result<Pool> {
        let Some(lazy) = &self.0 else {
            return Err(Error::wrong_state("this server has no storage pool")
                .with_hint("use the server that has it, or see [storage] in the configuration"));
        };
        Ok(Pool {
            id: String::new(),
            state: PoolState::Offline,
            message: "it is made when something first needs it".into(),
            profile: lazy.config.profile,
            path: lazy.config.dir.join("mount").display().to_string(),
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
            Some(lazy) if lazy.pool.initialized() || lazy.config.dir.join("pool.json").exists() => {
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

/// What a step could not release of what its plan contains: there was no room
/// to move the data, as may happen where the pool is small.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shortfall {
    kept_bytes: u64,
}

/// Uses another amount of a device. Undone, it is used as before; one that has
/// left meanwhile is left alone.
fn resize_step<K>(resize: DeviceResize) -> Step<K>
where
    K: Kind<Context = Storage>,
{
    let back = resize.clone();
    let step = Step::new(
        format!("resize {}", resize.name),
        move |ctx: StepContext<K>| {
            let resize = resize.clone();
            async move { resize_device(&ctx, &resize.name, resize.to_bytes).await }
        },
    );
    let step = step.undo(move |ctx: StepContext<K>| {
        let resize = back.clone();
        async move {
            let undone = resize_device(&ctx, &resize.name, resize.from_bytes).await;
            undone.map(drop)
        }
    });
    step.timeout(STEP_TIMEOUT).undo_timeout(STEP_TIMEOUT)
}

async fn resize_device<K>(
    ctx: &StepContext<K>,
    name: &str,
    to_bytes: u64,
) -> Result<Shortfall, StepError>
where
    K: Kind<Context = Storage>,
{
    let pool = ctx.context.step_pool().await?;
    ctx.progress(format!(
        "{} of {name} are used from now on",
        bytes(to_bytes)
    ));
    let tell = progress_reporter(ctx, "moved");
    let resized = in_turn!(pool.resize_device(name, to_bytes, &tell, ctx.cancellation()));
    let kept_bytes = resized.map_err(failed)?;
    if kept_bytes > 0 {
        let kept = bytes(kept_bytes);
        ctx.progress(format!(
            "{name} keeps {kept} more: no room to move its data"
        ));
    }
    Ok(Shortfall { kept_bytes })
}

/// As long as the largest pool may take.
const STEP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(14 * 24 * 3600);

/// How long that is waited for, and how often it is checked.
const POOL_WAIT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3600);
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

/// A step of the pool failed.
fn failed(error: StorageError) -> StepError {
    match error {
        StorageError::Cancelled { .. } => StepError::Cancelled,
        other => step_failed(other.into()),
    }
}

/// Reports how many bytes are done.
fn progress_reporter<K: Kind>(
    ctx: &StepContext<K>,
    what: &'static str,
) -> impl Fn(u64, u64) + Send + Sync + 'static {
    let ctx = ctx.clone();
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
        ctx.progress_to(fraction, text);
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
    fn byte_amounts_are_formatted_with_units() {
        let told = [0, 999, 1000, 1_540_000, 25_000_000_000].map(bytes);
        assert_eq!(told, ["0 B", "999 B", "1.0 kB", "1.5 MB", "25 GB"]);
    }
}
