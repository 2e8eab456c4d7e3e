//! What may be requested of clusters and what may not, and whose machines are.

use std::sync::Arc;
use std::time::Duration;

use strata_api::rest::Autoscaling;
use strata_clusters::sim::Fault;
use strata_machines::sim::Fault as MachineFault;
use strata_server::autoscale;
use strata_server::core::{Principal, Work};
use strata_server::operations::{
    Clusters, CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput, HealCluster,
    HealInput,
};
use strata_server::reconcile::look_at_clusters;
use strata_types::ErrorKind;
use strata_types::cluster::{ClusterStatus, InstanceType};
use strata_workflow::{Filter, State};

use crate::cluster_world::{ClusterWorld, FIRST, NAME, NEXT, plane, pools_of};
use crate::world::admin;

#[tokio::test(start_paused = true)]
async fn unsatisfiable_cluster_is_refused() {
    let world = ClusterWorld::new(3).await;
    let (own, principal, right) = (&world.clusters, admin(), FIRST.to_string());
    let gpu = |mut pools: Vec<strata_types::cluster::NodePool>| {
        pools[0].instance_type = InstanceType::Gpu;
        pools
    };
    let few = pools_of(&[("w", 1)]);
    let cases = [
        ("No", &*right, 1, few.clone(), ErrorKind::Invalid),
        ("c", "v9.9.9", 1, few.clone(), ErrorKind::Invalid),
        ("c", "new", 1, few.clone(), ErrorKind::Invalid),
        ("c", &right, 2, few.clone(), ErrorKind::Invalid),
        ("c", &right, 3, few.clone(), ErrorKind::Exhausted),
        ("c", &right, 1, pools_of(&[("w", 3)]), ErrorKind::Exhausted),
        (
            "c",
            &right,
            1,
            pools_of(&[("w", 1), ("w", 1)]),
            ErrorKind::Invalid,
        ),
        ("c", &right, 1, gpu(few.clone()), ErrorKind::Exhausted),
    ];
    for (name, version, control, pools, kind) in cases {
        let planned = own.plan_create(&principal, name, version, &plane(control), &pools);
        assert_eq!(planned.unwrap_err().kind(), kind, "{name} {version}");
        let made = own
            .create(&principal, name, version, plane(control), pools)
            .await;
        assert_eq!(made.unwrap_err().kind(), kind, "{name} {version}");
    }
    world.assert_nothing();
    assert!(world.core.clusters().is_empty());
    // What is planned is taken.
    let plan = own
        .plan_create(&principal, "c", "1.34", &plane(1), &few)
        .unwrap();
    assert_eq!(plan.add.len(), 2);
    let limited = Principal {
        projects: Some(Default::default()),
        ..admin()
    };
    let made = own.create(&limited, "c", &right, plane(1), few).await;
    assert_eq!(made.unwrap_err().kind(), ErrorKind::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn racing_creations_of_the_same_machines_have_one_winner() {
    let world = ClusterWorld::new(4).await;
    let (one, two) = tokio::join!(
        world.ask("one", 1, &[("w", 2)]),
        world.ask("two", 1, &[("w", 2)]),
    );
    let (won, lost) = match (one, two) {
        (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
        other => panic!("{other:?}"),
    };
    assert_eq!(lost.kind(), ErrorKind::Exhausted, "{lost}");
    world.completes(won).await;
    let all = world.core.clusters();
    assert_eq!(all.len(), 1);
    world.assert_whole(all[0].name.as_str());
}

#[tokio::test(start_paused = true)]
async fn racing_creations_that_fit_get_distinct_ports() {
    let world = ClusterWorld::new(6).await;
    let (one, two, three) = tokio::join!(
        world.ask("one", 1, &[("w", 1)]),
        world.ask("two", 1, &[("w", 1)]),
        world.ask("three", 1, &[("w", 1)]),
    );
    for id in [one, two, three] {
        world.completes(id.unwrap()).await;
    }
    let mut ports: Vec<_> = world.core.clusters().iter().map(|it| it.port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3);
    for name in ["one", "two", "three"] {
        world.assert_whole(name);
    }
}

#[tokio::test(start_paused = true)]
async fn cluster_name_is_free_after_a_failed_creation() {
    let world = ClusterWorld::new(3).await;
    world.machines.set_faults(|call, _| match call {
        "boot" => MachineFault::Refused,
        _ => MachineFault::None,
    });
    let first = world.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    world.fails(first).await;
    world.assert_nothing();
    let failed = world.clusters.get(NAME).unwrap();
    assert_eq!(failed.status, ClusterStatus::Error);
    assert!(
        failed.message.contains("strata cluster delete"),
        "{failed:?}"
    );
    let refused = world
        .clusters
        .scale_pools(&admin(), NAME, vec![("w".into(), 2)])
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::WrongState);

    world.machines.clear_faults();
    let before = world.cluster(NAME);
    let again = world.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    world.completes(again).await;
    world.assert_whole(NAME);
    let now = world.cluster(NAME);
    assert_ne!(before.id, now.id);
    assert_eq!(before.port, now.port);
    let taken = world.ask(NAME, 1, &[]).await;
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(world.ask(NAME, 1, &[("w", 1)]).await.unwrap(), again);
    // So are its pools: the same again is there, another of that name is not.
    let pools = world.cluster(NAME).spec.pools.clone();
    let principal = admin();
    let added = world.clusters.add_pools(&principal, NAME, pools.clone());
    world.completes(added.await.unwrap()).await;
    world.assert_whole(NAME);
    assert_eq!(world.cluster(NAME).spec.pools, pools);
    let mut other = pools;
    other[0].count += 1;
    let taken = world.clusters.add_pools(&principal, NAME, other).await;
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
    world.delete(NAME).await;
}

#[tokio::test(start_paused = true)]
async fn cluster_under_creation_can_be_deleted() {
    for call in ["install", "init", "join"] {
        let world = ClusterWorld::new(3).await;
        world
            .kubernetes
            .set_faults(move |name, _| match name == call {
                true => Fault::CrashBefore,
                false => Fault::None,
            });
        let begun = world.ask(NAME, 1, &[("w", 1)]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let refused = world.clusters.snapshot(&admin(), NAME).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::WrongState);
        let refused = world.clusters.kubeconfig(&admin(), NAME, None).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::WrongState);
        let first = world.clusters.delete(&admin(), NAME).await.unwrap();
        let second = world.clusters.delete(&admin(), NAME).await.unwrap();
        assert_eq!(first, second, "one deletion is enough");
        world.completes(first).await;
        world.fails(begun).await;
        world.assert_nothing();
        assert!(world.core.clusters().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn pools_change_after_the_upgrade_that_is_under_way() {
    let world = ClusterWorld::running(5, 1, &[("w", 2)]).await;
    world
        .kubernetes
        .set_faults(|name, _| match name == "upgrade" {
            true => Fault::CrashBefore,
            false => Fault::None,
        });
    let upgrade = world.upgrade().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(matches!(world.cluster(NAME).work, Work::Upgrading { .. }));
    let grown = world
        .clusters
        .scale_pools(&admin(), NAME, vec![("w".into(), 4)])
        .await;
    let grown = grown.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let waits = world.operations.get(grown).await.unwrap();
    assert!(matches!(waits.state, State::Scheduled), "{waits:?}");
    world.kubernetes.clear_faults();
    world.restart().await;
    world.completes(upgrade).await;
    world.completes(grown).await;
    world.assert_whole(NAME);
    let now = world.cluster(NAME);
    assert!(now.members.len() == 5 && now.members.iter().all(|it| it.version == NEXT));
}

#[tokio::test(start_paused = true)]
async fn cluster_machines_are_exclusive() {
    let world = ClusterWorld::running(3, 1, &[("w", 1)]).await;
    let id = world.of_pool(NAME, "w").remove(0);
    let up = CreateInput::hypervisor(id.clone());
    let up = world
        .operations
        .submit::<CreateHypervisor>(&up, "test", None)
        .await;
    world.fails(up.unwrap()).await;
    for down in [
        DestroyInput::at_once(id.clone()),
        DestroyInput::of_cluster(id.clone(), "other"),
    ] {
        let down = world
            .operations
            .submit::<DestroyHypervisor>(&down, "test", None)
            .await;
        world.fails(down.unwrap()).await;
    }
    let removed = world
        .core
        .remove_machine(&admin(), &id, Default::default())
        .await;
    assert_eq!(removed.unwrap_err().kind(), ErrorKind::WrongState);
    world.assert_whole(NAME);

    // Room is made of what is free, and never taken from a cluster.
    let keep = |cpu| Autoscaling {
        enabled: true,
        cpu,
        ..Default::default()
    };
    world
        .core
        .set_autoscaling(&admin(), keep(100_000))
        .await
        .unwrap();
    let plan = world.core.autoscale_plan().await.unwrap();
    assert_eq!(plan.create.len(), 1, "{plan:?}");
    world.core.set_autoscaling(&admin(), keep(0)).await.unwrap();
    assert!(
        !autoscale::act(&world.core, &world.operations, None)
            .await
            .unwrap()
    );
    world.assert_whole(NAME);
}

#[tokio::test(start_paused = true)]
async fn dead_members_are_replaced() {
    let world = ClusterWorld::running(6, 3, &[("w", 2)]).await;
    for pool in ["w", ""] {
        let dead = world.of_pool(NAME, pool).remove(0);
        world.kill(&dead).await;
        // Seen once, it is remembered; seen again, it is abandoned.
        for _ in 0..3 {
            look_at_clusters(&world.clusters).await;
            at_rest(&world).await;
        }
        assert!(
            world.cluster(NAME).member(&dead).is_none(),
            "{:?}",
            world.cluster(NAME)
        );
        world.assert_whole(NAME);
    }
    world.delete(NAME).await;
}

async fn at_rest(world: &ClusterWorld) {
    for one in world.operations.list(&Filter::default()).await.unwrap() {
        drop(world.wait(one.id).await);
    }
}

/// It waited for long, and the member it was begun for came back.
#[tokio::test(start_paused = true)]
async fn recovered_member_is_not_replaced() {
    let world = ClusterWorld::running(4, 1, &[("w", 1)]).await;
    let before = world.cluster(NAME).members;
    let input = HealInput {
        cluster: NAME.into(),
        dead: world.of_pool(NAME, "w"),
    };
    world.run::<HealCluster>(&input).await;
    world.assert_whole(NAME);
    assert_eq!(world.cluster(NAME).members, before);
}

/// A cure that was begun for a machine that has gone elsewhere since.
#[tokio::test(start_paused = true)]
async fn machine_of_another_cluster_is_not_touched() {
    let world = ClusterWorld::running(3, 1, &[("w", 1)]).await;
    let spare = ["m1", "m2", "m3"].into_iter();
    let spare = spare.filter(|id| world.cluster(NAME).member(id).is_none());
    let spare = spare.last().unwrap();
    world
        .run::<CreateHypervisor>(&CreateInput::hypervisor(spare))
        .await;
    let input = HealInput {
        cluster: NAME.into(),
        dead: vec![spare.into()],
    };
    world.run::<HealCluster>(&input).await;
    assert!(
        world.machines.machines()[spare].on,
        "a hypervisor was destroyed"
    );
    world
        .run::<DestroyHypervisor>(&DestroyInput::at_once(spare))
        .await;
    world.assert_whole(NAME);
}

/// A caller died between the record and the operation.
#[tokio::test(start_paused = true)]
async fn unsubmitted_creation_is_submitted_by_the_reconciler() {
    let world = ClusterWorld::new(2).await;
    let early = Clusters {
        operations: Arc::default(),
        ..(*world.clusters).clone()
    };
    let (principal, pools) = (admin(), pools_of(&[("w", 1)]));
    let asked = early.create(&principal, NAME, "", plane(1), pools).await;
    assert_eq!(asked.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(world.cluster(NAME).work, Work::Creating);
    look_at_clusters(&world.clusters).await;
    look_at_clusters(&world.clusters).await;
    let all = world.operations.list(&Filter::default()).await.unwrap();
    let created = all.iter().filter(|one| one.kind == "cluster-create");
    let created: Vec<_> = created.map(|one| (one.id, one.owner.clone())).collect();
    assert_eq!(created.len(), 1);
    assert_eq!(created[0].1, "admin");
    world.completes(created[0].0).await;
    world.assert_whole(NAME);
}

#[tokio::test(start_paused = true)]
async fn cancelled_unstarted_creation_releases_its_machines() {
    let world = ClusterWorld::new(2).await;
    world.close().await;
    let begun = world.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    look_at_clusters(&world.clusters).await;
    assert_eq!(world.cluster(NAME).members.len(), 2, "it waits");
    world.operations.cancel(begun, "test").await.unwrap();
    world.open().await;
    world.fails(begun).await;
    look_at_clusters(&world.clusters).await;
    world.assert_nothing();
    let again = world.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    world.completes(again).await;
    world.assert_whole(NAME);
}

/// What cannot be undone does not block deleting the cluster.
#[tokio::test(start_paused = true)]
async fn cluster_with_leftovers_can_be_deleted() {
    let world = ClusterWorld::running(4, 1, &[("w", 1)]).await;
    world
        .kubernetes
        .set_faults(|call, machine| match (call, machine) {
            ("join", "m4") | ("remove_member", _) => Fault::Refused,
            _ => Fault::None,
        });
    let grown = world
        .clusters
        .scale_pools(&admin(), NAME, vec![("w".into(), 3)])
        .await;
    let ended = world.wait(grown.unwrap()).await;
    assert!(!ended.leftovers().is_empty(), "{ended:?}");
    world.delete(NAME).await;
}
