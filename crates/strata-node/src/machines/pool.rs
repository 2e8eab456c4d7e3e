//! The storage pool of the host in its machines, also where it is made after
//! them: it is looked for as long as a machine runs, and mounted inside.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_types::Label;

use super::files::POOL;
use super::root::pool_mount;
use crate::blocking::blocking;
use crate::cells::Executable;
use crate::pool::NodePool;

/// How often the pool is looked for.
const LOOK: Duration = Duration::from_secs(1);

/// Sees to it that a machine has the pool, until it ends.
pub(super) fn follow(pool: Arc<NodePool>, machine: Label, main: Arc<Executable>) {
    if !pool.is_expected() {
        return;
    }
    tokio::spawn(async move {
        let looking = async {
            let mut failed = false;
            loop {
                tokio::time::sleep(LOOK).await;
                match blocking(|| bring(&pool, main.pid)) {
                    Ok(false) => failed = false,
                    Ok(true) => {
                        tracing::info!(%machine, "the storage pool was mounted in a machine");
                    }
                    Err(error) if !failed => {
                        tracing::warn!(%machine, %error, "the storage pool cannot be mounted in a machine; tried again every second");
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
