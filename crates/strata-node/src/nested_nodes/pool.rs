//! The storage pool of the host in its machines, also where it is made after
//! them: it is looked for as long as a machine runs, and mounted inside.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_tasks::TaskGroup;
use strata_types::Label;

use super::files::POOL;
use super::root::pool_mount;
use crate::blocking::blocking;
use crate::cells::Executable;
use crate::pool::NodePool;

/// How often the pool is looked for.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Ensures that a machine has the pool, until it ends.
pub(super) fn follow(
    tasks: &TaskGroup,
    pool: Arc<NodePool>,
    machine: Label,
    main: Arc<Executable>,
) {
    if !pool.is_expected() {
        return;
    }
    tasks.restart("pool-mount", move || {
        let (pool, machine, main) = (pool.clone(), machine.clone(), main.clone());
        async move {
        let looking = async {
            let mut failed = false;
            loop {
                tokio::time::sleep(CHECK_INTERVAL).await;
                match blocking(|| bring(&pool, main.pid)) {
                    Ok(false) => failed = false,
                    Ok(true) => {
                        tracing::info!(%machine, "storage pool mounted in the nested node");
                    }
                    Err(error) if !failed => {
                        tracing::warn!(%machine, %error, "storage pool not mounted in the nested node; retried every second");
                        failed = true;
                    }
                    Err(_) => {}
                }
            }
        };
        tokio::select! {
            () = looking => {}
            _ = main.ended() => {}
        }
        }
    });
}

/// Mounts the pool in a machine that does not have it; whether it did.
fn bring(pool: &NodePool, pid: i64) -> strata_types::Result<bool> {
    let Some(id) = pool.id() else {
        return Ok(false);
    };
    let inside = NodePool::new(Some(format!("/proc/{pid}/root{POOL}").into()));
    if inside.id().as_ref() == Some(&id) {
        return Ok(false);
    }
    let Some(mount) = pool_mount(pool)? else {
        return Ok(false);
    };
    strata_rootfs::attach_within(pid, &mount, Path::new(POOL)).map_err(super::root::failed)?;
    Ok(true)
}
