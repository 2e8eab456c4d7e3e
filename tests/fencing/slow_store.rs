//! A slow store delays what is written, and no heartbeat: those are answered by
//! a task of their own.

use std::time::{Duration, Instant};

use strata_testkit::cluster::{Cluster, Etcd, Switch, TEST_TIMEOUT};
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{Ledger, holds, skip, wait_for};

use super::{STRATA, pass};

/// How long a word of the store takes, there and back together.
const ROUND_TRIP: Duration = Duration::from_millis(100);
const INSTANCES: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn forty_instances_started_over_a_slow_store_delay_no_heartbeat() {
    if !Etcd::is_installed() {
        return skip("there is no etcd on this machine");
    }
    let switch = Switch::new();
    let etcd = Etcd::start(&switch);
    let (_way, url) = etcd.slow(ROUND_TRIP / 2).await;
    let config = format!(
        "[store]\netcd = [\"{url}\"]\n[scheduler]\nlease_seconds = 10\npolicy = \"spread\"\n"
    );
    let cluster = Cluster::build(STRATA)
        .on(&switch)
        .nodes(2)
        .server_config(&config)
        .start()
        .await;
    let ledger = Ledger::new();
    let on_first = json!({ "placement": { "constraints": ["node=n1"] } });
    ledger.create(&cluster, "web", on_first.clone()).await;
    pass(Duration::from_secs(3)).await;
    let begin = Instant::now();
    let creating = (0..INSTANCES).map(|number| create(&cluster, number, &on_first));
    let took = futures_util::future::join_all(creating).await;
    assert!(
        took.iter().all(|took| *took >= ROUND_TRIP),
        "the store is not slow: {took:?}"
    );
    wait_for("all to run", 2 * TEST_TIMEOUT, async || {
        let running = cluster
            .rest()
            .get("/instance?state=RUNNING&limit=100")
            .await;
        let running = running.as_array().map_or(0, Vec::len);
        holds(running == INSTANCES + 1).map_err(|_| format!("{running}"))
    })
    .await;
    print_time("40 instances run after", begin.elapsed());
    pass(Duration::from_secs(10)).await;
    for node in &cluster.nodes {
        let log = node.daemon.log();
        let late: Vec<&str> = log
            .lines()
            .filter(|line| {
                line.contains("answered late") || line.contains("lease expired without a heartbeat")
            })
            .collect();
        assert!(late.is_empty(), "{}: {late:#?}", node.name);
    }
    assert_eq!(ledger.runs("web").len(), 1, "{:?}", ledger.runs("web"));
    ledger.assert_running("web").await;
}

async fn create(cluster: &Cluster, number: usize, more: &Value) -> Duration {
    let mut instance = json!({
        "name": format!("i{number}"),
        "uri": cluster.image,
        "resources": { "cpu": 10 },
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut instance, more) {
        all.extend(more.clone());
    }
    let begin = Instant::now();
    let made = cluster.rest().call("PUT", "/instance", instance).await;
    assert!((200..300).contains(&made.status), "{made:?}");
    begin.elapsed()
}

#[allow(clippy::print_stderr)]
fn print_time(what: &str, took: Duration) {
    eprintln!("{what} {took:?}");
}
