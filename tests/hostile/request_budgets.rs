//! The weakest token against the control plane: what it may not take, others
//! have; no node is fenced, no instance is stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use strata_testkit::cluster::Cluster;
use strata_testkit::v1::PodState;

use super::STRATA;
use super::http2_client::{Caller, Latencies};
use super::load_ledger::Ledger;

const ATTACK: Duration = Duration::from_secs(8);
/// A short lease, and a budget that a debug build reaches.
const CONFIG: &str = "[scheduler]\nlease_seconds = 3\npolicy = \"spread\"\n\
    [limits]\nrequests_per_second = 40\n";
/// What a busy machine alone may add: the attacker computes on the same two
/// cores as the server.
const NOISE: Duration = Duration::from_millis(1500);
/// Three quarters of the lease of these clusters.
const LATE: Duration = Duration::from_millis(2250);

/// What the attacker was answered, by status.
#[derive(Default)]
struct Answers([AtomicUsize; 3]);

impl Answers {
    fn count(&self, status: u16) {
        let which = match status {
            200..300 => 0,
            429 => 1,
            _ => 2,
        };
        self.0[which].fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> [usize; 3] {
        [0, 1, 2].map(|which| self.0[which].load(Ordering::Relaxed))
    }
}

async fn run(cluster: &Cluster, words: &[&str]) -> String {
    let ran = cluster.cli().run(words.iter().copied()).await;
    ran.ok().trim().to_owned()
}

async fn project_token(cluster: &Cluster, name: &str) -> String {
    let words = [
        "token",
        "create",
        "--name",
        name,
        "--role",
        "operator",
        "--project",
        "shop",
        "-q",
    ];
    run(cluster, &words).await
}

/// As many connections and streams as it gets, each asking without a pause
/// for what costs most, and writing.
async fn flood(caller: Caller, answers: Arc<Answers>, until: Instant) {
    let workers = (0..24).map(|worker| {
        let (caller, answers) = (caller.clone(), answers.clone());
        tokio::spawn(async move {
            let mut n = 0;
            while Instant::now() < until {
                let Ok(mut connection) = caller.connect(1 << 16).await else {
                    answers.count(0);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                let mut watches = Vec::new();
                for _ in 0..64 {
                    n += 1;
                    let body = format!(r#"{{"name":"f{worker}-{n}","project":"shop","uri":"x"}}"#);
                    let asked = match n % 4 {
                        0 => {
                            if let Ok(watch) = connection.begin("/event?watch=true").await {
                                answers.count(watch.status().as_u16());
                                watches.push(watch);
                            }
                            continue;
                        }
                        1 => connection.ask(Method::PUT, "/workload", &body).await,
                        _ => {
                            let path = "/workload?limit=1000";
                            connection.ask(Method::GET, path, "").await
                        }
                    };
                    match asked {
                        Ok((status, wait)) => {
                            assert!(
                                status != 429 || wait.is_some(),
                                "429 says when to come again"
                            );
                            answers.count(status);
                        }
                        Err(_) => break,
                    }
                    if Instant::now() >= until {
                        break;
                    }
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
}

/// The process of every pod of an instance, by node and instance.
async fn processes(cluster: &Cluster) -> BTreeMap<(usize, String), (i64, u32)> {
    let mut all = BTreeMap::new();
    for node in 0..cluster.nodes.len() {
        for (id, pod) in cluster.pods_on(node).await {
            assert_eq!(pod.state(), PodState::Running, "{pod:?}");
            all.insert((node, id), (pod.process_id, pod.restarts));
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn flood_by_a_project_token_fences_no_node_and_starves_no_caller() {
    let cluster = Cluster::build(STRATA).server_config(CONFIG).start().await;
    run(&cluster, &["project", "create", "shop"]).await;
    for name in ["a", "b", "c", "d"] {
        cluster.run(cluster.instance(name)).await;
    }
    let before = processes(&cluster).await;
    assert_eq!(before.len(), 4);
    let ca = cluster.server.data_dir().join("client/ca.crt");
    let attacker = project_token(&cluster, "attacker").await;
    let other = project_token(&cluster, "other").await;
    let attacker = Caller::new(cluster.near(), &ca, Some(&attacker));
    let other = Caller::new(cluster.near(), &ca, Some(&other));
    let certificate = cluster.credentials("node", "ledger").await;
    let near = format!("https://{}", cluster.near());
    let ledger = Ledger::keep(&near, &certificate).await;

    let before_p99 = Latencies::of(&other, "/project/shop", 30).await.p99();
    let answers = Arc::<Answers>::default();
    let until = Instant::now() + ATTACK;
    let attack = tokio::spawn(flood(attacker, answers.clone(), until));
    // Everybody else is answered, every time, until the attack is over.
    let mut during = Vec::new();
    while Instant::now() < until {
        during.push(Latencies::of(&other, "/project/shop", 1).await.p99());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    attack.await.unwrap();
    during.sort();
    let during_p99 = during[(during.len() * 99).div_ceil(100) - 1];
    eprintln!(
        "p99 {before_p99:?} before, {during_p99:?} during; {:?}",
        answers.get()
    );
    assert!(during.len() >= 20, "{during:?}");
    assert!(during_p99 <= before_p99 * 2 + NOISE, "{during:?}");

    let [passed, refused, failed] = answers.get();
    assert!(passed > 0, "a budget is not nothing");
    assert!(
        refused > 0,
        "{passed} passed, {refused} refused, {failed} failed"
    );
    // Over the whole run: nobody stopped, nobody started again, nobody late.
    assert_eq!(processes(&cluster).await, before);
    for member in &cluster.nodes {
        let log = member.daemon.log();
        assert!(!log.contains("lease expired without a heartbeat"), "{log}");
        assert_eq!(log.matches(" following").count(), 1, "{log}");
    }
    let log = cluster.server.log();
    assert!(!log.contains("node lost"), "{log}");
    let (beats, slowest) = ledger.close();
    assert!(beats > 20, "{beats} heartbeats");
    assert!(slowest < LATE, "a heartbeat took {slowest:?}");
}
