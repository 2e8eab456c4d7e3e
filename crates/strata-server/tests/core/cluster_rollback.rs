//! The rollbacks: in which order what has begun is undone, and when a control
//! plane is restored to what it was.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use strata_clusters::sim::Fault;
use strata_machines::sim::Fault as MachineFault;
use strata_server::core::{NodeFacts, NodeReport};
use strata_server::operations::{HealCluster, HealInput};
use strata_types::instance::InstanceState;
use strata_workflow::OperationId;

use crate::cluster_world::{ClusterWorld, FIRST, NAME, NEXT};
use crate::world::facts;

/// A member of etcd that is gone counts against all that are left: two of four
/// are no majority.
#[tokio::test(start_paused = true)]
async fn etcd_member_is_removed_before_its_machine_is_released() {
    let world = ClusterWorld::running(4, 3, &[]).await;
    let dead = world.of_pool(NAME, "").remove(0);
    world.kill(&dead).await;
    world
        .kubernetes
        .set_faults(|call, _| match call == "ready" {
            true => Fault::Refused,
            false => Fault::None,
        });
    let (simulated, wiped) = (world.kubernetes.clone(), Arc::new(Mutex::new(Vec::new())));
    let noted = wiped.clone();
    world.machines.set_faults(move |call, machine| {
        if matches!(call, "wipe" | "power") {
            let etcd = simulated.cluster(NAME).unwrap().etcd;
            let knows = etcd.contains(machine);
            noted.lock().unwrap().push((machine.to_owned(), knows));
        }
        MachineFault::None
    });
    let input = HealInput {
        cluster: NAME.into(),
        dead: vec![dead.clone()],
    };
    let begun = world.operations.submit::<HealCluster>(&input, "test", None);
    world.fails(begun.await.unwrap()).await;
    let joined = |(call, id): &(String, String)| call == "join" && *id != dead;
    let came = world
        .kubernetes
        .calls()
        .into_iter()
        .rfind(joined)
        .unwrap()
        .1;
    let wiped = wiped.lock().unwrap().clone();
    assert!(wiped.contains(&(came.clone(), false)), "{wiped:?}");
    assert!(!wiped.contains(&(came, true)), "{wiped:?}");
    world.assert_owned();
    assert!(world.serves(NAME).await);
}

/// An upgrade whose first machine does not come up again until it is restored
/// for the second time; then its calls end as `then` says.
struct Broken {
    world: ClusterWorld,
    upgrade: OperationId,
    control: String,
}

async fn broken(then: Fault) -> Broken {
    let world = ClusterWorld::running(2, 1, &[("w", 1)]).await;
    let control = world.of_pool(NAME, "").remove(0);
    let away = Arc::new(AtomicBool::new(false));
    let (id, silent, machines) = (control.clone(), away.clone(), world.machines.clone());
    world.kubernetes.follow(move |machine| {
        let simulated = machines.machines().get(machine).cloned()?;
        let silent = machine == id && silent.load(Ordering::SeqCst);
        (simulated.on && !silent).then_some(simulated.wipes)
    });
    let restores = AtomicU32::new(0);
    world.kubernetes.set_faults(move |call, _| match call {
        "upgrade" => {
            away.store(true, Ordering::SeqCst);
            Fault::Refused
        }
        "restore" => {
            away.store(false, Ordering::SeqCst);
            match restores.fetch_add(1, Ordering::SeqCst) {
                0 => Fault::Before,
                1 => then,
                _ => Fault::None,
            }
        }
        _ => Fault::None,
    });
    let upgrade = world.upgrade().await;
    Broken {
        world,
        upgrade,
        control,
    }
}

impl Broken {
    fn restores(&self) -> usize {
        let calls = self.world.kubernetes.calls();
        calls.iter().filter(|(call, _)| call == "restore").count()
    }

    /// The node of the first machine answers this server, or does not.
    async fn answers(&self, does: bool) {
        let told = NodeFacts {
            reported: (!does).then(|| NodeReport::of(InstanceState::Failed, "it is away")),
            ..facts(4, 8000)
        };
        self.world
            .core
            .update_node_facts(&self.control, &told)
            .await
            .unwrap();
    }

    /// Waits for the end of what is tried again and again.
    async fn is_undone(&self) {
        let undone = async {
            let get = async || self.world.operations.get(self.upgrade).await.unwrap();
            while !get().await.leftovers().is_empty() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let waited = Duration::from_secs(30 * 60);
        tokio::time::timeout(waited, undone).await.unwrap();
    }

    /// It is as it was before, and goes on when it is requested again.
    async fn is_back(&self) {
        let world = &self.world;
        world.fails(self.upgrade).await;
        world.assert_owned();
        let now = world.cluster(NAME);
        assert_eq!(
            (now.spec.version, now.rollback_snapshot.as_str()),
            (FIRST, "")
        );
        assert!(now.failure.is_some_and(|it| it.why.contains("came back")));
        assert!(world.serves(NAME).await);
        world.kubernetes.clear_faults();
        world.completes(world.upgrade().await).await;
        world.assert_whole(NAME);
        assert_eq!(world.cluster(NAME).spec.version, NEXT);
    }
}

#[tokio::test(start_paused = true)]
async fn silent_machine_is_not_rolled_back() {
    let broken = broken(Fault::None).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    broken.answers(false).await;
    tokio::time::sleep(Duration::from_secs(15 * 60)).await;
    assert_eq!(
        broken.restores(),
        0,
        "all that it has may come back with it"
    );
    assert_eq!(broken.world.cluster(NAME).rollback_snapshot, "");
    // It answers, and what runs on it does not.
    broken.answers(true).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(broken.restores(), 0, "it is waited for anew");
    broken.is_undone().await;
    broken.is_back().await;
    assert_eq!(broken.restores(), 2);
}

/// The next operation finds a cluster that serves, and it is not known how much
/// of it was restored.
#[tokio::test(start_paused = true)]
async fn interrupted_rollback_is_completed() {
    let broken = broken(Fault::CrashAfter).await;
    tokio::time::sleep(Duration::from_secs(5 * 60)).await;
    assert_eq!(broken.restores(), 2);
    assert_ne!(broken.world.cluster(NAME).rollback_snapshot, "");
    broken.world.restart().await;
    broken.is_back().await;
    assert_eq!(broken.restores(), 3);
}
