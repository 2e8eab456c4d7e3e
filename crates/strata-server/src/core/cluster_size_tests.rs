//! Clusters with more machines than one transaction of a store takes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use strata_clusters::choose::MAX_WORKERS;
use strata_store::{Memory, Store as _, Transaction};
use strata_types::ErrorKind;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;

/// A control plane and as many workers as there may be.
const MACHINES: usize = 3 + MAX_WORKERS as usize;

async fn world() -> (Core, Memory, DropGuard) {
    let store = Memory::new();
    for number in 0..MACHINES {
        let machine = json!({
            "id": format!("m{number}"), "spec": {"provider": "local"}, "phase": "AVAILABLE",
            "createdAtMs": 1, "changedAtMs": 1,
        });
        let put = Transaction::new().put(format!("machine/m{number}"), machine.to_string());
        store.commit(put).await.unwrap();
    }
    let settings = CoreSettings {
        range: Range::DEFAULT,
        lease: Duration::from_secs(60),
        placement: Default::default(),
        overcommit: Default::default(),
        alone: true,
        bounds: Default::default(),
        events_file: None,
        server_port: None,
    };
    let shutdown = CancellationToken::new();
    let core = Core::open(Arc::new(store.clone()), settings, shutdown.clone()).await;
    let core = core.unwrap();
    core.set_lead(Lead::Leading(None));
    (core, store, shutdown.drop_guard())
}

fn cluster(name: &str, port: u16, machines: std::ops::Range<usize>) -> Cluster {
    let member = |number: usize| {
        let role = if number < 3 {
            "control-plane"
        } else {
            "worker"
        };
        json!({
            "machine": format!("m{number}"), "role": role, "number": number,
            "version": "v1.35.4", "addedAtMs": 1,
        })
    };
    let members: Vec<_> = machines.map(member).collect();
    let text = json!({
        "name": name, "id": format!("{name}-1"), "port": port, "members": members,
        "spec": {"version": "v1.35.4", "controlPlane": {"count": 3}, "pools": []},
        "createdAtMs": 1,
    });
    serde_json::from_value(text).unwrap()
}

fn machines_of(core: &Core, name: &str) -> usize {
    let all = core.machines();
    let its = all.iter().filter(|machine| {
        let of = machine.cluster.as_ref();
        of.is_some_and(|of| of.as_str() == name)
    });
    its.count()
}

#[tokio::test]
async fn cluster_of_the_largest_size_is_written_changed_and_removed() {
    let (core, _store, _shutdown) = world().await;
    let large = cluster("large", 7801, 0..MACHINES);
    core.write_new_cluster(None, &large, &Default::default())
        .await
        .unwrap();
    assert_eq!(machines_of(&core, "large"), MACHINES);
    let few = |now: &Cluster| {
        let mut next = now.clone();
        next.members.truncate(10);
        Ok(next)
    };
    core.lead_cluster("large", few).await.unwrap();
    assert_eq!(machines_of(&core, "large"), 10);
    let all = |now: &Cluster| {
        let mut next = now.clone();
        next.members.clone_from(&large.members);
        Ok(next)
    };
    core.lead_cluster("large", all).await.unwrap();
    assert_eq!(machines_of(&core, "large"), MACHINES);
    core.remove_cluster("large", "").await.unwrap();
    assert!(core.cluster("large").is_err());
    assert_eq!(machines_of(&core, "large"), 0);
}

#[tokio::test]
async fn server_that_dies_between_chunks_leaves_the_rest_to_the_next_call() {
    let (core, store, _shutdown) = world().await;
    let large = cluster("large", 7801, 0..MACHINES);
    // The first chunk is written, the second is not.
    let put = Transaction::new().put("cluster/large", encode(&large).unwrap());
    let revision = store.commit(put).await.unwrap();
    core.wait_until_applied(revision).await.unwrap();
    let same = |now: &Cluster| Ok(now.clone());
    core.lead_cluster("large", same).await.unwrap();
    assert_eq!(machines_of(&core, "large"), MACHINES);
}

#[tokio::test]
async fn machine_of_another_cluster_leaves_nothing_of_a_new_one() {
    let (core, _store, _shutdown) = world().await;
    let last = MACHINES - 1;
    let small = cluster("small", 7801, last..MACHINES);
    core.write_new_cluster(None, &small, &Default::default())
        .await
        .unwrap();
    let large = cluster("large", 7802, 0..MACHINES);
    let refused = core
        .write_new_cluster(None, &large, &Default::default())
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Aborted);
    assert!(core.cluster("large").is_err());
    assert_eq!(
        (machines_of(&core, "large"), machines_of(&core, "small")),
        (0, 1)
    );
}
