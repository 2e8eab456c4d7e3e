//! A unit whose record was emptied, as a loss of power does it: it never runs
//! twice.

use strata_testkit::pods::{dir, script};
use strata_testkit::v1::{PodSpec, PodState};
use strata_testkit::{TEST_TIMEOUT, holds, wait_for};

use crate::agent::{World, run, world};

/// Every run writes its own id, all the time.
const LEDGER: &str = "id=$(cat /proc/sys/kernel/random/uuid); \
    while :; do echo $id >> /scratch/ledger; sleep 0.02; done";

fn ledger(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.daemon.scratch().join("ledger"));
    text.unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// The runs of a ledger in their order; two that write at the same time come
/// more than once.
fn runs(ledger: &[String]) -> Vec<&String> {
    let mut runs: Vec<&String> = ledger.iter().collect();
    runs.dedup();
    runs
}

async fn writes(world: &World, runs_so_far: usize) {
    wait_for("the run to write", TEST_TIMEOUT, async || {
        let ledger = ledger(world);
        let found = runs(&ledger).len();
        let last = ledger.last().cloned();
        let many = ledger
            .iter()
            .filter(|id| Some(*id) == last.as_ref())
            .count();
        holds(found >= runs_so_far && many > 20).map_err(|_| format!("{found} runs"))
    })
    .await;
}

async fn emptied(world: &mut World) {
    world.daemon.kill();
    let record = world.daemon.data_dir().join("node/_pods/records/web.json");
    assert!(record.exists(), "{}", record.display());
    std::fs::write(&record, "").expect("the record can be emptied");
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_with_an_emptied_record_never_runs_twice() {
    let mut world = world().await;
    let server = world.followed().await;
    let spec = PodSpec {
        volumes: vec![dir(&world.daemon.scratch(), "/scratch")],
        ..script("web", &world.image, LEDGER)
    };
    let web = run("web", spec);
    server.assign(&web).await;
    server.becomes("web", PodState::Running).await;
    writes(&world, 1).await;
    emptied(&mut world).await;
    // Its name is held until it is assigned again.
    let server = world.server.next().await;
    server.reported().await;
    server.welcome().await;
    server.assign(&web).await;
    server.complete().await;
    server.becomes("web", PodState::Running).await;
    writes(&world, 2).await;
    let all = ledger(&world);
    assert_eq!(runs(&all).len(), 2, "two runs, one after the other");

    // Withdrawn while it is damaged, nothing of it is left.
    emptied(&mut world).await;
    let server = world.server.next().await;
    server.reported().await;
    server.welcome().await;
    server.withdraw("web").await;
    server.complete().await;
    server.becomes("web", PodState::Unspecified).await;
    assert!(world.node.pods().await.unwrap().is_empty());
}
