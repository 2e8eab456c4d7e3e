//! Two servers share a real etcd: both answer, one leads, and when that one
//! dies the other goes on where it was.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use strata_testkit::cluster::{Cluster, Plug, Switch};
use strata_testkit::scheduler::{Instance, Status};
use strata_testkit::{Daemon, NamespaceProxy, ServerClient, holds, wait_for};

use crate::control::{STRATA, TEST_TIMEOUT};

/// An etcd of one member on the switch.
struct Etcd {
    child: Child,
    url: String,
    _dir: tempfile::TempDir,
    _plug: Plug,
}

impl Etcd {
    fn start(switch: &Switch) -> Self {
        let plug = switch.plug(3);
        let dir = tempfile::tempdir().unwrap();
        let url = format!("http://{}:2379", plug.address);
        let data = dir.path().display().to_string();
        let child = plug
            .network
            .command([
                "etcd",
                "--data-dir",
                &data,
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
                "--listen-peer-urls",
                "http://127.0.0.1:2380",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            child,
            url,
            _dir: dir,
            _plug: plug,
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn leads(server: &Daemon) -> bool {
    server.runs() && server.log().contains("this server leads")
}

/// Creates an instance at a server, and waits until it runs.
async fn run(client: &ServerClient, instance: Instance) {
    let created = client.scheduler().create(instance).await.unwrap();
    let mut updates = created.into_inner();
    let running = async {
        while let Some(update) = updates.message().await.unwrap() {
            if update.status() == Status::Running {
                return;
            }
        }
        panic!("it came to its end");
    };
    tokio::time::timeout(TEST_TIMEOUT, running).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn a_second_server_takes_over_from_one_that_is_killed() {
    if Command::new("etcd").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("STRATA_REQUIRE_ALL").is_none(),
            "etcd is required"
        );
        eprintln!("skipped: there is no etcd on this machine");
        return;
    }
    let switch = Switch::new();
    let etcd = Etcd::start(&switch);
    // Longer than it takes to change the lead, with time to spare.
    let config = format!(
        "[store]\netcd = [\"{}\"]\n[scheduler]\nlease_seconds = 20\n",
        etcd.url
    );
    let mut cluster = Cluster::build(STRATA)
        .on(&switch)
        .nodes(0)
        .server_config(&config)
        .node_config("[images]\nhigh_water = 100\n[node]\nservers = [\"https://192.0.2.2:7700\"]\n")
        .start()
        .await;
    wait_for("the first to lead", TEST_TIMEOUT, async || {
        holds(leads(&cluster.server))
    })
    .await;
    let plug = switch.plug(2);
    let second = Daemon::build(STRATA)
        .role("server")
        .config(&config)
        .beside(&cluster.server)
        .listen("192.0.2.2:7700")
        .within(&plug.network)
        .start()
        .await;
    let way = NamespaceProxy::to(&plug.network, "192.0.2.2:7700".parse().unwrap()).await;
    for _ in 0..2 {
        cluster.add_node().await;
    }
    let dir = second.data_dir().join("client");
    let other = cluster.client_at(way.near(), &dir).await.unwrap();

    // Both answer, whichever leads; what one was told the other knows.
    let first = cluster.client().await;
    run(&first, cluster.instance("a")).await;
    run(&other, cluster.instance("b")).await;
    run(&other, cluster.instance("a")).await;
    run(&first, cluster.instance("b")).await;
    assert!(leads(&cluster.server) && !leads(&second));
    let before = cluster.settles(&["id-a", "id-b"], &[]).await;
    let process = cluster.place("id-a").await.1.process_id;

    let begin = Instant::now();
    cluster.server.kill();
    wait_for("the second to lead", TEST_TIMEOUT, async || {
        holds(leads(&second))
    })
    .await;
    run(&other, cluster.instance("c")).await;
    eprintln!(
        "killed to RUNNING by the second server: {:?}",
        begin.elapsed()
    );
    let after = cluster.settles(&["id-a", "id-b", "id-c"], &[]).await;
    assert_eq!(after["id-a"], before["id-a"]);
    assert_eq!(cluster.place("id-a").await.1.process_id, process);

    // The first comes back and follows; nothing is lost, nothing is doubled.
    cluster.server.restart().await;
    let first = cluster.client().await;
    run(&first, cluster.instance("d")).await;
    let all = ["id-a", "id-b", "id-c", "id-d"];
    cluster.settles(&all, &[]).await;
    for id in all {
        cluster.destroy(id).await.unwrap();
    }
    cluster.settles(&[], &[]).await;
    drop(cluster);
    drop(second);
}
