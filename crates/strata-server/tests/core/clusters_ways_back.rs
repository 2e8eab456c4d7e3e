//! The ways back: in which order what has begun is undone, and when a control
//! plane is put back to what it was.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use strata_clusters::sim::Fault;
use strata_machines::sim::Fault as MachineFault;
use strata_server::core::{NodeReport, Seen};
use strata_server::operations::{HealCluster, HealInput};
use strata_types::instance::InstanceState;
use strata_workflow::OperationId;

use crate::clusters_stage::{FIRST, NAME, NEXT, Stage};
use crate::world::seen;

/// A member of etcd that is gone counts against all that are left: two of four
/// are no majority.
#[tokio::test(start_paused = true)]
async fn etcd_forgets_a_machine_before_it_is_given_back() {
    let stage = Stage::running(4, 3, &[]).await;
    let dead = stage.of_pool(NAME, "").remove(0);
    stage.kill(&dead).await;
    stage
        .kubernetes
        .set_faults(|call, _| match call == "ready" {
            true => Fault::Refused,
            false => Fault::None,
        });
    let (played, wiped) = (stage.kubernetes.clone(), Arc::new(Mutex::new(Vec::new())));
    let noted = wiped.clone();
    stage.machines.set_faults(move |call, machine| {
        if matches!(call, "wipe" | "power") {
            let etcd = played.cluster(NAME).unwrap().etcd;
            let knows = etcd.contains(machine);
            noted.lock().unwrap().push((machine.to_owned(), knows));
        }
        MachineFault::None
    });
    let input = HealInput {
        cluster: NAME.into(),
        dead: vec![dead.clone()],
    };
    let begun = stage.operations.submit::<HealCluster>(&input, "test", None);
    stage.fails(begun.await.unwrap()).await;
    let joined = |(call, id): &(String, String)| call == "join" && *id != dead;
    let came = stage
        .kubernetes
        .calls()
        .into_iter()
        .rfind(joined)
        .unwrap()
        .1;
    let wiped = wiped.lock().unwrap().clone();
    assert!(wiped.contains(&(came.clone(), false)), "{wiped:?}");
    assert!(!wiped.contains(&(came, true)), "{wiped:?}");
    stage.assert_owned();
    assert!(stage.serves(NAME).await);
}

/// An upgrade whose first machine does not come up again until it is put back
/// for the second time; then its calls end as `then` says.
struct Broken {
    stage: Stage,
    upgrade: OperationId,
    control: String,
}

async fn broken(then: Fault) -> Broken {
    let stage = Stage::running(2, 1, &[("w", 1)]).await;
    let control = stage.of_pool(NAME, "").remove(0);
    let away = Arc::new(AtomicBool::new(false));
    let (id, silent, machines) = (control.clone(), away.clone(), stage.machines.clone());
    stage.kubernetes.follow(move |machine| {
        let played = machines.machines().get(machine).cloned()?;
        let silent = machine == id && silent.load(Ordering::SeqCst);
        (played.on && !silent).then_some(played.wipes)
    });
    let restores = AtomicU32::new(0);
    stage.kubernetes.set_faults(move |call, _| match call {
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
    let upgrade = stage.upgrade().await;
    Broken {
        stage,
        upgrade,
        control,
    }
}

impl Broken {
    fn restores(&self) -> usize {
        let calls = self.stage.kubernetes.calls();
        calls.iter().filter(|(call, _)| call == "restore").count()
    }

    /// The node of the first machine answers this server, or does not.
    async fn answers(&self, does: bool) {
        let told = Seen {
            reported: (!does).then(|| NodeReport::of(InstanceState::Failed, "it is away")),
            ..seen(4, 8000)
        };
        self.stage
            .core
            .see_node(&self.control, &told)
            .await
            .unwrap();
    }

    /// Waits for the end of what is tried again and again.
    async fn is_undone(&self) {
        let undone = async {
            let get = async || self.stage.operations.get(self.upgrade).await.unwrap();
            while !get().await.leftovers().is_empty() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let patience = Duration::from_secs(30 * 60);
        tokio::time::timeout(patience, undone).await.unwrap();
    }

    /// It is as it was before, and goes on when it is asked again.
    async fn is_back(&self) {
        let stage = &self.stage;
        stage.fails(self.upgrade).await;
        stage.assert_owned();
        let now = stage.cluster(NAME);
        assert_eq!((now.spec.version, now.going_back_to.as_str()), (FIRST, ""));
        assert!(now.failure.is_some_and(|it| it.why.contains("came back")));
        assert!(stage.serves(NAME).await);
        stage.kubernetes.clear_faults();
        stage.completes(stage.upgrade().await).await;
        stage.assert_whole(NAME);
        assert_eq!(stage.cluster(NAME).spec.version, NEXT);
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_silent_has_nothing_put_back() {
    let broken = broken(Fault::None).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    broken.answers(false).await;
    tokio::time::sleep(Duration::from_secs(15 * 60)).await;
    assert_eq!(
        broken.restores(),
        0,
        "all that it has may come back with it"
    );
    assert_eq!(broken.stage.cluster(NAME).going_back_to, "");
    // It answers, and what runs on it does not.
    broken.answers(true).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(broken.restores(), 0, "it is waited for anew");
    broken.is_undone().await;
    broken.is_back().await;
    assert_eq!(broken.restores(), 2);
}

/// Who goes on with it finds a cluster that serves, of which nobody knows how
/// much was put back.
#[tokio::test(start_paused = true)]
async fn a_way_back_that_was_cut_off_is_gone_to_its_end() {
    let broken = broken(Fault::DieAfter).await;
    tokio::time::sleep(Duration::from_secs(5 * 60)).await;
    assert_eq!(broken.restores(), 2);
    assert_ne!(broken.stage.cluster(NAME).going_back_to, "");
    broken.stage.restart().await;
    broken.is_back().await;
    assert_eq!(broken.restores(), 3);
}
