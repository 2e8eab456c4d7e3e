//! The key that a cluster's Secrets are encrypted with, for clusters from
//! before there was one: those of the simulated driver.

use std::collections::BTreeMap;
use std::time::Duration;

use strata_clusters::sim::Fault;
use strata_store::Store as _;

use crate::cluster_world::{ClusterWorld, NAME};

const KEY: &str = "encryption.key";
const PENDING: &str = "encryption-pending.key";

async fn secrets(world: &ClusterWorld) -> BTreeMap<String, String> {
    let key = format!("cluster-secrets/{NAME}");
    let found = world.store.get(&key).await.unwrap().unwrap();
    serde_json::from_slice(&found.value).unwrap()
}

#[tokio::test(start_paused = true)]
async fn cluster_from_before_encryption_gets_a_key_with_its_upgrade() {
    let world = ClusterWorld::running(3, 1, &[("w", 1)]).await;
    let before = secrets(&world).await;
    assert!(!before.contains_key(KEY) && !before.contains_key(PENDING));
    world
        .kubernetes
        .set_faults(|name, _| match name == "upgrade" {
            true => Fault::CrashBefore,
            false => Fault::None,
        });
    let upgrade = world.upgrade().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    // While machines may not know it, nothing is written with it.
    let pending = secrets(&world).await;
    assert!(!pending.contains_key(KEY));
    let key = pending.get(PENDING).expect("it is there to read with");
    world.kubernetes.clear_faults();
    world.restart().await;
    world.completes(upgrade).await;
    let after = secrets(&world).await;
    assert_eq!(after.get(KEY), Some(key));
    assert!(!after.contains_key(PENDING));
    assert_eq!(after.len(), before.len() + 1);
    // Nor is it in any record that people read.
    let cluster = format!("{:?}", world.cluster(NAME));
    assert!(!cluster.contains(key.as_str()), "{cluster}");
    let all = world.operations.list(&Default::default()).await.unwrap();
    assert!(!format!("{all:?}").contains(key.as_str()));
}
