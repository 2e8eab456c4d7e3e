//! Machines that are brought up and taken down, on a provider that simulates:
//! through the trials that every kind of operation has to pass, and through a
//! thousand lives with faults at every call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rand::{Rng as _, SeedableRng as _};
use strata_machines::sim::{Fault, Sim};
use strata_machines::{Provider, Providers, Secret, Tag};
use strata_server::autoscale;
use strata_server::core::{Core, HypervisorState, Machine, NodeFacts};
use strata_server::operations::{
    CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput, HypervisorProof, Hypervisors,
    SwitchInput, SwitchMachine,
};
use strata_server::reconcile::{look_at_machines, look_at_power};
use strata_types::Result;
use strata_types::instance::InstanceState;
use strata_types::machine::{MachinePhase, MachineSpec, ProviderKind};
use strata_workflow::testing::{self, KindHarness};
use strata_workflow::{Operations, Registry, Settings, State, Workflow};
use tokio_util::task::AbortOnDropHandle;

use crate::world::{World, admin, facts, label, spec};

const RUN: &str = "test";

struct Proven;

impl HypervisorProof for Proven {
    fn prove<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        std::future::ready(Ok(())).boxed()
    }
}

fn sim_spec() -> MachineSpec {
    serde_json::from_value(serde_json::json!({ "provider": ProviderKind::Sim })).unwrap()
}

async fn add(world: &World, id: &str) {
    let (principal, id) = (admin(), label(id));
    let added = world.core.add_machine(&principal, &id, sim_spec()).await;
    added.unwrap();
}

/// Every machine that is on and was booted has a node that sends heartbeats.
fn speaking(core: &Core, sim: &Sim) -> AbortOnDropHandle<()> {
    let (core, sim) = (core.clone(), sim.clone());
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut beat = tokio::time::interval(Duration::from_millis(20));
        loop {
            beat.tick().await;
            for (_, machine) in sim.machines() {
                let (true, Some(tag), Some(_)) = (machine.on, machine.tag, machine.boot) else {
                    continue;
                };
                let name = tag.machine.as_str();
                if core.node(name).is_ok() {
                    let word = NodeFacts {
                        gpus: Some([("x".to_owned(), 1)].into()),
                        ..facts(4, 8000)
                    };
                    let _ = core.update_node_facts(name, &word).await;
                }
            }
        }
    }))
}

fn hypervisors(core: &Core, sim: &Sim) -> Hypervisors {
    let driver: Arc<dyn Provider> = Arc::new(sim.clone());
    Hypervisors {
        providers: Providers::new([driver]),
        join_tokens: Arc::new(|_, _| Ok(Secret::new("once"))),
        prove: Arc::new(Proven),
        server: "https://server".into(),
        run: RUN.into(),
        ..Hypervisors::none(core.clone())
    }
}

/// A world, its machines, and the nodes that send heartbeats.
struct ClusterWorld {
    _world: World,
    sim: Sim,
    _voices: [AbortOnDropHandle<()>; 2],
}

/// A world with one machine, up or down, and maybe a node beside it.
struct One {
    up: bool,
    other: bool,
    /// What the trials work on, as long as they do.
    stages: Mutex<Vec<ClusterWorld>>,
}

impl One {
    fn new(up: bool) -> Self {
        Self {
            up,
            other: false,
            stages: Mutex::default(),
        }
    }

    fn beside_another(up: bool) -> Self {
        let other = true;
        Self {
            other,
            ..Self::new(up)
        }
    }

    async fn make(&self) -> Arc<Hypervisors> {
        let world = World::new().await;
        let sim = Sim::new(["m1"]);
        let voices = speaking(&world.core, &sim);
        add(&world, "m1").await;
        let own = hypervisors(&world.core, &sim);
        if self.up {
            run::<CreateHypervisor>(&own, &CreateInput::hypervisor("m1")).await;
            world.create("web", spec(1000, 100)).await;
            world.until_state("web", InstanceState::Scheduled).await;
        }
        if self.other {
            world.node("other", 4, 8000).await;
        }
        let others: &'static [&'static str] = if self.other { &["other"] } else { &[] };
        let world = ClusterWorld {
            _voices: [voices, world.speaking(others)],
            _world: world,
            sim,
        };
        self.stages.lock().unwrap().push(world);
        Arc::new(own)
    }

    fn sim(&self) -> Sim {
        self.stages.lock().unwrap().last().unwrap().sim.clone()
    }
}

/// Runs an operation to its end, which must be a good one.
async fn run<K: strata_workflow::Kind<Context = Hypervisors> + Default>(
    own: &Hypervisors,
    input: &K::Input,
) {
    let ended = run_to_end::<K>(own, input).await;
    assert!(matches!(ended.state, State::Completed { .. }), "{ended:?}");
}

async fn run_to_end<K: strata_workflow::Kind<Context = Hypervisors> + Default>(
    own: &Hypervisors,
    input: &K::Input,
) -> strata_workflow::Operation {
    let mut registry = Registry::new();
    registry
        .register(K::default(), Arc::new(own.clone()))
        .unwrap();
    let store = Arc::new(strata_store::Memory::new());
    let operations = Operations::new(store, registry);
    let engine = Workflow::open(operations.clone(), Settings::default())
        .await
        .unwrap();
    let id = operations.submit::<K>(input, "test", None).await.unwrap();
    let ended = operations.wait(id).await.unwrap();
    engine.shutdown().await;
    ended
}

fn machine(core: &Core) -> Machine {
    core.machine("m1").unwrap().record.clone()
}

/// It is as if it had never been touched.
fn assert_free(core: &Core, sim: &Sim) {
    let simulated = sim.machines()["m1"].clone();
    assert!(
        simulated.tag.is_none() && !simulated.on && !simulated.dirty,
        "{simulated:?}"
    );
    assert_eq!(machine(core).phase, MachinePhase::Available);
    assert!(core.node("m1").is_err(), "its node is gone");
}

struct Creating(One);

impl KindHarness for Creating {
    type Kind = CreateHypervisor;

    fn kind(&self) -> CreateHypervisor {
        CreateHypervisor
    }

    fn world(&self) -> BoxFuture<'_, Arc<Hypervisors>> {
        self.0.make().boxed()
    }

    fn input(&self, _: &Hypervisors) -> CreateInput {
        CreateInput::hypervisor("m1")
    }

    fn done<'a>(&'a self, own: &'a Hypervisors) -> BoxFuture<'a, ()> {
        async {
            let now = machine(&own.core);
            assert_eq!(now.phase, MachinePhase::Up);
            assert_eq!((now.cpu, now.ram, now.gpus), (Some(4), Some(8000), 1));
            let (state, _) = own.core.hypervisor_state(&now);
            assert_eq!(state, HypervisorState::AvailableToDestroy);
            assert!(!own.core.node("m1").unwrap().draining, "it is open");
            let tag = self.0.sim().machines()["m1"].tag.clone().unwrap();
            assert_eq!(
                tag,
                Tag {
                    run: RUN.into(),
                    machine: label("m1")
                }
            );
        }
        .boxed()
    }

    fn clean<'a>(&'a self, own: &'a Hypervisors) -> BoxFuture<'a, ()> {
        async { assert_free(&own.core, &self.0.sim()) }.boxed()
    }
}

#[tokio::test]
async fn bringing_a_machine_up_passes_every_trial() {
    let trial = Creating(One::new(false));
    testing::every_step_twice(&trial).await;
    testing::fail_at_every_step(&trial).await;
    testing::fail_and_undo_twice(&trial).await;
    testing::crash_at_every_step(&trial).await;
    testing::cancel_at_every_step(&trial).await;
}

struct Destroying {
    one: One,
    drain: bool,
}

impl KindHarness for Destroying {
    type Kind = DestroyHypervisor;

    fn kind(&self) -> DestroyHypervisor {
        DestroyHypervisor
    }

    fn world(&self) -> BoxFuture<'_, Arc<Hypervisors>> {
        self.one.make().boxed()
    }

    fn input(&self, _: &Hypervisors) -> DestroyInput {
        DestroyInput {
            drain: self.drain,
            ..DestroyInput::at_once("m1")
        }
    }

    fn done<'a>(&'a self, own: &'a Hypervisors) -> BoxFuture<'a, ()> {
        async {
            assert_free(&own.core, &self.one.sim());
            let web = own.core.instance(&admin(), None, "web").unwrap();
            // The lease was not waited for: it is without its node already.
            assert_ne!(web.node.as_deref(), Some("m1"));
            if self.drain {
                assert_eq!(web.node.as_deref(), Some("other"));
            }
        }
        .boxed()
    }

    /// There is no rollback once it is off: what is left is known, and the
    /// same call again finishes it.
    fn clean<'a>(&'a self, own: &'a Hypervisors) -> BoxFuture<'a, ()> {
        async {
            let (now, sim) = (machine(&own.core), self.one.sim());
            let simulated = sim.machines()["m1"].clone();
            match now.phase {
                MachinePhase::Up => assert!(simulated.tag.is_some()),
                MachinePhase::Available => assert!(simulated.tag.is_none()),
                _ => assert_ne!(
                    own.core.hypervisor_state(&now).0,
                    HypervisorState::AvailableToCreate
                ),
            }
            let again = DestroyInput::at_once("m1");
            run::<DestroyHypervisor>(own, &again).await;
            assert_free(&own.core, &sim);
        }
        .boxed()
    }
}

#[tokio::test]
async fn taking_a_machine_down_passes_every_trial() {
    let trial = Destroying {
        one: One::new(true),
        drain: false,
    };
    testing::every_step_twice(&trial).await;
    testing::fail_at_every_step(&trial).await;
    testing::crash_at_every_step(&trial).await;
    testing::cancel_at_every_step(&trial).await;
}

#[tokio::test]
async fn taking_a_machine_down_gently_passes_every_trial() {
    let trial = Destroying {
        one: One::beside_another(true),
        drain: true,
    };
    testing::every_step_twice(&trial).await;
    testing::fail_at_every_step(&trial).await;
    testing::crash_at_every_step(&trial).await;
}

#[tokio::test]
async fn machine_power_is_switched_manually() {
    let one = One::new(false);
    let own = one.make().await;
    let power = strata_api::rest::PowerAction::On;
    let input = SwitchInput {
        machine: "m1".into(),
        power,
    };
    run::<SwitchMachine>(&own, &input).await;
    assert!(one.sim().machines()["m1"].on);
    assert_eq!(
        machine(&own.core).power,
        strata_types::machine::PowerState::On
    );
}

/// A node of the same name that came by itself is another owner's.
#[tokio::test]
async fn node_of_another_machine_is_not_touched() {
    let one = One::new(false);
    let own = one.make().await;
    let core = own.core.clone();
    let registration = strata_server::core::Registration {
        name: "m1".into(),
        subnet: None,
    };
    core.register_node(&registration).await.unwrap();
    core.update_node_facts("m1", &facts(4, 8000)).await.unwrap();
    let ended = run_to_end::<CreateHypervisor>(&own, &CreateInput::hypervisor("m1")).await;
    assert!(matches!(ended.state, State::Failed { .. }), "{ended:?}");
    assert!(core.node("m1").is_ok(), "it is there still");
    assert_eq!(machine(&core).phase, MachinePhase::Available);
    assert_eq!(one.sim().machines()["m1"].boots, 0);
}

/// Requested twice, the second finds that it is up.
#[tokio::test]
async fn bringing_up_what_is_up_is_done_at_once() {
    let one = One::new(true);
    let own = one.make().await;
    let input = CreateInput::hypervisor("m1");
    run::<CreateHypervisor>(&own, &input).await;
    assert_eq!(one.sim().machines()["m1"].boots, 1);
    assert_eq!(machine(&own.core).phase, MachinePhase::Up);
}

/// A machine was taken with our tag and not recorded: as when a store is
/// restored from before.
#[tokio::test]
async fn unregistered_machine_is_found_and_released() {
    let one = One::new(false);
    let own = one.make().await;
    let (provider, target) = own.reach("m1").unwrap();
    let boot = strata_machines::Boot {
        server: String::new(),
        join_token: Secret::default(),
        labels: Default::default(),
    };
    provider.boot(&target, &boot).await.unwrap();
    let mut registry = Registry::new();
    registry.register(DestroyHypervisor, own.clone()).unwrap();
    let operations = Operations::new(Arc::new(strata_store::Memory::new()), registry);
    let engine = Workflow::open(operations.clone(), Settings::default())
        .await
        .unwrap();
    look_at_machines(&own, &operations).await;
    let begun = operations.list(&Default::default()).await.unwrap();
    operations.wait(begun[0].id).await.unwrap();
    engine.shutdown().await;
    assert_free(&own.core, &one.sim());
}

#[tokio::test]
async fn machine_that_was_never_up_has_the_size_that_its_provider_knows() {
    let one = One::new(false);
    let own = one.make().await;
    let size = |machine: Machine| (machine.threads(), machine.megabytes());
    assert_eq!(size(machine(&own.core)), (0, 0));
    let operations = Operations::new(Arc::new(strata_store::Memory::new()), Registry::new());
    look_at_machines(&own, &operations).await;
    assert_eq!(size(machine(&own.core)), (4, 8000));
}

/// Nothing is moved off nodes that are silent together; a machine that is off is
/// another matter.
#[tokio::test]
async fn instances_of_a_machine_that_is_off_move_while_losses_are_held_back() {
    let world = World::new().await;
    let sim = Sim::new(["m1", "m2"]);
    let voices = speaking(&world.core, &sim);
    for id in ["m1", "m2"] {
        add(&world, id).await;
    }
    let own = Arc::new(hypervisors(&world.core, &sim));
    for id in ["m1", "m2"] {
        run::<CreateHypervisor>(&own, &CreateInput::hypervisor(id)).await;
        world.create(&format!("on-{id}"), spec(3000, 100)).await;
    }
    for id in ["m1", "m2"] {
        let placed = |now: &strata_server::core::Instance| now.node.is_some();
        world.until(&format!("on-{id}"), "placed", placed).await;
    }
    let on = |node: &str| {
        let names = ["on-m1", "on-m2"].into_iter();
        let mut names = names.filter(|name| world.get(name).unwrap().node.as_deref() == Some(node));
        names.next().expect("each has one").to_owned()
    };
    let (first, second) = (on("m1"), on("m2"));
    let _other = world.speaking(&["other"]);
    world.node("other", 8, 16_000).await;
    // Four more, so that losing them all at once is suspicious.
    for name in ["a", "b", "c"] {
        world.node(name, 1, 100).await;
    }
    let (provider, target) = own.reach("m1").unwrap();
    provider
        .power(&target, strata_machines::Power::Off)
        .await
        .unwrap();
    // The other one is on, and silent.
    drop(voices);
    let lost = |core: &Core| {
        let nodes = core.nodes();
        let lost = |name: &str| {
            let found = nodes.iter().find(|one| one.name == name);
            found.is_some_and(|one| one.condition == strata_server::core::NodeCondition::Lost)
        };
        ["m1", "m2", "a", "b", "c"].into_iter().all(lost)
    };
    world.until_true("all are lost", lost).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let node = |name: &str| world.get(name).unwrap().node.clone();
    assert_eq!(node(&first).as_deref(), Some("m1"), "held back");
    look_at_power(&own).await;
    let on_other = |now: &strata_server::core::Instance| now.node.as_deref() == Some("other");
    world
        .until(&first, "on the node that is left", on_other)
        .await;
    assert_eq!(node(&second).as_deref(), Some("m2"), "it may run on");
}

/// Room is made when there is little, and released when there is too much.
#[tokio::test]
async fn room_is_kept_by_bringing_machines_up_and_taking_them_down() {
    let world = World::new().await;
    let sim = Sim::new(["m1", "m2", "m3"]);
    let _voices = speaking(&world.core, &sim);
    for id in ["m1", "m2", "m3"] {
        let spec = MachineSpec {
            cpu: Some(4),
            ram: Some(8000),
            ..sim_spec()
        };
        let (principal, id) = (admin(), label(id));
        world.core.add_machine(&principal, &id, spec).await.unwrap();
    }
    let own = Arc::new(hypervisors(&world.core, &sim));
    let mut registry = Registry::new();
    registry.register(CreateHypervisor, own.clone()).unwrap();
    registry.register(DestroyHypervisor, own.clone()).unwrap();
    let operations = Operations::new(Arc::new(strata_store::Memory::new()), registry);
    let engine = Workflow::open(operations.clone(), Settings::default())
        .await
        .unwrap();
    let core = &world.core;
    let keep = |cpu| strata_api::rest::Autoscaling {
        enabled: true,
        cpu,
        ..Default::default()
    };
    let up = |core: &Core| {
        let machines = core.machines().into_iter();
        machines.filter(|it| it.phase == MachinePhase::Up).count()
    };
    // Switched off, it does nothing, and still reports what it would do.
    let off = strata_api::rest::Autoscaling {
        enabled: false,
        ..keep(6000)
    };
    core.set_autoscaling(&admin(), off).await.unwrap();
    assert_eq!(core.autoscale_plan().await.unwrap().create.len(), 2);
    assert!(!autoscale::act(core, &operations, None).await.unwrap());

    core.set_autoscaling(&admin(), keep(6000)).await.unwrap();
    assert!(autoscale::act(core, &operations, None).await.unwrap());
    // What is under way is not begun again.
    assert!(!autoscale::act(core, &operations, None).await.unwrap());
    world.until_true("two are up", |core| up(core) == 2).await;
    let open = |core: &Core| core.nodes().iter().filter(|it| !it.draining).count();
    world
        .until_true("both are open", |core| open(core) == 2)
        .await;

    // So soon after, nothing is taken down; later one is, at a time.
    core.set_autoscaling(&admin(), keep(0)).await.unwrap();
    let just_now = Some(std::time::Instant::now());
    assert!(!autoscale::act(core, &operations, just_now).await.unwrap());
    assert!(autoscale::act(core, &operations, None).await.unwrap());
    let left = |core: &Core| up(core) == 1 && core.nodes().len() == 1;
    world.until_true("one went", left).await;

    // An instance that no place has room for brings another.
    world.create("a", spec(3000, 100)).await;
    world.until_state("a", InstanceState::Scheduled).await;
    world.create("b", spec(3000, 100)).await;
    world.until_state("b", InstanceState::Failed).await;
    assert!(autoscale::act(core, &operations, None).await.unwrap());
    world.until_state("b", InstanceState::Scheduled).await;
    assert_eq!(up(core), 2);
    engine.shutdown().await;
}

/// Random lives of some machines, several at once, with something going wrong
/// at one call in five: before its effect, after it, or permanently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_lives_lose_no_machine_and_use_none_twice() {
    let rounds = strata_testkit::rounds(200, 5000);
    let ids = ["m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"];
    let world = World::new().await;
    let sim = Sim::new(ids);
    let _voices = speaking(&world.core, &sim);
    for id in ids {
        add(&world, id).await;
    }
    let own = Arc::new(hypervisors(&world.core, &sim));
    let store = Arc::new(strata_store::Memory::new());
    let mut registry = Registry::new();
    registry.register(CreateHypervisor, own.clone()).unwrap();
    registry.register(DestroyHypervisor, own.clone()).unwrap();
    let operations = Operations::new(store, registry);
    let engine = Workflow::open(operations.clone(), Settings::default())
        .await
        .unwrap();
    let mut chance = rand::rngs::StdRng::seed_from_u64(5);
    sim.set_faults(move |call, _| match chance.random_range(0..40u32) {
        0..3 => Fault::Before,
        3..6 => Fault::After,
        // What is refused permanently is never the rollback: that has to end.
        6..8 if call == "boot" || call == "wait" => Fault::Refused,
        _ => Fault::None,
    });
    let lives = Arc::new(AtomicU64::new(0));
    let drivers = ids.map(|id| {
        let (operations, core, lives) = (operations.clone(), world.core.clone(), lives.clone());
        tokio::spawn(async move {
            let mut failures = 0u64;
            while lives.fetch_add(1, Ordering::Relaxed) < rounds {
                let machine = id.to_owned();
                let input = CreateInput::hypervisor(machine.clone());
                let up = operations
                    .submit::<CreateHypervisor>(&input, "test", None)
                    .await;
                let up = operations.wait(up.unwrap()).await.unwrap();
                assert!(up.leftovers().is_empty(), "{up:?}");
                let failed = matches!(up.state, State::Failed { .. });
                failures += u64::from(failed);
                let phase = core.machine(id).unwrap().phase;
                match failed {
                    true => assert_eq!(phase, MachinePhase::Available),
                    false => assert_eq!(phase, MachinePhase::Up),
                }
                let input = DestroyInput::at_once(machine);
                let down = operations
                    .submit::<DestroyHypervisor>(&input, "test", None)
                    .await;
                let down = operations.wait(down.unwrap()).await.unwrap();
                assert!(matches!(down.state, State::Completed { .. }), "{down:?}");
            }
            failures
        })
    });
    let mut failures = 0;
    for driver in drivers {
        failures += driver.await.unwrap();
    }
    engine.shutdown().await;
    assert!(failures > rounds / 20, "the faults struck: {failures}");
    assert_eq!(sim.double_uses(), 0);
    let machines = sim.machines();
    assert_eq!(machines.len(), ids.len());
    for (id, simulated) in machines {
        assert!(
            simulated.tag.is_none() && !simulated.on && !simulated.dirty,
            "{id}: {simulated:?}"
        );
        assert_eq!(
            world.core.machine(&id).unwrap().phase,
            MachinePhase::Available
        );
    }
    assert_eq!(world.core.nodes().len(), 0, "no node is left");
}
