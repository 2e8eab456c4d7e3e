//! What may be asked of clusters and what may not, and whose machines are.

use std::sync::Arc;
use std::time::Duration;

use strata_api::rest::Autoscaling;
use strata_clusters::sim::Fault;
use strata_machines::sim::Fault as MachineFault;
use strata_server::autoscale;
use strata_server::core::{Who, Work};
use strata_server::operations::{
    Clusters, CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput, HealCluster,
    HealInput,
};
use strata_server::reconcile::look_at_clusters;
use strata_types::ErrorKind;
use strata_types::cluster::{ClusterStatus, InstanceType};
use strata_workflow::{Filter, State};

use crate::clusters_stage::{FIRST, NAME, NEXT, Stage, plane, pools_of};
use crate::world::admin;

#[tokio::test(start_paused = true)]
async fn what_cannot_be_built_is_refused_whole() {
    let stage = Stage::new(3).await;
    let (own, who, right) = (&stage.clusters, admin(), FIRST.to_string());
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
        let planned = own.plan_create(&who, name, version, &plane(control), &pools);
        assert_eq!(planned.unwrap_err().kind(), kind, "{name} {version}");
        let made = own.create(&who, name, version, plane(control), pools).await;
        assert_eq!(made.unwrap_err().kind(), kind, "{name} {version}");
    }
    stage.assert_nothing();
    assert!(stage.core.clusters().is_empty());
    // What is planned is taken.
    let plan = own.plan_create(&who, "c", "1.34", &plane(1), &few).unwrap();
    assert_eq!(plan.add.len(), 2);
    let limited = Who {
        projects: Some(Default::default()),
        ..admin()
    };
    let made = own.create(&limited, "c", &right, plane(1), few).await;
    assert_eq!(made.unwrap_err().kind(), ErrorKind::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn of_two_that_race_for_the_same_machines_one_gets_them() {
    let stage = Stage::new(4).await;
    let (one, two) = tokio::join!(
        stage.ask("one", 1, &[("w", 2)]),
        stage.ask("two", 1, &[("w", 2)]),
    );
    let (won, lost) = match (one, two) {
        (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
        other => panic!("{other:?}"),
    };
    assert_eq!(lost.kind(), ErrorKind::Exhausted, "{lost}");
    stage.completes(won).await;
    let all = stage.core.clusters();
    assert_eq!(all.len(), 1);
    stage.assert_whole(all[0].name.as_str());
}

#[tokio::test(start_paused = true)]
async fn those_that_race_and_fit_are_both_built_and_reached_at_other_ports() {
    let stage = Stage::new(6).await;
    let (one, two, three) = tokio::join!(
        stage.ask("one", 1, &[("w", 1)]),
        stage.ask("two", 1, &[("w", 1)]),
        stage.ask("three", 1, &[("w", 1)]),
    );
    for id in [one, two, three] {
        stage.completes(id.unwrap()).await;
    }
    let mut ports: Vec<_> = stage.core.clusters().iter().map(|it| it.port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3);
    for name in ["one", "two", "three"] {
        stage.assert_whole(name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_is_free_again_when_building_failed() {
    let stage = Stage::new(3).await;
    stage.machines.set_faults(|call, _| match call {
        "boot" => MachineFault::Refused,
        _ => MachineFault::None,
    });
    let first = stage.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    stage.fails(first).await;
    stage.assert_nothing();
    let failed = stage.clusters.get(NAME).unwrap();
    assert_eq!(failed.status, ClusterStatus::Error);
    assert!(
        failed.message.contains("strata cluster delete"),
        "{failed:?}"
    );
    let refused = stage
        .clusters
        .scale_pools(&admin(), NAME, vec![("w".into(), 2)])
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::WrongState);

    stage.machines.clear_faults();
    let before = stage.cluster(NAME);
    let again = stage.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    stage.completes(again).await;
    stage.assert_whole(NAME);
    let now = stage.cluster(NAME);
    assert_ne!(before.id, now.id);
    assert_eq!(before.port, now.port);
    let taken = stage.ask(NAME, 1, &[]).await;
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(stage.ask(NAME, 1, &[("w", 1)]).await.unwrap(), again);
    // So are its pools: the same again is there, another of that name is not.
    let pools = stage.cluster(NAME).spec.pools.clone();
    let who = admin();
    let added = stage.clusters.add_pools(&who, NAME, pools.clone());
    stage.completes(added.await.unwrap()).await;
    stage.assert_whole(NAME);
    assert_eq!(stage.cluster(NAME).spec.pools, pools);
    let mut other = pools;
    other[0].count += 1;
    let taken = stage.clusters.add_pools(&who, NAME, other).await;
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
    stage.delete(NAME).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_being_built_can_be_deleted() {
    for call in ["install", "init", "join"] {
        let stage = Stage::new(3).await;
        stage
            .kubernetes
            .set_faults(move |name, _| match name == call {
                true => Fault::DieBefore,
                false => Fault::None,
            });
        let begun = stage.ask(NAME, 1, &[("w", 1)]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let refused = stage.clusters.snapshot(&admin(), NAME).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::WrongState);
        let refused = stage.clusters.kubeconfig(&admin(), NAME, None).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::WrongState);
        let first = stage.clusters.delete(&admin(), NAME).await.unwrap();
        let second = stage.clusters.delete(&admin(), NAME).await.unwrap();
        assert_eq!(first, second, "one deletion is enough");
        stage.completes(first).await;
        stage.fails(begun).await;
        stage.assert_nothing();
        assert!(stage.core.clusters().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn pools_change_after_the_upgrade_that_is_under_way() {
    let stage = Stage::running(5, 1, &[("w", 2)]).await;
    stage
        .kubernetes
        .set_faults(|name, _| match name == "upgrade" {
            true => Fault::DieBefore,
            false => Fault::None,
        });
    let upgrade = stage.upgrade().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(matches!(stage.cluster(NAME).work, Work::Upgrading { .. }));
    let grown = stage
        .clusters
        .scale_pools(&admin(), NAME, vec![("w".into(), 4)])
        .await;
    let grown = grown.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let waits = stage.operations.get(grown).await.unwrap();
    assert!(matches!(waits.state, State::Scheduled), "{waits:?}");
    stage.kubernetes.clear_faults();
    stage.restart().await;
    stage.completes(upgrade).await;
    stage.completes(grown).await;
    stage.assert_whole(NAME);
    let now = stage.cluster(NAME);
    assert!(now.members.len() == 5 && now.members.iter().all(|it| it.version == NEXT));
}

#[tokio::test(start_paused = true)]
async fn the_machines_of_a_cluster_are_its_own() {
    let stage = Stage::running(3, 1, &[("w", 1)]).await;
    let id = stage.of_pool(NAME, "w").remove(0);
    let up = CreateInput::hypervisor(id.clone());
    let up = stage
        .operations
        .submit::<CreateHypervisor>(&up, "test", None)
        .await;
    stage.fails(up.unwrap()).await;
    for down in [
        DestroyInput::at_once(id.clone()),
        DestroyInput::of_cluster(id.clone(), "other"),
    ] {
        let down = stage
            .operations
            .submit::<DestroyHypervisor>(&down, "test", None)
            .await;
        stage.fails(down.unwrap()).await;
    }
    let removed = stage
        .core
        .remove_machine(&admin(), &id, Default::default())
        .await;
    assert_eq!(removed.unwrap_err().kind(), ErrorKind::WrongState);
    stage.assert_whole(NAME);

    // Room is made of what is free, and never taken from a cluster.
    let keep = |cpu| Autoscaling {
        enabled: true,
        cpu,
        ..Default::default()
    };
    stage
        .core
        .set_autoscaling(&admin(), keep(100_000))
        .await
        .unwrap();
    let plan = stage.core.autoscale_plan().await.unwrap();
    assert_eq!(plan.create.len(), 1, "{plan:?}");
    stage.core.set_autoscaling(&admin(), keep(0)).await.unwrap();
    assert!(
        !autoscale::act(&stage.core, &stage.operations, None)
            .await
            .unwrap()
    );
    stage.assert_whole(NAME);
}

#[tokio::test(start_paused = true)]
async fn whoever_died_is_found_and_replaced() {
    let stage = Stage::running(6, 3, &[("w", 2)]).await;
    for pool in ["w", ""] {
        let dead = stage.of_pool(NAME, pool).remove(0);
        stage.kill(&dead).await;
        // Seen once, it is remembered; seen again, it is given up.
        for _ in 0..3 {
            look_at_clusters(&stage.clusters).await;
            at_rest(&stage).await;
        }
        assert!(
            stage.cluster(NAME).member(&dead).is_none(),
            "{:?}",
            stage.cluster(NAME)
        );
        stage.assert_whole(NAME);
    }
    stage.delete(NAME).await;
}

async fn at_rest(stage: &Stage) {
    for one in stage.operations.list(&Filter::default()).await.unwrap() {
        drop(stage.wait(one.id).await);
    }
}

/// It waited for long, and whom it was begun for came back.
#[tokio::test(start_paused = true)]
async fn who_is_well_again_is_not_replaced() {
    let stage = Stage::running(4, 1, &[("w", 1)]).await;
    let before = stage.cluster(NAME).members;
    let input = HealInput {
        cluster: NAME.into(),
        dead: stage.of_pool(NAME, "w"),
    };
    stage.run::<HealCluster>(&input).await;
    stage.assert_whole(NAME);
    assert_eq!(stage.cluster(NAME).members, before);
}

/// A cure that was begun for a machine that has gone elsewhere since.
#[tokio::test(start_paused = true)]
async fn a_machine_that_is_anothers_by_now_is_left_alone() {
    let stage = Stage::running(3, 1, &[("w", 1)]).await;
    let spare = ["m1", "m2", "m3"].into_iter();
    let spare = spare.filter(|id| stage.cluster(NAME).member(id).is_none());
    let spare = spare.last().unwrap();
    stage
        .run::<CreateHypervisor>(&CreateInput::hypervisor(spare))
        .await;
    let input = HealInput {
        cluster: NAME.into(),
        dead: vec![spare.into()],
    };
    stage.run::<HealCluster>(&input).await;
    assert!(
        stage.machines.machines()[spare].on,
        "a hypervisor was destroyed"
    );
    stage
        .run::<DestroyHypervisor>(&DestroyInput::at_once(spare))
        .await;
    stage.assert_whole(NAME);
}

/// Somebody died between the record and the operation.
#[tokio::test(start_paused = true)]
async fn a_record_whose_operation_was_not_begun_is_begun() {
    let stage = Stage::new(2).await;
    let early = Clusters {
        operations: Arc::default(),
        ..(*stage.clusters).clone()
    };
    let (who, pools) = (admin(), pools_of(&[("w", 1)]));
    let asked = early.create(&who, NAME, "", plane(1), pools).await;
    assert_eq!(asked.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(stage.cluster(NAME).work, Work::Creating);
    look_at_clusters(&stage.clusters).await;
    look_at_clusters(&stage.clusters).await;
    let all = stage.operations.list(&Filter::default()).await.unwrap();
    let created = all.iter().filter(|one| one.kind == "cluster-create");
    let created: Vec<_> = created.map(|one| (one.id, one.owner.clone())).collect();
    assert_eq!(created.len(), 1);
    assert_eq!(created[0].1, "admin");
    stage.completes(created[0].0).await;
    stage.assert_whole(NAME);
}

#[tokio::test(start_paused = true)]
async fn a_building_that_was_called_off_before_it_began_keeps_no_machines() {
    let stage = Stage::new(2).await;
    stage.close().await;
    let begun = stage.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    look_at_clusters(&stage.clusters).await;
    assert_eq!(stage.cluster(NAME).members.len(), 2, "it waits");
    stage.operations.cancel(begun, "test").await.unwrap();
    stage.open().await;
    stage.fails(begun).await;
    look_at_clusters(&stage.clusters).await;
    stage.assert_nothing();
    let again = stage.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    stage.completes(again).await;
    stage.assert_whole(NAME);
}

/// What cannot be undone keeps nobody from deleting the cluster.
#[tokio::test(start_paused = true)]
async fn a_cluster_with_something_stuck_can_be_deleted() {
    let stage = Stage::running(4, 1, &[("w", 1)]).await;
    stage
        .kubernetes
        .set_faults(|call, machine| match (call, machine) {
            ("join", "m4") | ("forget", _) => Fault::Refused,
            _ => Fault::None,
        });
    let grown = stage
        .clusters
        .scale_pools(&admin(), NAME, vec![("w".into(), 3)])
        .await;
    let ended = stage.wait(grown.unwrap()).await;
    assert!(!ended.leftovers().is_empty(), "{ended:?}");
    stage.delete(NAME).await;
}
