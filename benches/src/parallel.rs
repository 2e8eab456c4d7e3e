//! Many pods requested at the same moment.

use std::path::Path;
use std::time::Instant;

use strata_testkit::{Node, Status};
use tokio::task::JoinSet;

use crate::pods::{CRUN, CTR, Peers, RUNC};
use crate::stats::Scoreboard;
use crate::world::{PROGRAM, World, pod, settle};
use crate::{Effort, Result};

const RUNNING: &str = "strata: Create, until all run";
const WHOLE: &str = "strata: Create + Wait + Destroy of all";

#[allow(clippy::print_stdout)]
pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let world = World::new(binary).await?;
    let image = world.busybox();
    world.pull(&image).await?;
    let mut peers = Peers::start(&world)?;
    let at_once = effort.pods_at_once;
    let mut board = Scoreboard::default();
    for _ in 0..effort.rounds_at_once {
        settle();
        let begin = Instant::now();
        each(&world, at_once, &image, |node, name, image| async move {
            node.run_pod(pod(&name, &image, &[PROGRAM, "sleep", "1000"]))
                .await
                .map(drop)
        })
        .await?;
        board.add(RUNNING, begin.elapsed());
        let begin = Instant::now();
        each(&world, at_once, &image, |node, name, _| async move {
            node.destroy_pod(&name).await
        })
        .await?;
        board.add("strata: Destroy of all", begin.elapsed());
        settle();
        let begin = Instant::now();
        each(&world, at_once, &image, |node, name, image| async move {
            node.run_pod(pod(&name, &image, &[PROGRAM, "true"])).await?;
            node.wait_pod(&name).await?;
            node.destroy_pod(&name).await
        })
        .await?;
        board.add(WHOLE, begin.elapsed());
        peers.turn(&mut board, at_once, || {
            settle();
            Ok(())
        })?;
    }
    println!("{at_once} at once, until the last is done.\n");
    board.print();
    board.ratio(RUNNING, CRUN, "0.5");
    board.ratio(RUNNING, RUNC, "-");
    board.ratio(RUNNING, CTR, "-");
    board.ratio(WHOLE, CRUN, "-");
    Ok(())
}

/// Does something for each pod, all at the same moment.
async fn each<W>(
    world: &World,
    count: usize,
    image: &str,
    work: impl Fn(Node, String, String) -> W,
) -> Result
where
    W: Future<Output = std::result::Result<(), Status>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for i in 0..count {
        let (node, name, image) = (world.node.clone(), format!("pod-{i}"), image.to_owned());
        tasks.spawn(work(node, name, image));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}
