//! What others fell into.

use std::collections::BTreeSet;

use strata_testkit::cluster::port;
use strata_testkit::scheduler::{Resource, ResourceSummary, Status};
use strata_testkit::serde_json::json;
use strata_testkit::v1::Pod;
use strata_testkit::{holds, wait_for};

use crate::control::{TEST_TIMEOUT, answers, cluster};

/// More instances than a node has addresses, a few at a time.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_are_had_again() {
    let cluster = cluster(1).await;
    let mut used = BTreeSet::new();
    let mut made = 0;
    while made < 270 {
        let names: Vec<String> = (0..27).map(|n| format!("i{}", made + n)).collect();
        let mut streams = Vec::new();
        for name in &names {
            streams.push(cluster.create(cluster.instance(name)).await.unwrap());
        }
        for updates in &mut streams {
            updates.until_running().await;
        }
        let pods = cluster.pods_on(0).await;
        used.extend(pods.values().map(|pod| pod.address.clone()));
        for name in &names {
            cluster.destroy(&format!("id-{name}")).await.unwrap();
        }
        for updates in streams {
            let seen = updates.to_end().await;
            assert_eq!(seen.last().unwrap().0, Status::Terminated, "{seen:?}");
        }
        made += names.len();
    }
    assert!(used.len() < 254, "{}", used.len());
    cluster.settles(&[], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_changes_what_it_names_and_nothing_else() {
    let cluster = cluster(1).await;
    let mut web = cluster.web("web");
    web.ports = vec![port(8080, 80)];
    web.resource = Some(Resource {
        limit: Some(ResourceSummary {
            cpu: 300,
            memory: 64,
            disk: 1,
        }),
        usage: None,
    });
    cluster.run(web.clone()).await;
    let (_, before) = cluster.place("id-web").await;
    let rest = cluster.rest();
    let mut environment = web.environnement.clone();
    environment.push("COLOUR=blue".into());
    let told = rest
        .patch("/instance/id-web", json!({ "environment": environment }))
        .await;
    assert_eq!(told["resources"]["max"]["cpu"], 300, "{told}");
    assert_eq!(told["resources"]["max"]["memory"], 64, "{told}");
    let new = |pod: &Pod| {
        let spec = pod.spec.as_ref();
        let blue = spec.is_some_and(|spec| spec.environment.contains(&"COLOUR=blue".to_owned()));
        pod.id != before.id && blue && pod.process_id != 0
    };
    let (_, after) = cluster.pod_until("id-web", new).await;
    let (old, new) = (before.spec.unwrap(), after.spec.unwrap());
    assert_eq!((&new.limits, &new.ports), (&old.limits, &old.ports));
    assert_eq!(after.address, before.address);
    let url = format!("http://{}:8080/env", cluster.nodes[0].plug.address);
    wait_for("the new environment", TEST_TIMEOUT, async || {
        let said = crate::control::got(&cluster.plug.network, &url)?;
        holds(said.contains("COLOUR=blue")).map_err(|_| said)
    })
    .await;

    // Limits of its own, and a crash: it comes back with both.
    let told = rest
        .patch("/instance/id-web", json!({ "resources": { "memory": 96 } }))
        .await;
    assert_eq!(told["resources"]["max"]["memory"], 96, "{told}");
    assert_eq!(told["resources"]["max"]["cpu"], 300, "{told}");
    let larger = |pod: &Pod| {
        let limits = pod.spec.as_ref().and_then(|spec| spec.limits);
        limits.is_some_and(|limits| limits.memory_bytes == Some(96_000_000)) && pod.process_id != 0
    };
    let (_, before) = cluster.pod_until("id-web", larger).await;
    let process = before.process_id.to_string();
    cluster.plug.network.run(["kill", "-9", &process]);
    let again = |pod: &Pod| pod.restarts > before.restarts && pod.process_id != 0;
    let (_, after) = cluster.pod_until("id-web", again).await;
    assert_eq!(after.spec, before.spec);
    assert_eq!(after.address, before.address);
    let url = format!("http://{}:8080/name", cluster.nodes[0].plug.address);
    answers(&cluster.plug.network, &url, "web").await;
    let told = rest.get("/instance/id-web").await;
    assert_eq!(told["resources"]["max"]["memory"], 96, "{told}");
}
