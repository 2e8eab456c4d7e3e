//! Clusters: one machine that controls and one that works, from the request
//! until kubectl sees both nodes ready, beside kubeadm by hand on machines of
//! the same kind that are up already; then one machine more, an upgrade, the
//! end, and what a cluster takes of memory on our side.

mod bundles;
mod by_hand;
mod memory;
mod ours;

use std::path::Path;
use std::time::Duration;

use bundles::Bundles;
use memory::{Memory, megabytes, on_machines};
use ours::World;

use crate::stats::{Scoreboard, load, milliseconds, skipped};
use crate::world::settle;
use crate::{Effort, Result};

const CREATE: &str = "strata: cluster create 1+1, until kubectl sees both Ready";
const COMPLETED: &str = "of it until the operation is COMPLETED";
const SCALE: &str = "strata: pool scale to 2, until COMPLETED";
const UPGRADE: &str = "strata: cluster upgrade of 1+2, until COMPLETED";
const DELETE: &str = "strata: cluster delete, until COMPLETED";
const WHOLE: &str = "by hand, on machines that are up, until both Ready";
const FROM_INIT: &str = "by hand, from kubeadm init on";
/// What is still being tidied up after a cluster came or went.
const SETTLE_TIME: Duration = Duration::from_secs(3);

#[allow(clippy::print_stdout)]
pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let bundles = match Bundles::find() {
        Ok(bundles) => bundles,
        Err(why) => {
            skipped("clusters", why);
            return Ok(());
        }
    };
    println!("Kubernetes {}\n", bundles.first.version());
    load("before");
    let world = World::start(binary, &bundles).await;
    let mut board = Scoreboard::default();
    let memory = tokio::task::block_in_place(|| -> Result<_> {
        let memory = memory_of_two(&world, &bundles, &mut board)?;
        by_hand_once(&world, &bundles, &mut board)?;
        for round in 1..=effort.cluster_rounds {
            // The upgrade takes minutes: once is enough.
            let last = round == effort.cluster_rounds;
            let next = bundles.next.as_ref().map(bundles::Bundle::version);
            let next = next.filter(|_| last && effort.cluster_upgrade);
            life(&world, &bundles, next.as_deref(), &mut board)?;
            by_hand_once(&world, &bundles, &mut board)?;
        }
        Ok(memory)
    })?;
    println!();
    board.print();
    board.ratio(CREATE, WHOLE, "below 1");
    board.ratio(CREATE, FROM_INIT, "-");
    if let Some(best) = board.at(CREATE, 0.0) {
        println!("{CREATE}, best: {} (aim 25000 ms)", milliseconds(best));
    }
    if !effort.cluster_upgrade {
        skipped("upgrade", "it takes minutes; only without --quick");
    } else if bundles.next.is_none() {
        skipped("upgrade", "no Kubernetes of the next minor version");
    }
    println!("\n| memory on our side | its own | resident |\n|---|---|---|");
    for (what, memory) in &memory.rows {
        println!("| {what} | {memory} |");
    }
    println!("\nwith the second cluster: {} more (aim 5 MB)", memory.each);
    load("after");
    Ok(())
}

/// From nothing to nothing.
fn life(world: &World, bundles: &Bundles, next: Option<&str>, board: &mut Scoreboard) -> Result {
    settle();
    create(world, "k1", bundles, board)?;
    board.add(SCALE, world.done("pool scale k1 workers 2")?);
    world.ready("k1", 3, &bundles.first)?;
    if let Some(version) = next {
        board.add(
            UPGRADE,
            world.done(&format!("cluster upgrade k1 {version}"))?,
        );
        world.ready("k1", 3, &bundles.first)?;
    }
    board.add(DELETE, world.done("cluster delete k1 --yes")?);
    Ok(())
}

fn create(world: &World, name: &str, bundles: &Bundles, board: &mut Scoreboard) -> Result {
    let created = world.create(name, &bundles.first)?;
    board.add(CREATE, created.ready);
    board.add(COMPLETED, created.completed);
    for (step, time) in created.steps {
        board.add(&format!("step {step}"), time);
    }
    Ok(())
}

/// Prints at once how it compares to the last one of ours: a busy moment of the
/// machine is seldom that of all rounds.
#[allow(clippy::print_stdout)]
fn by_hand_once(world: &World, bundles: &Bundles, board: &mut Scoreboard) -> Result {
    settle();
    let times = by_hand::by_hand(world, &bundles.first)?;
    if let Some(ours) = board.last(CREATE) {
        let (ours, theirs) = (ours.as_secs_f64(), times.whole.as_secs_f64());
        let ratio = ours / theirs.max(f64::MIN_POSITIVE);
        println!("strata {ours:.1} s, by hand after it {theirs:.1} s: {ratio:.2}");
        load("then");
    }
    board.add(WHOLE, times.whole);
    board.add(FROM_INIT, times.from_init);
    for (name, time) in times.parts {
        board.add(&format!("by hand, {name}"), time);
    }
    Ok(())
}

/// What was measured, and what the second cluster took.
struct Measured {
    rows: Vec<(String, Memory)>,
    each: String,
}

/// One cluster, then another one beside it. The first one pays for what is
/// made once, so the second one is what a cluster takes.
fn memory_of_two(world: &World, bundles: &Bundles, board: &mut Scoreboard) -> Result<Measured> {
    let server = || {
        std::thread::sleep(SETTLE_TIME);
        Memory::of(world.daemon.pid())
    };
    let mut rows = vec![("the daemon, no cluster yet".to_owned(), server()?)];
    create(world, "k1", bundles, board)?;
    let one = server()?;
    rows.push(("the daemon, one cluster of 1+1".to_owned(), one));
    // It has less of the machine for itself: not on the board.
    world.create("k2", &bundles.first)?;
    let two = server()?;
    rows.push(("the daemon, two".to_owned(), two));
    let runtime = tokio::runtime::Handle::current();
    rows.extend(runtime.block_on(async {
        let node = world.daemon.node().await;
        on_machines(&node).await
    })?);
    world.done("cluster delete k2 --yes")?;
    board.add(DELETE, world.done("cluster delete k1 --yes")?);
    rows.push(("the daemon, both deleted".to_owned(), server()?));
    Ok(Measured {
        rows,
        each: megabytes(two.own.saturating_sub(one.own)),
    })
}
