//! The server dies, or is told to end, in the middle of everything. What it
//! acknowledged is so afterwards; what it did not may be asked for again;
//! nothing runs twice, and nothing is left.

use std::time::Duration;

use strata_testkit::cluster::{Cluster, TEST_TIMEOUT};
use strata_testkit::scheduler::{Instance, InstanceIdentifier};
use strata_testkit::serde_json::json;
use strata_testkit::v1::Pod;
use strata_testkit::{Code, ServerClient, Status, holds, wait_for};
use tokio::sync::mpsc;

use crate::control::cluster;

/// What is asked of an instance.
#[derive(Clone, Copy, Debug, PartialEq)]
enum InstanceRequest {
    Create,
    Stop,
    Start,
    Destroy,
}

async fn ask(client: ServerClient, ask: InstanceRequest, instance: Instance) -> Result<(), Status> {
    let mut scheduler = client.scheduler();
    let id = InstanceIdentifier {
        id: instance.id.clone(),
    };
    match ask {
        InstanceRequest::Create => {
            // Whoever asks hangs up at once.
            let mut updates = scheduler.create(instance).await?.into_inner();
            updates.message().await.map(drop)
        }
        InstanceRequest::Stop => scheduler.stop(id).await.map(drop),
        InstanceRequest::Start => scheduler.start(id).await.map(drop),
        InstanceRequest::Destroy => match scheduler.destroy(id).await {
            Err(gone) if gone.code() == Code::NotFound => Ok(()),
            done => done.map(drop),
        },
    }
}

/// How the server ends.
#[derive(Clone, Copy, Debug)]
enum ServerEnd {
    Kill,
    Terminate,
}

impl ServerEnd {
    async fn and_again(self, cluster: &mut Cluster) {
        match self {
            Self::Kill => cluster.server.kill(),
            Self::Terminate => drop(cluster.server.terminate().await),
        }
        cluster.server.restart().await;
    }
}

/// Asks for all at once, ends the server when some were acknowledged, and
/// tells which were.
async fn storm(
    cluster: &mut Cluster,
    what: InstanceRequest,
    all: &[Instance],
    end: ServerEnd,
) -> Vec<String> {
    let (acknowledged, mut news) = mpsc::unbounded_channel();
    let mut asking = Vec::new();
    let client = cluster.client().await;
    for instance in all.iter().cloned() {
        let (client, acknowledged) = (client.clone(), acknowledged.clone());
        asking.push(tokio::spawn(async move {
            let id = instance.id.clone();
            let max_wait = Duration::from_secs(20);
            let asked = tokio::time::timeout(max_wait, ask(client, what, instance)).await;
            if let Ok(Ok(())) = asked {
                let _ = acknowledged.send(id);
            }
        }));
    }
    drop(acknowledged);
    let mut done: Vec<String> = news.recv().await.into_iter().collect();
    end.and_again(cluster).await;
    for task in asking {
        task.await.expect("asking does not panic");
    }
    while let Some(id) = news.recv().await {
        done.push(id);
    }
    done
}

/// Asks again for all that was not acknowledged, as any client would.
async fn insist(cluster: &Cluster, what: InstanceRequest, all: &[Instance], done: &[String]) {
    for instance in all {
        if done.contains(&instance.id) {
            continue;
        }
        wait_for("the server to take it", TEST_TIMEOUT, async || {
            let asked = ask(cluster.client().await, what, instance.clone()).await;
            asked.map_err(|status| status.to_string())
        })
        .await;
    }
}

async fn every_ask_survives(end: ServerEnd) {
    let mut cluster = cluster(2).await;
    let all: Vec<Instance> = (0..6).map(|n| cluster.instance(&format!("i{n}"))).collect();
    let ids: Vec<String> = all.iter().map(|one| one.id.clone()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for what in [
        InstanceRequest::Create,
        InstanceRequest::Stop,
        InstanceRequest::Start,
        InstanceRequest::Destroy,
    ] {
        let done = storm(&mut cluster, what, &all, end).await;
        assert!(!done.is_empty(), "{what:?}");
        // What was acknowledged comes to be, without anybody asking again.
        wait_for("what was acknowledged", TEST_TIMEOUT, async || {
            let running = cluster.running().await;
            let runs = |id: &String| running.contains_key(id);
            let wanted = matches!(what, InstanceRequest::Create | InstanceRequest::Start);
            holds(done.iter().all(|id| runs(id) == wanted))
                .map_err(|_| format!("{what:?} {done:?}: {running:?}"))
        })
        .await;
        insist(&cluster, what, &all, &done).await;
        match what {
            InstanceRequest::Create | InstanceRequest::Start => {
                drop(cluster.settles(&ids, &[]).await);
            }
            InstanceRequest::Stop => drop(cluster.settles(&[], &ids).await),
            InstanceRequest::Destroy => drop(cluster.settles(&[], &[]).await),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_ask_survives_a_server_that_is_killed() {
    every_ask_survives(ServerEnd::Kill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_survives_a_server_shutdown() {
    every_ask_survives(ServerEnd::Terminate).await;
}

/// A change in the middle of which the server ends; sent again until it is
/// accepted, as any client would.
async fn change(
    cluster: &mut Cluster,
    path: &str,
    body: strata_testkit::serde_json::Value,
    end: ServerEnd,
) {
    let (rest, sent) = (cluster.rest(), (path.to_owned(), body.clone()));
    let asking = tokio::spawn(async move { rest.try_call("PATCH", &sent.0, sent.1).await });
    if let ServerEnd::Terminate = end {
        let _ = asking.await;
    }
    end.and_again(cluster).await;
    wait_for("the change to be accepted", TEST_TIMEOUT, async || {
        let answer = cluster.rest().try_call("PATCH", path, body.clone()).await;
        let answer = answer.map_err(|error| error.to_string())?;
        holds(answer.status == 200).map_err(|_| format!("{answer:?}"))
    })
    .await;
}

async fn updates_and_drains_survive(end: ServerEnd) {
    let mut cluster = cluster(2).await;
    let ids = ["id-a", "id-b", "id-c", "id-d"];
    for id in ids {
        cluster.run(cluster.instance(&id[3..])).await;
    }
    for (round, id) in ids.iter().enumerate() {
        let environment = json!({ "environment": [format!("ROUND={round}")] });
        change(&mut cluster, &format!("/instance/{id}"), environment, end).await;
    }
    cluster.settles(&ids, &[]).await;
    for (round, id) in ids.iter().enumerate() {
        let wanted = format!("ROUND={round}");
        let has = |pod: &Pod| {
            pod.spec
                .as_ref()
                .is_some_and(|spec| spec.environment.contains(&wanted))
        };
        cluster.pod_until(id, has).await;
    }
    for node in ["n1", "n2"] {
        let draining = |yes: bool| json!({ "draining": yes });
        let path = format!("/node/{node}");
        change(&mut cluster, &path, draining(true), end).await;
        let other = if node == "n1" { "n2" } else { "n1" };
        wait_for("all to be elsewhere", TEST_TIMEOUT, async || {
            let running = cluster.running().await;
            let there = |id: &&str| running.get(*id).is_some_and(|on| on == &[other]);
            holds(ids.iter().all(there)).map_err(|_| format!("{running:?}"))
        })
        .await;
        cluster.settles(&ids, &[]).await;
        change(&mut cluster, &path, draining(false), end).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_and_drains_survive_a_server_that_is_killed() {
    updates_and_drains_survive(ServerEnd::Kill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_and_drains_survive_a_server_shutdown() {
    updates_and_drains_survive(ServerEnd::Terminate).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_keep_running_while_the_server_is_down() {
    let mut cluster = cluster(2).await;
    cluster.run(cluster.instance("a")).await;
    cluster.run(cluster.instance("b")).await;
    let before = cluster.settles(&["id-a", "id-b"], &[]).await;
    let process = cluster.place("id-a").await.1.process_id;
    cluster.server.kill();
    // For longer than the lease: it is the only server, and so nobody could
    // have started them elsewhere.
    let away = std::time::Instant::now();
    wait_for("twice the lease", TEST_TIMEOUT, async || {
        assert_eq!(cluster.running().await, before);
        holds(away.elapsed() > Duration::from_secs(6))
    })
    .await;
    cluster.server.restart().await;
    for node in 0..2 {
        cluster.followed(node, 2).await;
    }
    assert_eq!(cluster.settles(&["id-a", "id-b"], &[]).await, before);
    assert_eq!(cluster.place("id-a").await.1.process_id, process);
    // What crashes meanwhile is started again, by the node alone.
    cluster.destroy("id-a").await.unwrap();
    cluster.settles(&["id-b"], &[]).await;
}
