//! Secrets: readers of disks, views, logs, exports or another project find none
//! of their values; the instance that is given one does.

use std::fs;
use std::path::Path;
use std::process::Command;

use strata_testkit::cluster::Cluster;
use strata_testkit::serde_json::{self, Value, json};
use strata_testkit::{holds, wait_for};

use super::project_world::{Caller, project, run, script};
use super::{STRATA, TEST_TIMEOUT};

const CANARY: &str = "canary-2f81d0";
const NEXT: &str = "canary-77aa01";

/// Files below a directory that hold a text, but for values in memory. Without
/// `-a`, grep skips the holes of disk images; with it, it reads gigabytes of
/// zeros.
fn files_with(directory: &Path, text: &str) -> String {
    let found = Command::new("grep")
        .args(["-rlF", "-D", "skip", "--exclude-dir=secrets", text])
        .arg(directory)
        .output()
        .unwrap();
    String::from_utf8(found.stdout).unwrap()
}

#[track_caller]
fn on_no_disk(cluster: &Cluster, text: &str) {
    let server = files_with(&cluster.server.data_dir(), text);
    assert_eq!(server, "");
    for node in &cluster.nodes {
        let files = files_with(&node.daemon.data_dir(), text);
        assert_eq!(files, "");
    }
}

async fn says(caller: &Caller, script: &str) -> String {
    let body = json!({ "command": ["/bin/busybox", "sh", "-c", script] });
    let answer = caller.call("POST", "/instance/id-web/exec", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    answer["stdout"].as_str().unwrap_or_default().to_owned()
}

const LOOK: &str = "cat /run/secrets/db; echo; cat /etc/app/password; echo; echo $DB_PASSWORD; \
    tr '\\0' '\\n' </proc/$(pidof sleep)/environ | grep ^DB_PASSWORD";

fn seen(value: &str) -> String {
    format!("{value}\n{value}\n{value}\nDB_PASSWORD={value}\n")
}

/// The instance of these tests, given the same secret in three ways.
fn given(cluster: &Cluster) -> Value {
    let mut instance = script(cluster, "shop", "web", "exec sleep 1000");
    instance["secrets"] = json!(["db", "db:/etc/app/password", "DB_PASSWORD=db"]);
    instance
}

#[tokio::test(flavor = "multi_thread")]
async fn strata_down_leaves_no_secret_in_memory() {
    let cluster = Cluster::start(STRATA, 1).await;
    project(&cluster, json!({ "name": "shop" })).await;
    let new = json!({ "name": "db", "project": "shop", "value": CANARY });
    let made = cluster.rest().call("PUT", "/secret", new).await;
    assert_eq!(made.status, 201, "{made:?}");
    run(&cluster, given(&cluster)).await;
    let directory = cluster.nodes[0].daemon.data_dir().join("node/secrets");
    assert!(fs::read_dir(&directory).unwrap().next().is_some());
    let data = cluster.nodes[0].daemon.data_dir();
    let down = Command::new(STRATA)
        .args(["down", "--yes", "--data-dir"])
        .arg(&data)
        .output()
        .unwrap();
    assert!(down.status.success(), "{down:?}");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(directory.to_str().unwrap()), "{mounts}");
    assert!(!directory.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_instance_that_is_given_a_secret_finds_it() {
    let mut cluster = Cluster::start(STRATA, 1).await;
    for name in ["shop", "rival"] {
        project(&cluster, json!({ "name": name })).await;
    }
    let shop = Caller::new(&cluster, "operator", &["shop"]).await;
    let rival = Caller::new(&cluster, "operator", &["rival"]).await;
    let viewer = Caller::new(&cluster, "viewer", &["shop"]).await;
    let new = json!({ "name": "db", "project": "shop", "value": CANARY });
    // Named before it is there, it is missed at once.
    let early = cluster
        .rest()
        .call("PUT", "/instance", given(&cluster))
        .await;
    assert_eq!(early.status, 422, "{early:?}");
    for (caller, status) in [(&rival, 403), (&viewer, 403), (&shop, 201), (&shop, 200)] {
        let answer = caller.call("PUT", "/secret", new.clone()).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(!answer.body.contains(CANARY), "{answer:?}");
    }
    let answer = rival.call("GET", "/secret/shop%2Fdb", Value::Null).await;
    assert_eq!(answer.status, 404, "{answer:?}");
    let theft = json!({ "name": "thief", "project": "rival", "uri": "registry.test/web:1", "secrets": ["db"] });
    let answer = rival.call("PUT", "/instance", theft).await;
    assert_eq!(answer.status, 422, "{answer:?}");

    run(&cluster, given(&cluster)).await;
    assert_eq!(says(&shop, LOOK).await, seen(CANARY));
    let written = says(&shop, "echo x >/run/secrets/db && echo written").await;
    assert_eq!(written, "", "a secret is read only");

    // What looks for it would find it.
    let scratch = cluster.server.scratch();
    fs::write(scratch.join("found"), format!("\0{CANARY}\n")).unwrap();
    assert!(files_with(&scratch, CANARY).contains("found"));

    // Nobody else is shown it.
    for path in [
        "/secret",
        "/secret/shop%2Fdb",
        "/instance/id-web",
        "/instance",
        "/event",
    ] {
        for caller in [&shop, &viewer] {
            let answer = caller.call("GET", path, Value::Null).await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            assert!(!answer.body.contains(CANARY), "{path}: {answer:?}");
        }
    }
    let pods = format!("{:?}", cluster.pods_on(0).await);
    assert!(!pods.contains(CANARY), "{pods}");
    on_no_disk(&cluster, CANARY);

    // It outlives the daemon.
    cluster.nodes[0].daemon.kill();
    cluster.nodes[0].daemon.restart().await;
    wait_for("the node to answer again", TEST_TIMEOUT, async || {
        let body = json!({ "command": ["/bin/busybox", "sh", "-c", LOOK] });
        let answer = shop.call("POST", "/instance/id-web/exec", body).await;
        match answer.status == 200 && answer.body.contains(CANARY) {
            true => Ok(()),
            false => Err(format!("{answer:?}")),
        }
    })
    .await;

    // Another value is had from the next start on.
    let answer = shop
        .call("PATCH", "/secret/shop%2Fdb", json!({ "value": NEXT }))
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(says(&shop, LOOK).await, seen(CANARY));
    for status in ["STOPPED", "RUNNING"] {
        let answer = shop
            .call("PATCH", "/instance/id-web", json!({ "status": status }))
            .await;
        assert!(answer.status < 300, "{answer:?}");
        cluster
            .instance_until("id-web", |one| one["status"] == status)
            .await;
    }
    assert_eq!(says(&shop, LOOK).await, seen(NEXT));
    on_no_disk(&cluster, NEXT);

    // It stays while it is used, and nothing of it after.
    let answer = shop.call("DELETE", "/secret/shop%2Fdb", Value::Null).await;
    assert_eq!(answer.status, 409, "{answer:?}");
    let answer = shop.call("DELETE", "/instance/id-web", Value::Null).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let directory = cluster.nodes[0].daemon.data_dir().join("node/secrets");
    let mounted = || {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        mounts.contains(directory.to_str().unwrap())
    };
    wait_for("the node to forget it", TEST_TIMEOUT, async || {
        holds(!mounted())
    })
    .await;
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    wait_for("the secret to be deleted", TEST_TIMEOUT, async || {
        let answer = shop.call("DELETE", "/secret/shop%2Fdb", Value::Null).await;
        holds(answer.status == 202 || answer.status == 404)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_and_its_exports_tell_nothing() {
    let mut cluster = Cluster::start(STRATA, 1).await;
    let scratch = cluster.server.scratch();
    let file = scratch.join("password");
    fs::write(&file, format!("{CANARY}\n")).unwrap();
    let cli = cluster.cli();
    cli.run([
        "secret",
        "create",
        "db",
        "--from-file",
        file.to_str().unwrap(),
    ])
    .await
    .ok();
    let listed = cli.run(["secret", "list"]).await.ok();
    assert!(listed.contains("db") && listed.contains("13"), "{listed}");
    let shown = cli.run(["secret", "show", "db", "-o", "json"]).await.ok();
    assert!(!shown.contains(CANARY), "{shown}");
    let mut instance = script(&cluster, "default", "web", "exec sleep 1000");
    instance["environment"] = json!([format!("TOKEN={NEXT}"), "SCRIPT=exec sleep 1000"]);
    run(&cluster, instance).await;
    let environment = files_with(&cluster.server.data_dir(), NEXT);
    assert_eq!(environment, "");

    // Without the server, and with all that it has written down.
    cluster.server.terminate().await;
    let data = cluster.server.data_dir();
    let export = scratch.join("export.jsonl");
    let (data_dir, export_to) = (data.to_str().unwrap(), export.to_str().unwrap());
    cli.run(["store", "export", export_to, "--data-dir", data_dir])
        .await
        .ok();
    for text in [CANARY, NEXT] {
        assert_eq!(files_with(&data, text), "");
        assert!(!fs::read_to_string(&export).unwrap().contains(text));
    }

    // Another key, and without its key not at all.
    cli.run(["store", "rotate-key", "--data-dir", data_dir])
        .await
        .ok();
    let (key, aside) = (data.join("store.key"), data.join("aside"));
    fs::rename(&key, &aside).unwrap();
    let refused = cli
        .run(["server", "--data-dir", data_dir, "--listen", "127.0.0.1:0"])
        .await;
    assert!(refused.stderr.contains("store.key"), "{refused:?}");
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(!key.exists(), "no other key is made");
    fs::rename(&aside, &key).unwrap();
    cluster.server.restart().await;
    cluster
        .instance_until("id-web", |one| one["status"] == "RUNNING")
        .await;
}
