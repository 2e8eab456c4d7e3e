//! Faults one after the other, chosen at random, two at a time: whatever is
//! killed, frozen, cut off or made deaf, and for however long, and whatever is
//! requested meanwhile, nothing runs twice, and all runs again when all is well.

use std::time::Duration;

use strata_testkit::cluster::{Cluster, TEST_TIMEOUT};
use strata_testkit::serde_json::json;
use strata_testkit::{Ledger, boot_time, holds, rounds, wait_for};

use super::{cluster, pass};

const LEASE: u64 = 5;
const NAMES: [&str; 3] = ["a", "b", "c"];
const IDS: [&str; 3] = ["id-a", "id-b", "id-c"];
/// Names the seed of a run that is to be repeated.
const SEED: &str = "STRATA_SEED";

/// Numbers at random that can be had again.
struct PseudoRandom(u64);

impl PseudoRandom {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// From a third of the lease to three of them.
    fn duration(&mut self) -> Duration {
        let thirds = [1, 2, 3, 4, 9][usize::try_from(self.below(5)).unwrap()];
        Duration::from_secs(LEASE) * thirds / 3
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Freeze,
    Cut,
    Deafen,
    Mute,
}

const FAULTS: [Fault; 5] = [
    Fault::Kill,
    Fault::Freeze,
    Fault::Cut,
    Fault::Deafen,
    Fault::Mute,
];

/// Who a fault strikes: a node, or the server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Node(usize),
    Server,
}

fn begin(cluster: &mut Cluster, victim: Victim, fault: Fault) {
    let (daemon, plug) = match victim {
        Victim::Node(at) => {
            let node = &mut cluster.nodes[at];
            (&mut node.daemon, &node.plug)
        }
        Victim::Server => (&mut cluster.server, &cluster.plug),
    };
    match fault {
        Fault::Kill => daemon.kill(),
        Fault::Freeze => daemon.freeze(true),
        Fault::Cut => cluster.switch.cut(plug),
        Fault::Deafen => cluster.switch.deafen(plug),
        Fault::Mute => cluster.switch.mute(plug),
    }
}

/// What is requested of an instance.
const REQUESTS: [&str; 4] = ["STOPPED", "RUNNING", "change", "move"];

/// Requests a change of an instance. The server may be one of the victims: then
/// it is not answered, and may happen later or never.
async fn request(cluster: &Cluster, random: &mut PseudoRandom) -> (&'static str, &'static str) {
    let id = IDS[usize::try_from(random.below(3)).unwrap()];
    let request = REQUESTS[usize::try_from(random.below(4)).unwrap()];
    let number = random.below(40) + 10;
    let body = match request {
        "change" => json!({ "labels": { "number": number.to_string() } }),
        "move" => json!({ "resources": { "cpu": number } }),
        status => json!({ "status": status }),
    };
    let rest = cluster.rest();
    let path = format!("/instance/{id}");
    let answer = rest.try_call("PATCH", &path, body);
    let _ = tokio::time::timeout(Duration::from_secs(1), answer).await;
    (id, request)
}

async fn end(cluster: &mut Cluster, victim: Victim, fault: Fault) {
    let (daemon, plug) = match victim {
        Victim::Node(at) => {
            let node = &mut cluster.nodes[at];
            (&mut node.daemon, &node.plug)
        }
        Victim::Server => (&mut cluster.server, &cluster.plug),
    };
    match fault {
        Fault::Kill => daemon.restart().await,
        Fault::Freeze => daemon.freeze(false),
        Fault::Cut | Fault::Deafen | Fault::Mute => cluster.switch.heal(plug),
    }
}

fn seed() -> u64 {
    let named = std::env::var(SEED).ok().and_then(|text| text.parse().ok());
    let now = u64::try_from(boot_time().as_nanos()).unwrap_or(1);
    named.unwrap_or(now).max(1)
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn faults_by_chance_leave_no_second_run() {
    let seed = seed();
    eprintln!("{SEED}={seed}");
    let mut random = PseudoRandom(seed);
    let mut cluster = cluster(LEASE, 3).await;
    let ledger = Ledger::new();
    for name in NAMES {
        ledger.create(&cluster, name, json!({})).await;
    }
    pass(Duration::from_secs(3)).await;
    let (mut story, mut requests) = (Vec::new(), Vec::new());
    for _ in 0..rounds(5, 40) {
        let victims = [
            Victim::Node(usize::try_from(random.below(3)).unwrap()),
            match random.below(2) {
                0 => Victim::Server,
                _ => Victim::Node(usize::try_from(random.below(3)).unwrap()),
            },
        ];
        let many = if victims[0] == victims[1] { 1 } else { 2 };
        let mut open = Vec::new();
        for victim in &victims[..many] {
            let fault = FAULTS[usize::try_from(random.below(5)).unwrap()];
            begin(&mut cluster, *victim, fault);
            let after = random.duration();
            story.push((boot_time(), *victim, fault, after));
            open.push((*victim, fault));
            requests.push((boot_time(), request(&cluster, &mut random).await));
            pass(after).await;
        }
        assert_exclusive(&ledger, seed, &story);
        for (victim, fault) in open {
            end(&mut cluster, victim, fault).await;
            requests.push((boot_time(), request(&cluster, &mut random).await));
            pass(random.duration() / 3).await;
        }
        assert_exclusive(&ledger, seed, &story);
    }
    eprintln!("{requests:?}");
    for id in IDS {
        let path = format!("/instance/{id}");
        let rest = cluster.rest();
        wait_for("it to be started", TEST_TIMEOUT, async || {
            let body = json!({ "status": "RUNNING" });
            let answer = rest.try_call("PATCH", &path, body).await;
            holds(answer.as_ref().is_ok_and(|it| it.status == 200))
                .map_err(|_| format!("{answer:?}"))
        })
        .await;
    }
    cluster.settles(&IDS, &[]).await;
    assert_exclusive(&ledger, seed, &story);
    for name in NAMES {
        eprintln!("{name}: {} runs", ledger.runs(name).len());
    }
}

#[track_caller]
fn assert_exclusive(ledger: &Ledger, seed: u64, story: &[(Duration, Victim, Fault, Duration)]) {
    for name in NAMES {
        let overlap = ledger.overlap(name);
        let runs = ledger.runs(name);
        assert!(
            overlap.is_zero(),
            "{SEED}={seed}: {name} ran twice for {overlap:?}: {runs:#?}\n{story:#?}"
        );
    }
}
