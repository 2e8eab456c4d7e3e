//! The first pod from an image that was just pulled, with nothing of it, nor
//! of the programs that make the pod, in the machine's page cache.

use std::path::Path;
use std::time::Instant;

use crate::pods::{CRUN, CTR, CTR_IMAGE, Peers, RUNC, import};
use crate::stats::Scoreboard;
use crate::world::{PROGRAM, World, pod, settle};
use crate::{Effort, Result};

const RUNNING: &str = "strata: Create, until it runs";

pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let world = World::new(binary).await?;
    let image = world.busybox();
    let mut peers = Peers::start(&world)?;
    let mut board = Scoreboard::default();
    for i in 0..effort.cold_pods {
        world.pull(&image).await?;
        forget_pages()?;
        let name = format!("cold-{i}");
        let begin = Instant::now();
        let spec = pod(&name, &image, &[PROGRAM, "sleep", "1000"]);
        world.node.run_pod(spec).await?;
        board.add(RUNNING, begin.elapsed());
        world.node.destroy_pod(&name).await?;
        world.remove_image(&image).await?;
        if let Some(containerd) = &peers.containerd {
            containerd.remove(CTR_IMAGE)?;
            import(containerd, &world)?;
        }
        peers.turn(&mut board, 1, forget_pages)?;
    }
    board.print();
    board.ratio(RUNNING, CRUN, "0.5");
    board.ratio(RUNNING, RUNC, "-");
    board.ratio(RUNNING, CTR, "-");
    Ok(())
}

/// Only what is written to the disk can be forgotten.
fn forget_pages() -> Result {
    settle();
    std::fs::write("/proc/sys/vm/drop_caches", "3")?;
    Ok(())
}
