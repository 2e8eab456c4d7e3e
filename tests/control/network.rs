//! Instances reach each other across nodes, and are reached through ports.

use strata_testkit::cluster::port;
use strata_testkit::scheduler::Status;
use strata_testkit::wait_for;

use crate::control::{TEST_TIMEOUT, answers, cluster, got};

#[tokio::test(flavor = "multi_thread")]
async fn instances_reach_each_other_across_nodes() {
    let cluster = cluster(2).await;
    let mut one = cluster.web("one");
    one.ports = vec![port(8080, 80), port(8081, 81)];
    one.environnement.push("GREETING=hello world=1".into());
    cluster.run(one).await;
    // The same port, so that it is on the other node.
    let mut two = cluster.web("two");
    two.ports = vec![port(8080, 80)];
    cluster.run(two).await;
    let (at, one) = cluster.place("id-one").await;
    let (other, two) = cluster.place("id-two").await;
    assert_ne!(at, other);
    let subnet = |address: &str| address.rsplit_once('.').unwrap().0.to_owned();
    assert_ne!(subnet(&one.address), subnet(&two.address));

    for (from, here, to, name) in [(at, &one, &two, "two"), (other, &two, &one, "one")] {
        let node = cluster.nodes[from].node().await;
        let pod = &here.spec.as_ref().unwrap().name;
        let fetch = format!("timeout 5 wget -q -O - http://{}/name", to.address);
        wait_for("the other node's instance", TEST_TIMEOUT, async || {
            let done = node.sh(pod, &fetch).await.map_err(|s| s.to_string())?;
            match done.stdout.trim() == name {
                true => Ok(()),
                false => Err(format!("{done:?}")),
            }
        })
        .await;
        // The other sees who calls, not a node in between.
        let beside = cluster.nodes[from].network();
        answers(beside, &format!("http://{}/name", to.address), name).await;
    }

    // The port of the node leads to the port that was named, from anywhere.
    let node = cluster.nodes[at].plug.address;
    let elsewhere = [&cluster.plug.network, cluster.nodes[other].network()];
    for network in elsewhere {
        answers(network, &format!("http://{node}:8080/name"), "one").await;
    }
    assert!(got(&cluster.plug.network, &format!("http://{node}:8081/name")).is_err());
    let environment = got(&cluster.plug.network, &format!("http://{node}:8080/env")).unwrap();
    assert!(
        environment
            .lines()
            .any(|line| line == "GREETING=hello world=1"),
        "{environment}"
    );

    // Stopped, it answers no more; started, it has its address and port again.
    cluster.stop("id-one").await.unwrap();
    cluster.settles(&["id-two"], &["id-one"]).await;
    assert!(got(&cluster.plug.network, &format!("http://{node}:8080/name")).is_err());
    cluster.start_again("id-one").await.unwrap();
    answers(
        &cluster.plug.network,
        &format!("http://{node}:8080/name"),
        "one",
    )
    .await;
    assert_eq!(cluster.place("id-one").await.1.address, one.address);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_had_once_per_node() {
    let cluster = cluster(2).await;
    for name in ["one", "two"] {
        let mut web = cluster.web(name);
        web.ports = vec![port(8080, 80)];
        cluster.run(web).await;
    }
    for name in ["one", "two"] {
        let (at, _) = cluster.place(&format!("id-{name}")).await;
        let node = cluster.nodes[at].plug.address;
        answers(
            &cluster.plug.network,
            &format!("http://{node}:8080/name"),
            name,
        )
        .await;
    }
    // There is no third, until one of them goes.
    let mut web = cluster.web("three");
    web.ports = vec![port(8080, 80)];
    let mut third = cluster.create(web.clone()).await.unwrap();
    let failed = third.until_state(Status::Failed).await;
    assert!(failed.status_description.contains("8080"), "{failed:?}");
    cluster.destroy("id-one").await.unwrap();
    cluster.settles(&["id-two", "id-three"], &[]).await;
}
