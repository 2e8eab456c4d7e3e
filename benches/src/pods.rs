//! How long it takes until a pod runs, with an address on the bridge, from an
//! image that is there. The peers have no network, or an empty one.

use std::path::Path;
use std::time::{Duration, Instant};

use strata_testkit::pods::ExecResult;
use strata_testkit::v1::{ExecStart, PodSecurity};

use crate::containerd::{self, Containerd};
use crate::peers::{Namespaces, Peer};
use crate::stats::{Scoreboard, skipped};
use crate::world::{PROGRAM, World, pod, rest, within};
use crate::{Effort, Result, floor};

const FLOOR: &str = "floor: clone3 with namespaces and network + exec + wait";
const FLOOR_VETH: &str = "floor: the same with a veth into it";
const RUNNING: &str = "strata: Create, until it runs";
const WHOLE: &str = "strata: Create + Wait + Destroy";
/// What a user namespace costs is the ratio of the two.
const HOST_USERS: &str = "strata: Create with the users of the host, until it runs";
const SLEEP: [&str; 3] = [PROGRAM, "sleep", "1000"];

/// The peers that are measured beside us, and what their rows are called.
pub(crate) struct Peers {
    bundles: Vec<(&'static str, Peer)>,
    pub(crate) containerd: Option<Containerd>,
}

pub(crate) const CRUN: &str = "crun run, no network";
pub(crate) const RUNC: &str = "runc run, no network";
pub(crate) const CTR: &str = "ctr run, empty network";
/// As `ctr` knows the image of busybox.
pub(crate) const CTR_IMAGE: &str = "bench/busybox:latest";

impl Peers {
    pub(crate) fn start(world: &World) -> Result<Self> {
        let wanted = [
            (CRUN, "crun", Namespaces::Cell),
            (
                "crun run, empty network",
                "crun",
                Namespaces::CellAndNetwork,
            ),
            (RUNC, "runc", Namespaces::Cell),
            (
                "runc run, empty network",
                "runc",
                Namespaces::CellAndNetwork,
            ),
        ];
        let mut bundles = Vec::new();
        for (row, program, namespaces) in wanted {
            match Peer::start(program, PROGRAM, namespaces) {
                Ok(peer) => bundles.push((row, peer)),
                Err(error) => skipped(row, error),
            }
        }
        let mut containerd = Containerd::start();
        if let Some(containerd) = &mut containerd {
            import(containerd, world)?;
            containerd.run(CTR_IMAGE, 1)?;
        }
        Ok(Self {
            bundles,
            containerd,
        })
    }

    /// One turn of each, so many at once; `before` is off the clock.
    pub(crate) fn turn(
        &mut self,
        board: &mut Scoreboard,
        at_once: usize,
        before: impl Fn() -> Result,
    ) -> Result {
        for (row, peer) in &mut self.bundles {
            rest();
            before()?;
            board.add(row, peer.run(at_once)?);
        }
        if let Some(containerd) = &mut self.containerd {
            rest();
            before()?;
            board.add(CTR, containerd.run(CTR_IMAGE, at_once)?);
        }
        Ok(())
    }
}

/// Gives `ctr` the image of busybox.
pub(crate) fn import(containerd: &Containerd, world: &World) -> Result {
    let archive = world.dir.path().join("busybox.tar");
    let archive = containerd::archive(&world.layout("busybox"), archive)?;
    let output = containerd.import(&archive, "bench/busybox").output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(())
}

pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let world = World::new(binary).await?;
    let image = world.busybox();
    world.pull(&image).await?;
    let mut peers = Peers::start(&world)?;
    // The first pod makes the bridge, and warms what there is to be warmed.
    one_of_ours(&world, &image, "first", &mut Scoreboard::default()).await?;
    let mut board = Scoreboard::default();
    for i in 0..effort.pods {
        floors(&world, i, &mut board)?;
        one_of_ours(&world, &image, &format!("pod-{i}"), &mut board).await?;
        peers.turn(&mut board, 1, || Ok(()))?;
    }
    tell(&board);
    in_a_row(&world, &image, &mut peers, effort.pods).await
}

#[allow(clippy::print_stdout)]
fn tell(board: &Scoreboard) {
    board.print();
    board.ratio(RUNNING, CRUN, "0.5");
    board.ratio(RUNNING, RUNC, "-");
    board.ratio(RUNNING, CTR, "-");
    board.ratio(RUNNING, FLOOR, "4");
    board.ratio(RUNNING, FLOOR_VETH, "-");
    board.ratio(WHOLE, CRUN, "-");
    board.ratio(RUNNING, HOST_USERS, "1.1");
}

/// The same without a rest: each again and again, as fast as it goes, while the
/// kernel still clears away the one before. It favours programs that need much
/// of the machine's caches, and costs those that leave much to clear.
#[allow(clippy::print_stdout)]
async fn in_a_row(world: &World, image: &str, peers: &mut Peers, times: usize) -> Result {
    println!("\nThe same, one right after the other:\n");
    let mut board = Scoreboard::default();
    for _ in 0..times {
        board.add(FLOOR, floor::with_network(PROGRAM)?);
    }
    for i in 0..times {
        let name = format!("floor{i}");
        let make = || floor::with_veth(PROGRAM, &name).map_err(|error| error.to_string());
        board.add(FLOOR_VETH, within(&world.network, make)??);
    }
    for i in 0..times {
        let name = format!("row-{i}");
        let begin = Instant::now();
        world.node.run_pod(pod(&name, image, &SLEEP)).await?;
        board.add(RUNNING, begin.elapsed());
        world.node.destroy_pod(&name).await?;
    }
    for i in 0..times {
        let name = format!("row-{i}");
        board.add(HOST_USERS, with_host_users(world, image, &name).await?);
    }
    for i in 0..times {
        board.add(WHOLE, whole(world, image, &format!("row-{i}")).await?);
    }
    for (row, peer) in &mut peers.bundles {
        for _ in 0..times {
            board.add(row, peer.run(1)?);
        }
    }
    tell(&board);
    Ok(())
}

fn floors(world: &World, number: usize, board: &mut Scoreboard) -> Result {
    rest();
    board.add(FLOOR, floor::with_network(PROGRAM)?);
    let name = format!("floor{number}");
    rest();
    let make = || floor::with_veth(PROGRAM, &name).map_err(|error| error.to_string());
    board.add(FLOOR_VETH, within(&world.network, make)??);
    Ok(())
}

/// Each call of a pod's life.
async fn one_of_ours(world: &World, image: &str, name: &str, board: &mut Scoreboard) -> Result {
    let node = &world.node;
    rest();
    let begin = Instant::now();
    node.run_pod(pod(name, image, &SLEEP)).await?;
    board.add(RUNNING, begin.elapsed());
    let (begin, executed) = (Instant::now(), exec(world, name).await?);
    board.add("strata: Exec of true, to its end", begin.elapsed());
    if executed.ended.exit_code != Some(0) {
        return Err(format!("{executed:?}").into());
    }
    let begin = Instant::now();
    node.destroy_pod(name).await?;
    board.add("strata: Destroy", begin.elapsed());

    rest();
    let begin = Instant::now();
    node.create_pod(pod(name, image, &SLEEP)).await?;
    board.add("strata: Create alone", begin.elapsed());
    let begin = Instant::now();
    node.start_pod(name).await?;
    board.add("strata: Start of one that is made", begin.elapsed());
    node.destroy_pod(name).await?;

    rest();
    board.add(HOST_USERS, with_host_users(world, image, name).await?);
    rest();
    board.add(WHOLE, whole(world, image, name).await?);
    Ok(())
}

/// Until a pod without a user namespace runs.
async fn with_host_users(world: &World, image: &str, name: &str) -> Result<Duration> {
    let mut spec = pod(name, image, &SLEEP);
    spec.security = Some(PodSecurity {
        user_namespace: Some(false),
        ..PodSecurity::default()
    });
    let begin = Instant::now();
    world.node.run_pod(spec).await?;
    let took = begin.elapsed();
    world.node.destroy_pod(name).await?;
    Ok(took)
}

async fn exec(world: &World, pod: &str) -> Result<ExecResult> {
    let start = ExecStart {
        pod: pod.into(),
        command: vec![PROGRAM.into(), "true".into()],
        ..ExecStart::default()
    };
    Ok(world.node.exec(start).await?)
}

/// What the peers' `run` does: make, start, wait, remove.
pub(crate) async fn whole(world: &World, image: &str, name: &str) -> Result<Duration> {
    let begin = Instant::now();
    world
        .node
        .run_pod(pod(name, image, &[PROGRAM, "true"]))
        .await?;
    world.node.wait_pod(name).await?;
    world.node.destroy_pod(name).await?;
    Ok(begin.elapsed())
}
