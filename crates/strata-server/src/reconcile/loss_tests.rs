//! What is started elsewhere, and what is not, when a node is lost, comes back,
//! or is changed meanwhile. The reconciler is run by hand, so that each test
//! decides what happens before it and after it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use strata_identity::JoinBinding;
use strata_store::{Memory, Store as _, Transaction};
use strata_tasks::TaskGroup;
use strata_types::Role;
use strata_types::instance::{InstanceId, InstanceSpec, InstanceState, RunPolicy};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::liveness::{State, reconcile};
use super::start_leadership;
use crate::core::{
    BootInstant, Core, CoreSettings, DesiredState, Instance, InstanceUpdate, Lead, NewInstance,
    NodeChange, NodeCondition, NodeFacts, NodeLoss, Precondition, Principal, Range, Refusal,
    Registration, Report, ReportedState, StateReason, Versioned, keys,
};
use crate::placement;

const LEASE: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(20);

struct World {
    core: Core,
    store: Memory,
    shutdown: CancellationToken,
    _shutdown: DropGuard,
}

fn admin() -> Principal {
    Principal {
        name: "admin".into(),
        role: Role::Admin,
        projects: None,
    }
}

fn settings() -> CoreSettings {
    CoreSettings {
        range: Range::DEFAULT,
        lease: LEASE,
        placement: Default::default(),
        overcommit: Default::default(),
        alone: true,
        bounds: Default::default(),
        events_file: None,
        server_port: None,
    }
}

fn spec(cpu: i32, runs: RunPolicy) -> InstanceSpec {
    let mut spec = InstanceSpec {
        uri: "x".into(),
        ..InstanceSpec::default()
    };
    spec.resources.cpu = cpu;
    spec.placement.runs = runs;
    spec
}

async fn world() -> World {
    let (store, shutdown) = (Memory::new(), CancellationToken::new());
    let core = Core::open(Arc::new(store.clone()), settings(), shutdown.clone());
    let core = core.await.unwrap();
    core.set_lead(Lead::Leading(None));
    World {
        core,
        store,
        _shutdown: shutdown.clone().drop_guard(),
        shutdown,
    }
}

impl World {
    fn places(&self) -> placement::PlacementHandle {
        placement::start(self.core.clone(), self.shutdown.clone())
    }

    /// A node that confirms what has gone from it.
    async fn node(&self, name: &str) {
        let registration = Registration {
            name: name.into(),
            subnet: None,
        };
        self.core.register_node(&registration).await.unwrap();
        self.is_back(name).await;
    }

    async fn is_back(&self, name: &str) {
        let facts = NodeFacts {
            capacity: Some((4000, 4_000_000_000, 0)),
            follows: Some(true),
            holds_leases: Some(true),
            ..NodeFacts::default()
        };
        self.core.update_node_facts(name, &facts).await.unwrap();
    }

    async fn create(&self, name: &str, spec: InstanceSpec) -> InstanceId {
        let new = NewInstance {
            id: Some(name.parse().unwrap()),
            name: Some(name.parse().unwrap()),
            project: "default".parse().unwrap(),
            workload: None,
            spec,
            fresh_id: None,
            desired_state: None,
        };
        let made = self.core.create_instance(&admin(), new).await.unwrap();
        made.0.id.clone()
    }

    /// Writes where an instance is.
    async fn place(&self, id: &InstanceId, node: &str) {
        let mut next = self.get(id).record.clone();
        next.place_on(node);
        let value = crate::core::encode(&next).unwrap();
        let put = Transaction::new().put(keys::instance(id), value);
        self.core.commit(put).await.unwrap();
    }

    fn find(&self, id: &InstanceId) -> Option<Arc<Versioned<Instance>>> {
        self.core.tables().instances.get(id).cloned()
    }

    fn get(&self, id: &InstanceId) -> Arc<Versioned<Instance>> {
        self.find(id).unwrap()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Core) -> bool) {
        let mut changes = self.core.watch_all();
        let waited = tokio::time::timeout(TIMEOUT, async {
            while !holds(&self.core) {
                let _ = changes.recv().await;
            }
        });
        assert!(waited.await.is_ok(), "waited in vain: {what}");
    }

    async fn lose(&self, name: &str) -> Arc<Versioned<crate::core::Node>> {
        let lost = self.core.mark_node_lost(name, "silence").await.unwrap();
        // As long as it takes not to be taken for one that is back.
        tokio::time::sleep(2 * LEASE).await;
        lost
    }

    async fn gone(&self, node: &str, id: &InstanceId, epoch: u64) {
        self.core.report(node, &report(id, epoch)).await.unwrap();
    }

    async fn delete(&self, id: &InstanceId) {
        let any = Precondition::default();
        self.core.delete_instance(&admin(), id, any).await.unwrap();
    }
}

/// That nothing of it is there.
fn report(id: &InstanceId, epoch: u64) -> Report {
    Report {
        id: id.clone(),
        generation: Some(0),
        epoch,
        told: ReportedState::Gone,
        reason: String::new(),
        address: None,
        restarts: None,
        exit_code: None,
        healthy: None,
        given_up_at_start: None,
    }
}

/// The nodes that an instance is not confirmed to have left.
fn leaving(one: &Instance) -> Vec<&str> {
    one.leaving.iter().map(|from| &*from.node).collect()
}

#[tokio::test]
async fn changed_instance_of_a_lost_node_is_assigned_to_no_other_before_it_has_ended() {
    let world = world().await;
    let _placement = world.places();
    world.node("n1").await;
    let web = world.create("web", spec(100, RunPolicy::Exclusive)).await;
    let is_on = |node: &'static str| {
        let web = web.clone();
        move |core: &Core| {
            let one = core.tables().instances.get(&web).cloned();
            one.is_some_and(|one| one.node.as_deref() == Some(node))
        }
    };
    world.until("it to be on n1", is_on("n1")).await;
    world.core.waive_lease("n1").await.unwrap();
    world.lose("n1").await;
    world.node("n2").await;
    let epoch = world.get(&web).epoch;
    let change = InstanceUpdate {
        spec: Some(spec(200, RunPolicy::Exclusive)),
        ..InstanceUpdate::default()
    };
    let (admin, any) = (admin(), Precondition::default());
    let changed = world.core.update_instance(&admin, &web, change, any);
    changed.await.unwrap();
    world.until("it to be on n2", is_on("n2")).await;
    let mut state = State::default();
    for _ in 0..3 {
        reconcile(&world.core, &mut state).await;
        let now = world.get(&web);
        assert!(!now.is_assignable(), "n1 may run it: {now:?}");
        assert_eq!(leaving(&now), ["n1"]);
    }
    world.gone("n1", &web, epoch).await;
    assert!(world.get(&web).is_assignable());
}

#[tokio::test]
async fn instance_that_waits_for_a_node_moves_to_its_witnesses_once_that_is_lost() {
    let world = world().await;
    let _placement = world.places();
    world.node("n1").await;
    let web = world.create("web", spec(100, RunPolicy::Exclusive)).await;
    let is_on = |node: Option<&'static str>| {
        let web = web.clone();
        move |core: &Core| {
            let one = core.tables().instances.get(&web).cloned();
            one.is_some_and(|one| one.node.as_deref() == node)
        }
    };
    world.until("it to be on n1", is_on(Some("n1"))).await;
    // Its lease may be extended by n3, which then starts nothing; n2 is no
    // witness of it.
    let witnesses = ["n3".to_owned()].into();
    let held = world
        .core
        .hold_to_lease("n1", LEASE, Some(&witnesses), open_link());
    held.await.unwrap();
    let lost = world.lose("n1").await;
    world.node("n2").await;
    let change = InstanceUpdate {
        spec: Some(spec(200, RunPolicy::Exclusive)),
        ..InstanceUpdate::default()
    };
    let (admin, any) = (admin(), Precondition::default());
    let changed = world.core.update_instance(&admin, &web, change, any);
    changed.await.unwrap();
    world.until("it to wait on n2", is_on(Some("n2"))).await;
    assert!(!world.get(&web).is_assignable());
    let loss = NodeLoss {
        witnessed: true,
        ..loss(&lost)
    };
    world.core.fail_over(&loss, &web, &why()).await.unwrap();
    let now = world.get(&web);
    assert_eq!(now.node, None, "n2 does not know when its lease is over");
    assert_eq!(leaving(&now), ["n1"]);
    world.node("n3").await;
    world.until("it to be on n3", is_on(Some("n3"))).await;
    assert!(world.get(&web).is_assignable());
}

#[tokio::test]
async fn instances_of_a_node_whose_record_cannot_be_read_stay() {
    let world = world().await;
    for node in ["n1", "n2"] {
        world.node(node).await;
    }
    let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
    world.place(&web, "n1").await;
    let key = keys::node("n1");
    let put = Transaction::new().put(&*key, "nonsense");
    world.core.commit(put).await.unwrap();
    assert!(world.core.tables().unreadable.contains_key(&key));
    reconcile(&world.core, &mut State::default()).await;
    assert_eq!(world.get(&web).node.as_deref(), Some("n1"));
    // Nor is it taken off by a change without a confirmation.
    let change = InstanceUpdate {
        spec: Some(spec(70, RunPolicy::Exclusive)),
        ..InstanceUpdate::default()
    };
    let (admin, any) = (admin(), Precondition::default());
    let changed = world.core.update_instance(&admin, &web, change, any);
    assert_eq!(leaving(&changed.await.unwrap()), ["n1"]);
    reconcile(&world.core, &mut State::default()).await;
    assert_eq!(leaving(&world.get(&web)), ["n1"]);
    // Without a record there is no node.
    let delete = Transaction::new().delete(&*key);
    world.core.commit(delete).await.unwrap();
    reconcile(&world.core, &mut State::default()).await;
    assert!(world.get(&web).is_assignable());
}

fn loss(node: &Versioned<crate::core::Node>) -> NodeLoss {
    NodeLoss {
        node: node.name.clone(),
        revision: Some(node.revision),
        silent: true,
        witnessed: false,
    }
}

/// The node has no later link.
fn open_link() -> CancellationToken {
    CancellationToken::new()
}

fn why() -> StateReason {
    StateReason {
        full: "n1 was lost".into(),
        limited: "lost".into(),
    }
}

#[tokio::test]
async fn loss_of_a_node_that_is_back_moves_nothing() {
    let world = world().await;
    world.node("n1").await;
    let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
    world.place(&web, "n1").await;
    let lost = world.lose("n1").await;
    let stale = loss(&lost);
    // It gives a sign of life; its record says so a moment later.
    world.core.live().alive("n1");
    world.core.fail_over(&stale, &web, &why()).await.unwrap();
    assert_eq!(world.get(&web).node.as_deref(), Some("n1"));
    world.is_back("n1").await;
    tokio::time::sleep(2 * LEASE).await;
    world.core.fail_over(&stale, &web, &why()).await.unwrap();
    assert_eq!(world.get(&web).node.as_deref(), Some("n1"));
    let lost = world.lose("n1").await;
    let held = loss(&lost);
    world.core.fail_over(&held, &web, &why()).await.unwrap();
    assert_eq!(world.get(&web).node, None);
}

/// Seven of ten nodes, which were lost long ago by the wall clock, with an
/// instance on the first.
async fn seven_of_ten(world: &World) -> InstanceId {
    for number in 1..=10 {
        world.node(&format!("n{number}")).await;
    }
    let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
    world.place(&web, "n1").await;
    web
}

async fn lose_seven(world: &World) {
    for number in 1..=7 {
        let name = format!("n{number}");
        let mut lost = world.core.node(&name).unwrap().record.clone();
        (lost.condition, lost.changed_at_ms) = (NodeCondition::Lost, 1);
        let put = Transaction::new().put(keys::node(&name), crate::core::encode(&lost).unwrap());
        world.core.commit(put).await.unwrap();
    }
    // Long enough not to be taken for some that are back; the others are there.
    tokio::time::sleep(2 * LEASE).await;
    (8..=10).for_each(|number| world.core.live().alive(&format!("n{number}")));
}

#[tokio::test]
async fn nodes_that_were_lost_before_this_server_led_are_one_incident() {
    let world = world().await;
    let web = seven_of_ten(&world).await;
    lose_seven(&world).await;
    let mut state = State::default();
    reconcile(&world.core, &mut state).await;
    assert_eq!(world.get(&web).node.as_deref(), Some("n1"));
    // The same when it led before, and has seen none of it since.
    let mut again = State::default();
    reconcile(&world.core, &mut again).await;
    again.begin_leading();
    reconcile(&world.core, &mut again).await;
    assert_eq!(world.get(&web).node.as_deref(), Some("n1"));
}

#[tokio::test]
async fn many_losses_are_held_back_whatever_the_wall_clock_shows() {
    let world = world().await;
    let web = seven_of_ten(&world).await;
    let mut state = State::default();
    reconcile(&world.core, &mut state).await;
    lose_seven(&world).await;
    reconcile(&world.core, &mut state).await;
    assert_eq!(world.get(&web).node.as_deref(), Some("n1"));
}

#[tokio::test]
async fn node_that_may_still_run_instances_is_not_replaced() {
    let world = world().await;
    for node in ["n1", "n2"] {
        world.node(node).await;
    }
    let binding = JoinBinding {
        node: "n1".parse().unwrap(),
        replaces: true,
        operation: None,
        labels: Default::default(),
        accepts_labels: false,
    };
    let may_join = || {
        let joins = world.core.check_join(&binding.node, Some(&binding));
        joins.is_ok()
    };
    let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
    world.place(&web, "n1").await;
    world.core.waive_lease("n1").await.unwrap();
    world.lose("n1").await;
    assert!(!may_join(), "its lease was waived");
    let peers = BTreeSet::from(["n2".to_owned()]);
    let held = world
        .core
        .hold_to_lease("n1", LEASE, Some(&peers), open_link())
        .await;
    held.unwrap();
    assert!(!may_join(), "n2 may have extended its lease");
    world.core.live().alive("n2");
    reconcile(&world.core, &mut State::default()).await;
    assert_eq!(leaving(&world.get(&web)), ["n1"]);
    assert!(!may_join(), "it was not started anew yet");
    world.place(&web, "n2").await;
    let running = Report {
        told: ReportedState::State(InstanceState::Running),
        generation: None,
        ..report(&web, world.get(&web).epoch)
    };
    world.core.report("n2", &running).await.unwrap();
    assert!(may_join(), "n2 started it after the end of the lease");
    let cache = world.create("cache", spec(0, RunPolicy::Exclusive)).await;
    world.place(&cache, "n1").await;
    assert!(!may_join());
    world.core.declare_node_gone("n1").await.unwrap();
    assert!(may_join());
}

#[tokio::test]
async fn instance_of_a_backup_is_rescheduled_only_after_both_of_its_nodes_have_ended_it() {
    for is_lost in [false, true] {
        let world = world().await;
        for node in ["n1", "n2"] {
            world.node(node).await;
        }
        let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
        world.place(&web, "n1").await;
        let mut restored = world.get(&web).record.clone();
        restored.restored = true;
        let value = crate::core::encode(&restored).unwrap();
        let put = Transaction::new().put(keys::instance(&web), value);
        world.core.commit(put).await.unwrap();
        // It was moved after the backup was made.
        world.core.found_elsewhere("n2", &web, 2).await.unwrap();
        assert_eq!(leaving(&world.get(&web)), ["n2"]);
        match is_lost {
            true => {
                let peers = BTreeSet::from(["n2".to_owned()]);
                let held = world
                    .core
                    .hold_to_lease("n1", LEASE, Some(&peers), open_link())
                    .await;
                held.unwrap();
                world.lose("n1").await;
                world.core.live().alive("n2");
                reconcile(&world.core, &mut State::default()).await;
            }
            false => {
                let change = InstanceUpdate {
                    spec: Some(spec(70, RunPolicy::Exclusive)),
                    ..InstanceUpdate::default()
                };
                let (admin, any) = (admin(), Precondition::default());
                let changed = world.core.update_instance(&admin, &web, change, any);
                changed.await.unwrap();
            }
        }
        let now = world.get(&web);
        assert_eq!(
            (now.node.as_deref(), leaving(&now)),
            (None, vec!["n2", "n1"])
        );
        world.gone("n2", &web, 2).await;
        assert_eq!(leaving(&world.get(&web)), ["n1"], "{is_lost}");
        world.gone("n1", &web, 2).await;
        assert!(leaving(&world.get(&web)).is_empty());
    }
}

#[tokio::test]
async fn server_that_starts_elsewhere_moves_nothing_of_nodes_that_may_not_find_it() {
    let world = world().await;
    for node in ["n1", "n2"] {
        world.node(node).await;
    }
    let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
    world.place(&web, "n1").await;
    let facts = NodeFacts {
        served_at: Some("another-host/192.0.2.1:7700".into()),
        holds_leases: Some(true),
        ..NodeFacts::default()
    };
    world.core.update_node_facts("n1", &facts).await.unwrap();
    let waived = world.core.waive_leases_of_nodes_served_elsewhere().await;
    waived.unwrap();
    assert!(!world.core.node("n2").unwrap().lease_waived);
    world.lose("n1").await;
    world.core.live().alive("n2");
    reconcile(&world.core, &mut State::default()).await;
    assert_eq!(world.get(&web).node.as_deref(), Some("n1"));
}

/// Two writes at the same time, in either order, over a store that lets both
/// begin before it has written one of them.
async fn race<A, B>(store: &Memory, number: usize, one: A, other: B)
where
    A: Future<Output = ()>,
    B: Future<Output = ()>,
{
    let later = async |turn: bool, write: std::pin::Pin<&mut dyn Future<Output = ()>>| {
        if turn {
            while store.waiting() < 1 {
                tokio::task::yield_now().await;
            }
        }
        write.await;
    };
    store.hold();
    let (one, other) = (std::pin::pin!(one), std::pin::pin!(other));
    let begin = tokio::time::Instant::now();
    let release = async {
        while store.waiting() < 2 {
            assert!(begin.elapsed() < TIMEOUT, "only one of them is written");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        store.release();
    };
    let first_is_late = number.is_multiple_of(2);
    tokio::join!(
        later(first_is_late, one),
        later(!first_is_late, other),
        release
    );
}

#[tokio::test]
async fn move_that_was_decided_before_a_node_came_back_is_not_written_after_it() {
    for number in 0..16_usize {
        let world = world().await;
        world.node("n1").await;
        let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
        world.place(&web, "n1").await;
        let lost = loss(&*world.lose("n1").await);
        let why = why();
        // As written by the link of another server: this one receives nothing.
        let node = world.core.node("n1").unwrap();
        let mut back = node.record.clone();
        back.condition = NodeCondition::Ready;
        let back = crate::core::encode(&back).unwrap();
        let key = keys::node("n1");
        let back = Transaction::new().put(&*key, back);
        let returns = async { assert!(world.core.commit(back).await.is_ok()) };
        let moves = async { drop(world.core.fail_over(&lost, &web, &why).await) };
        race(&world.store, number, returns, moves).await;
        let (one, node) = (world.get(&web), world.core.node("n1").unwrap());
        assert_eq!(node.condition, NodeCondition::Ready);
        let moved = one.node.is_none();
        assert!(!moved || one.revision < node.revision, "{one:?} {node:?}");
    }
}

#[tokio::test]
async fn nothing_is_placed_on_a_node_that_is_removed_meanwhile() {
    for number in 0..8_usize {
        let world = world().await;
        world.core.set_lead(Lead::Following(None));
        let _placement = world.places();
        world.node("n1").await;
        let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
        world.store.hold();
        world.core.set_lead(Lead::Leading(None));
        let waiting = async |writes| {
            let begin = tokio::time::Instant::now();
            while world.store.waiting() < writes {
                assert!(begin.elapsed() < TIMEOUT, "nothing is written");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let removed = async {
            if number.is_multiple_of(2) {
                waiting(1).await;
            }
            drop(world.core.delete_node("n1", false).await);
        };
        let released = async {
            waiting(2).await;
            world.store.release();
        };
        tokio::join!(removed, released);
        // Whatever the placement task has written.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let web = world.get(&web);
        let is_last = web.revision == world.store.revision();
        let is_stranded = web.node.is_some() && world.core.node("n1").is_err() && is_last;
        assert!(!is_stranded, "placed after the removal: {web:?}");
    }
}

#[tokio::test]
async fn node_that_is_removed_while_it_is_there_keeps_its_lease_when_it_is_lost() {
    let world = world().await;
    world.node("n1").await;
    let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
    world.place(&web, "n1").await;
    world.core.waive_lease("n1").await.unwrap();
    let remove = async || {
        let change = NodeChange {
            leaves: true,
            ..NodeChange::default()
        };
        let any = Precondition::default();
        let removed = world.core.update_node(&admin(), "n1", &change, any).await;
        removed.unwrap();
    };
    remove().await;
    world.lose("n1").await;
    let mut state = State::default();
    reconcile(&world.core, &mut state).await;
    assert_eq!(
        world.get(&web).node.as_deref(),
        Some("n1"),
        "it may run there"
    );
    // It is known to be lost: a person declares it gone.
    remove().await;
    reconcile(&world.core, &mut state).await;
    assert_eq!(world.get(&web).node, None);
    reconcile(&world.core, &mut state).await;
    assert!(world.core.node("n1").is_err(), "it is empty and goes");
}

/// It is not asked, and neither are its witnesses; but it has its lease.
#[tokio::test]
async fn exclusive_instance_of_a_node_removed_at_once_waits_for_the_end_of_its_lease() {
    let world = world().await;
    for node in ["n1", "n2"] {
        world.node(node).await;
    }
    let witnesses = BTreeSet::from(["n2".to_owned()]);
    let held = world
        .core
        .hold_to_lease("n1", LEASE, Some(&witnesses), open_link());
    held.await.unwrap();
    let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
    world.place(&web, "n1").await;
    let any = Precondition::default();
    let removed = world.core.remove_node_at_once(&admin(), "n1", any).await;
    removed.unwrap();
    let mut state = State::default();
    reconcile(&world.core, &mut state).await;
    assert_eq!(world.get(&web).node.as_deref(), Some("n1"), "it may run");
    world.lose("n1").await;
    reconcile(&world.core, &mut state).await;
    let moved = world.get(&web);
    assert!(
        moved.node.is_none() && moved.leaving.is_empty(),
        "{moved:?}"
    );
    reconcile(&world.core, &mut state).await;
    assert!(world.core.node("n1").is_err(), "it is empty and goes");
}

#[tokio::test]
async fn node_has_the_longest_lease_that_it_may_hold() {
    let world = world().await;
    let hours = Duration::from_secs(7200);
    for node in ["n1", "n2"] {
        world.node(node).await;
    }
    let facts = NodeFacts {
        lease_ms: Some(7_200_000),
        ..NodeFacts::default()
    };
    // By another server, or before the setting was changed.
    world.core.update_node_facts("n1", &facts).await.unwrap();
    let shorter = NodeFacts {
        lease_ms: Some(50),
        ..NodeFacts::default()
    };
    let node = world.core.update_node_facts("n1", &shorter).await.unwrap();
    assert_eq!(world.core.lease_of(&node), hours, "it has not confirmed it");
    tokio::time::sleep(2 * LEASE).await;
    let mut state = State::default();
    world.core.live().alive("n2");
    reconcile(&world.core, &mut state).await;
    assert_eq!(
        world.core.node("n1").unwrap().condition,
        NodeCondition::Ready
    );
    let none = BTreeSet::new();
    let held = world
        .core
        .hold_to_lease("n1", LEASE, Some(&none), open_link())
        .await;
    held.unwrap();
    tokio::time::sleep(2 * LEASE).await;
    world.core.live().alive("n2");
    reconcile(&world.core, &mut state).await;
    assert_eq!(
        world.core.node("n1").unwrap().condition,
        NodeCondition::Lost
    );
}

#[tokio::test]
async fn what_may_overlap_leaves_a_lost_node_whose_lease_was_waived() {
    let world = world().await;
    for node in ["n1", "n2"] {
        world.node(node).await;
    }
    let cache = world.create("cache", spec(0, RunPolicy::Available)).await;
    let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
    for id in [&cache, &web] {
        world.place(id, "n1").await;
    }
    world.core.waive_lease("n1").await.unwrap();
    world.lose("n1").await;
    world.core.live().alive("n2");
    reconcile(&world.core, &mut State::default()).await;
    assert_eq!(world.get(&web).node.as_deref(), Some("n1"));
    assert_eq!(world.get(&cache).node, None);
}

#[tokio::test]
async fn deleted_instance_keeps_its_record_until_every_node_has_ended_it() {
    let world = world().await;
    for node in ["n1", "n2"] {
        world.node(node).await;
    }
    let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
    // It moves from n1 to n2, and is deleted before n1 has ended it.
    world.place(&web, "n1").await;
    let mut moving = world.get(&web).record.clone();
    moving.leave_node();
    let put = Transaction::new().put(keys::instance(&web), crate::core::encode(&moving).unwrap());
    world.core.commit(put).await.unwrap();
    world.place(&web, "n2").await;
    world.delete(&web).await;
    // n2 was never assigned it.
    world.gone("n2", &web, 2).await;
    let now = world.find(&web).expect("it runs on n1");
    assert_eq!(
        (now.desired_state, leaving(&now)),
        (DesiredState::Gone, vec!["n1"])
    );
    assert_eq!(now.node, None);
    world.gone("n1", &web, 1).await;
    assert!(world.find(&web).is_none());
}

#[tokio::test]
async fn late_report_of_an_earlier_placement_ends_no_deletion() {
    let world = world().await;
    world.node("n1").await;
    let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
    for _ in 0..2 {
        world.place(&web, "n1").await;
    }
    world.delete(&web).await;
    world.gone("n1", &web, 1).await;
    assert!(world.find(&web).is_some(), "the second placement runs");
    world.gone("n1", &web, 2).await;
    assert!(world.find(&web).is_none());
}

#[tokio::test]
async fn refused_instance_is_assigned_to_no_other_before_its_node_has_ended_it() {
    let world = world().await;
    world.node("n1").await;
    let web = world.create("web", spec(0, RunPolicy::Exclusive)).await;
    world.place(&web, "n1").await;
    let refuse = async |epoch| {
        let refusal = Refusal {
            id: &web,
            generation: world.get(&web).generation,
            epoch,
            why: "the disk is full",
        };
        world.core.refuse("n1", &refusal).await.unwrap();
    };
    refuse(1).await;
    let now = world.get(&web);
    assert_eq!((now.node.as_deref(), leaving(&now)), (None, vec!["n1"]));
    world.gone("n1", &web, 1).await;
    assert!(world.get(&web).is_assignable());
    // One that was placed again meanwhile is not refused by what was sent before.
    world.place(&web, "n1").await;
    refuse(1).await;
    assert_eq!(world.get(&web).node.as_deref(), Some("n1"));
    // What is stopped stays so, and what is deleted keeps its record as long.
    world.core.stop_instance(&admin(), &web).await.unwrap();
    refuse(2).await;
    let now = world.get(&web);
    assert_eq!(now.state, InstanceState::Stopped);
    assert_eq!(leaving(&now), ["n1"]);
    world.delete(&web).await;
    world.gone("n1", &web, 2).await;
    assert!(world.find(&web).is_none());
}

#[tokio::test]
async fn leader_whose_host_was_suspended_waits_for_the_next_renewal() {
    let world = world().await;
    let (asked, lasts) = (BootInstant::now(), Duration::from_secs(60));
    world.core.renew_lead_from(asked, lasts);
    assert!(world.core.leads_now());
    let before = asked.before_suspension(2 * lasts);
    world.core.renew_lead_from(before, lasts);
    assert!(!world.core.leads_now(), "another may lead since");
    let put = Transaction::new().put("x", "y");
    assert!(world.core.commit_as_leader(put).await.is_err());
    world.core.renew_lead_from(BootInstant::now(), lasts);
    assert!(world.core.leads_now());
}

#[tokio::test]
async fn server_whose_tables_lag_behind_does_not_lead() {
    let world = world().await;
    world.core.set_lead(Lead::Following(None));
    // Nothing more comes to the tables.
    world.shutdown.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let tasks = TaskGroup::from(CancellationToken::new());
    let store: Arc<dyn strata_store::Store> = Arc::new(world.store.clone());
    start_leadership(world.core.clone(), store, "here".into(), &tasks);
    let elected = async || world.store.get("leader").await.unwrap().is_some();
    let within = |what: bool| {
        let elected = &elected;
        tokio::time::timeout(TIMEOUT, async move {
            while elected().await != what {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    };
    within(true).await.expect("it claims the lead");
    assert_eq!(world.core.lead(), Lead::Following(None));
    within(false).await.expect("it gives it up for another");
    assert_eq!(world.core.lead(), Lead::Following(None));
    tasks.shutdown().cancel();
}

/// `web` was on n1, which is lost and may be kept running by n2.
async fn unplaced_by_a_loss(runs: RunPolicy) -> (World, InstanceId) {
    let world = world().await;
    for node in ["n1", "n2"] {
        world.node(node).await;
    }
    let web = world.create("web", spec(0, runs)).await;
    world.place(&web, "n1").await;
    let witnesses = ["n2".to_owned()].into();
    let held = world
        .core
        .hold_to_lease("n1", LEASE, Some(&witnesses), open_link());
    held.await.unwrap();
    world.lose("n1").await;
    world.core.live().alive("n2");
    reconcile(&world.core, &mut State::default()).await;
    let now = world.get(&web);
    assert_eq!((now.node.as_deref(), leaving(&now)), (None, vec!["n1"]));
    assert!(now.is_assignable());
    (world, web)
}

#[tokio::test]
async fn node_that_is_back_has_again_what_was_placed_nowhere() {
    let (world, web) = unplaced_by_a_loss(RunPolicy::Exclusive).await;
    let epoch = world.get(&web).epoch;
    world.is_back("n1").await;
    world.core.resume_placements("n1").await.unwrap();
    let now = world.get(&web);
    assert_eq!((now.node.as_deref(), now.epoch), (Some("n1"), epoch + 1));
    assert_eq!(leaving(&now), Vec::<&str>::new());
}

#[tokio::test]
async fn what_a_node_that_is_back_may_not_keep_waits_for_its_confirmation() {
    // It is drained.
    let (world, web) = unplaced_by_a_loss(RunPolicy::Exclusive).await;
    world.core.drain_node(&admin(), "n1", true).await.unwrap();
    // It is changed.
    let (changed, other) = unplaced_by_a_loss(RunPolicy::Exclusive).await;
    let change = InstanceUpdate {
        spec: Some(spec(200, RunPolicy::Exclusive)),
        ..InstanceUpdate::default()
    };
    let (admin, any) = (admin(), Precondition::default());
    let update = changed.core.update_instance(&admin, &other, change, any);
    update.await.unwrap();
    // It was placed elsewhere meanwhile, where it is not any more.
    let (moved, third) = unplaced_by_a_loss(RunPolicy::Exclusive).await;
    let mut next = moved.get(&third).record.clone();
    next.place_on("n2");
    next.node = None;
    let put = Transaction::new().put(keys::instance(&third), crate::core::encode(&next).unwrap());
    moved.core.commit(put).await.unwrap();
    for (world, id) in [(world, web), (changed, other), (moved, third)] {
        world.is_back("n1").await;
        world.core.resume_placements("n1").await.unwrap();
        let now = world.get(&id);
        assert_eq!((now.node.as_deref(), leaving(&now)), (None, vec!["n1"]));
        assert!(!now.is_assignable(), "n1 may run it: {now:?}");
        world.gone("n1", &id, now.epoch).await;
        assert!(world.get(&id).is_assignable());
    }
}

#[tokio::test]
async fn available_instance_that_becomes_exclusive_waits_for_a_lost_node() {
    for witnessed in [true, false] {
        let (world, web) = unplaced_by_a_loss(RunPolicy::Available).await;
        if !witnessed {
            let held = world.core.hold_to_lease("n1", LEASE, None, open_link());
            held.await.unwrap();
        }
        world.place(&web, "n2").await;
        let epoch = world.get(&web).epoch;
        let change = InstanceUpdate {
            spec: Some(spec(0, RunPolicy::Exclusive)),
            ..InstanceUpdate::default()
        };
        let (admin, any) = (admin(), Precondition::default());
        let changed = world.core.update_instance(&admin, &web, change, any);
        changed.await.unwrap();
        world.gone("n2", &web, epoch).await;
        world.place(&web, "n2").await;
        for _ in 0..3 {
            world.core.live().alive("n2");
            reconcile(&world.core, &mut State::default()).await;
            let now = world.get(&web);
            assert_eq!(leaving(&now), ["n1"]);
            assert!(!now.is_assignable(), "no lease ends it there: {now:?}");
        }
        // A person declares that nothing runs there.
        world.core.declare_node_gone("n1").await.unwrap();
        reconcile(&world.core, &mut State::default()).await;
        assert!(world.get(&web).is_assignable());
    }
}

#[tokio::test]
async fn lease_confirmed_on_a_link_that_was_replaced_changes_nothing() {
    let world = world().await;
    world.node("n1").await;
    world
        .core
        .narrow_witnesses("n1", &BTreeSet::new())
        .await
        .unwrap();
    let replaced = CancellationToken::new();
    replaced.cancel();
    let witnesses = ["n2".to_owned()].into();
    let held = world
        .core
        .hold_to_lease("n1", LEASE, Some(&witnesses), replaced);
    held.await.unwrap();
    assert_eq!(
        world.core.node("n1").unwrap().witnesses,
        Some(BTreeSet::new())
    );
}
