//! The CA is rotated while nodes, clients and work go on, and a kill of the
//! server at any step costs nothing but the repetition of the step.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use strata_testkit::cluster::{Cluster, Rest, TEST_TIMEOUT};
use strata_testkit::machines::{HostDaemon, machine};
use strata_testkit::serde_json::Value;
use strata_testkit::{Cli, HttpsResponse, wait_for};

use super::STRATA;

async fn ca(cluster: &Cluster) -> Value {
    cluster.cli().run(["ca", "show", "-o", "json"]).await.json()
}

async fn step(cluster: &Cluster, words: &[&str]) {
    cluster.cli().run(words.iter().copied()).await.ok();
}

/// Waits until no node depends on the old root.
async fn nodes_renewed(cluster: &Cluster) {
    wait_for("the nodes to renew", TEST_TIMEOUT, async || {
        let now = ca(cluster).await;
        match now["nodes"].as_array().is_some_and(Vec::is_empty) {
            true => Ok(()),
            false => Err(now.to_string()),
        }
    })
    .await;
}

fn roots(file: &Path) -> usize {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.matches("BEGIN CERTIFICATE").count()
}

/// Waits until every node trusts so many roots, by what it has on disk.
async fn nodes_trust(cluster: &Cluster, count: usize) {
    wait_for("the nodes to trust the roots", TEST_TIMEOUT, async || {
        let files = cluster.nodes.iter();
        let files = files.map(|node| node.daemon.data_dir().join("identity/ca.crt"));
        let found: Vec<_> = files.map(|file| roots(&file)).collect();
        match found.iter().all(|found| *found == count) {
            true => Ok(()),
            false => Err(format!("{found:?}")),
        }
    })
    .await;
}

/// Requests one after the other, each by a connection of its own.
struct Load {
    dir: Arc<Mutex<PathBuf>>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<Vec<String>>,
}

impl Load {
    fn start(cluster: &Cluster, dir: &Path, path: &'static str) -> Self {
        let dir = Arc::new(Mutex::new(dir.to_owned()));
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let near = cluster.near();
        let (using, stopped, count) = (dir.clone(), stop.clone(), answered.clone());
        let task = tokio::spawn(async move {
            let mut failures = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let dir = using.lock().unwrap().clone();
                let rest = Rest::new(near, &dir);
                match rest.try_call("GET", path, Value::Null).await {
                    Ok(answer) if answer.status == 200 => {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    other => failures.push(format!("{other:?}")),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            failures
        });
        Self {
            dir,
            stop,
            answered,
            task,
        }
    }

    async fn end(self) {
        let before = self.answered.load(Ordering::Relaxed);
        wait_for(
            "requests after the last step",
            TEST_TIMEOUT,
            async || match self.answered.load(Ordering::Relaxed) > before + 20 {
                true => Ok(()),
                false => Err("not yet".to_owned()),
            },
        )
        .await;
        self.stop.store(true, Ordering::Relaxed);
        let failures = self.task.await.unwrap();
        assert!(failures.is_empty(), "{failures:#?}");
    }
}

async fn ask(cluster: &Cluster, dir: &Path) -> std::io::Result<HttpsResponse> {
    let rest = Rest::new(cluster.near(), dir);
    rest.try_call("GET", "/instance", Value::Null).await
}

/// A copy of a directory of credentials.
fn copy(dir: &Path, name: &str) -> PathBuf {
    let to = dir.with_file_name(name);
    fs::create_dir_all(&to).unwrap();
    for file in ["ca.crt", "client.crt", "client.key"] {
        fs::copy(dir.join(file), to.join(file)).unwrap();
    }
    to
}

#[tokio::test(flavor = "multi_thread")]
async fn rotation_interrupts_no_work_and_no_request() {
    let cluster = Cluster::start(STRATA, 2).await;
    let mut updates = cluster.run(cluster.instance("it")).await;
    updates.until_running().await;
    let (_, before) = cluster.place("id-it").await;
    let old = cluster.credentials("operator", "olga").await;
    let load = Load::start(&cluster, &old, "/instance");
    let url = cluster.server.endpoints().server.unwrap();
    let by = |dir: &Path| {
        let cli = cluster.server.cli().env("STRATA_SERVER", &url);
        cli.env("STRATA_CREDENTIALS", dir)
    };
    let mut open = by(&old).command(["events", "-f"]).spawn().unwrap();
    let first_key = fs::read(cluster.server.data_dir().join("ca/ca.key")).unwrap();

    step(&cluster, &["ca", "rotate"]).await;
    nodes_trust(&cluster, 2).await;
    step(&cluster, &["ca", "activate"]).await;
    nodes_renewed(&cluster).await;
    // A person's certificate is not renewed by itself, and holds the step up.
    let now = ca(&cluster).await;
    assert_eq!(now["phase"], "issuing", "{now}");
    assert_eq!(now["remaining"], 1, "{now}");
    let refused = cluster.cli().run(["ca", "retire", "--yes"]).await;
    assert_eq!(refused.code, Some(6), "{refused:?}");
    let new = copy(&old, "renewed");
    let renewed = by(&new).run(["certificate", "renew"]).await;
    renewed.ok();
    assert_eq!(roots(&new.join("ca.crt")), 2);
    *load.dir.lock().unwrap() = new.clone();
    // Those under way with the old one.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(matches!(open.try_wait(), Ok(None)), "nothing is closed yet");

    step(&cluster, &["ca", "retire", "--yes"]).await;
    let now = ca(&cluster).await;
    assert_eq!(
        (&now["phase"], &now["remaining"]),
        (&"stable".into(), &0.into())
    );
    // What the old certificate has open is closed, and it opens nothing more.
    wait_for("the old stream to end", TEST_TIMEOUT, async || {
        match open.try_wait() {
            Ok(Some(status)) if !status.success() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let answer = ask(&cluster, &old).await;
    assert!(answer.is_err(), "its root is trusted no more: {answer:?}");
    let trusting = copy(&old, "trusting");
    fs::copy(new.join("ca.crt"), trusting.join("ca.crt")).unwrap();
    let answer = ask(&cluster, &trusting).await;
    let refused = answer.as_ref().map_or(true, |answer| answer.status == 401);
    assert!(refused, "a certificate of the old root: {answer:?}");
    nodes_trust(&cluster, 1).await;
    let on_node = cluster.nodes[0].daemon.node_with(&trusting).await;
    let asked = match on_node {
        Ok(node) => node
            .pods()
            .await
            .map(drop)
            .map_err(|status| status.to_string()),
        Err(error) => Err(error.to_string()),
    };
    asked.unwrap_err();
    // The key of the old root is nowhere, and nothing else is left of it.
    let dir = cluster.server.data_dir().join("ca");
    let mut names: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["ca.crt", "ca.key"]);
    assert_ne!(fs::read(dir.join("ca.key")).unwrap(), first_key);
    load.end().await;
    // The same process as before.
    let (_, after) = cluster.place("id-it").await;
    assert_eq!(before.process_id, after.process_id);
    let executed = ["instance", "exec", "it", "--", "/bin/busybox", "true"];
    by(&new).run(executed).await.ok();
    // A node joins by the new root.
    let mut cluster = cluster;
    cluster.add_node().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_goes_on_and_absent_node_comes_back() {
    let mut cluster = Cluster::start(STRATA, 2).await;
    let mut updates = cluster.run(cluster.instance("it")).await;
    updates.until_running().await;
    let away = cluster.nodes[1].name.clone();
    cluster.nodes[1].daemon.kill();
    for (words, phase) in [
        (&["ca", "rotate"][..], "introduced"),
        (&["ca", "activate"][..], "issuing"),
    ] {
        step(&cluster, words).await;
        let known = ca(&cluster).await;
        cluster.server.kill();
        cluster.server.restart().await;
        cluster.client().await;
        let now = ca(&cluster).await;
        assert_eq!(now["phase"], phase, "{now}");
        assert_eq!(
            (&now["current"], &now["next"]),
            (&known["current"], &known["next"])
        );
        // Once more is no more.
        step(&cluster, words).await;
        assert_eq!(ca(&cluster).await["next"], known["next"]);
    }
    // The node that was there follows; the other is waited for.
    wait_for("one node to renew", TEST_TIMEOUT, async || {
        let now = ca(&cluster).await;
        let left = now["nodes"].as_array().cloned().unwrap_or_default();
        match left == [Value::from(away.clone())] {
            true => Ok(()),
            false => Err(now.to_string()),
        }
    })
    .await;
    let refused = cluster.cli().run(["ca", "retire", "--yes"]).await;
    assert_eq!(refused.code, Some(6), "{refused:?}");
    cluster.nodes[1].daemon.restart().await;
    nodes_renewed(&cluster).await;
    let next = ca(&cluster).await["next"].clone();

    // Killed in the middle of the last step: the state is written, the files
    // are not moved.
    cluster.server.kill();
    let dir = cluster.server.data_dir().join("ca");
    fs::write(dir.join("rotation.json"), r#"{"phase":"retiring"}"#).unwrap();
    cluster.server.restart().await;
    cluster.client().await;
    let now = ca(&cluster).await;
    assert_eq!((&now["phase"], &now["current"]), (&"stable".into(), &next));
    let again = cluster.cli().run(["ca", "retire", "--yes"]).await;
    assert_eq!(again.code, Some(6), "{again:?}");
    nodes_trust(&cluster, 1).await;
    for node in &cluster.nodes {
        cluster.node_is(&node.name, "READY").await;
    }
    // By its own data directory the local admin is in, with all that was before.
    let executed = ["instance", "exec", "it", "--", "/bin/busybox", "true"];
    cluster.cli().run(executed).await.ok();
    // A second rotation, forced.
    step(&cluster, &["ca", "rotate"]).await;
    step(&cluster, &["ca", "activate"]).await;
    nodes_renewed(&cluster).await;
    cluster.credentials("viewer", "vera").await;
    step(&cluster, &["ca", "retire", "--yes", "--force"]).await;
    assert_ne!(ca(&cluster).await["current"], next);
}

/// `strata up`: the node beside the server, a nested node with a
/// certificate that was handed to it, and a login with a token.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_the_host_and_logins_follow_the_roots() {
    let outside = HostDaemon::start(STRATA).await;
    let inside = outside.spawn(machine("one")).await;
    let daemon = &outside.daemon;
    let admin = daemon.cli_with_endpoints();
    let home = daemon.scratch().join("home");
    fs::create_dir_all(&home).unwrap();
    let url = daemon.endpoints().server.unwrap();
    let user = Cli::new(STRATA, &home).within(&outside.network);
    let token = ["token", "create", "--name", "tina", "--role", "viewer"];
    let token = admin.run(token).await.ok();
    fs::write(home.join("token"), token).unwrap();
    let ca = daemon.scratch().join("ca.crt");
    fs::copy(daemon.data_dir().join("client/ca.crt"), &ca).unwrap();
    let (ca, file) = (
        ca.display().to_string(),
        home.join("token").display().to_string(),
    );
    let words = [
        "login",
        "--server",
        &url,
        "--ca",
        &ca,
        "--token-file",
        &file,
    ];
    user.run(words).await.ok();

    admin.run(["ca", "rotate"]).await.ok();
    admin.run(["ca", "activate"]).await.ok();
    user.run(["whoami"]).await.ok();
    user.run(["login", "--refresh"]).await.ok();
    wait_for(
        "nothing to depend on the old root",
        TEST_TIMEOUT,
        async || {
            let now = admin.run(["ca", "show", "-o", "json"]).await.json();
            match now["remaining"] == 0 {
                true => Ok(()),
                false => Err(now.to_string()),
            }
        },
    )
    .await;
    admin.run(["ca", "retire", "--yes"]).await.ok();
    user.run(["whoami"]).await.ok();
    // The node beside the server, and the one inside, by the new root alone.
    admin.run(["node", "list"]).await.ok();
    assert_eq!(roots(&daemon.data_dir().join("client/ca.crt")), 1);
    let again = outside.reach(inside.machine.clone()).await;
    again.node.allocate("inside").await.unwrap();
}
