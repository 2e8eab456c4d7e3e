//! A simulated host: what runs on it takes virtual time to start and to stop,
//! may not listen to signals, goes on while no agent runs, and ends with the
//! lease that the shim holds, or with the power.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use strata_api::strata::v1;
use strata_cell::Lease;
use strata_network::{NameChange, Peer, ProjectAccess, Subnet};
use strata_node::simulation::{
    AssignedSpec, BootClock, GENERATION, Health, Host, HostNetwork, INSTANCE, Meter, SecretValues,
    UnitHost, UnitName, UnitStatus, UnitType,
};
use strata_types::pod::PodState;
use strata_types::{Ending, Error, Label, Result};
use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;
use tokio_stream::wrappers::BroadcastStream;

use crate::chance::Chance;
use crate::checks::Checks;
use crate::env::Env;
use crate::process::Process;

/// How soon what ended by itself is started again.
const RESTART_AFTER: Duration = Duration::from_secs(1);

struct Unit {
    spec: AssignedSpec,
    state: PodState,
    /// Its record says that it is to run.
    wanted: bool,
    restarts: u32,
    /// It has processes.
    runs: bool,
    /// How long its processes take to end after a signal; none that ignore it.
    heeds: Option<Duration>,
    /// Grows with each start.
    run: u64,
}

impl Unit {
    fn label(&self, name: &str) -> Option<&String> {
        match &self.spec {
            AssignedSpec::Pod(spec) => spec.labels.get(name),
            AssignedSpec::Vm(_) => None,
        }
    }

    fn instance(&self) -> Option<String> {
        self.label(INSTANCE).cloned()
    }
}

struct State {
    units: BTreeMap<UnitName, Unit>,
    /// What ends with the lease.
    fenced: BTreeSet<UnitName>,
    lease: Lease,
    /// How often it ended.
    lapses: u64,
    boot: u64,
    booted_at: Instant,
}

/// A host. It keeps its units while it is off, but nothing runs.
pub(crate) struct SimHost {
    pub(crate) at: usize,
    env: Arc<Env>,
    chance: Chance,
    checks: Arc<Checks>,
    /// How much faster its clock goes, in millionths.
    drift_ppm: i64,
    own: Weak<Self>,
    state: Mutex<State>,
    /// Processes of a unit ended, or the lease is another.
    changed: Notify,
    events: broadcast::Sender<(UnitType, String)>,
    /// The kernel with the shim: everything that goes on without an agent.
    kernel: Mutex<Arc<Process>>,
    peers: AtomicUsize,
}

impl SimHost {
    pub(crate) fn new(env: &Arc<Env>, checks: &Arc<Checks>, at: usize) -> Arc<Self> {
        let chance = Chance::of(env.seed, &format!("host {at}"));
        let drift_ppm = i64::try_from(chance.below(20_000)).unwrap_or(0) - 10_000;
        let host = Arc::new_cyclic(|own| Self {
            at,
            env: env.clone(),
            chance,
            checks: checks.clone(),
            drift_ppm,
            own: own.clone(),
            state: Mutex::new(State {
                units: BTreeMap::new(),
                fenced: BTreeSet::new(),
                lease: Lease::Unset,
                lapses: 0,
                boot: 0,
                booted_at: Instant::now(),
            }),
            changed: Notify::new(),
            events: broadcast::Sender::new(256),
            kernel: Mutex::new(Process::new(env)),
            peers: AtomicUsize::new(0),
        });
        host.boot();
        host
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kernel(&self) -> Arc<Process> {
        let kernel = self.kernel.lock();
        kernel.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn event(&self, unit: &UnitName) {
        drop(self.events.send((unit.kind, unit.name.to_string())));
    }

    /// Starts: nothing runs, and the shim holds no lease.
    pub(crate) fn boot(&self) {
        {
            let mut state = self.state();
            state.boot += 1;
            state.booted_at = Instant::now();
            state.lease = Lease::Unset;
        }
        let kernel = Process::new(&self.env);
        let mut current = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        *current = kernel.clone();
        drop(current);
        if let Some(host) = self.own.upgrade() {
            kernel.spawn("shim", async move { host.watch_lease().await });
        }
    }

    /// Everything that ran ends at once.
    pub(crate) fn power_cut(&self) {
        self.kernel().kill();
        let running: Vec<_> = {
            let state = self.state();
            let runs = state.units.iter().filter(|(_, unit)| unit.runs);
            runs.map(|(name, _)| name.clone()).collect()
        };
        for name in running {
            self.end(&name, PodState::Stopped);
        }
    }

    /// What an agent finds that starts: nothing is on its way any more.
    pub(crate) fn recover(&self) {
        let mut state = self.state();
        for unit in state.units.values_mut() {
            unit.state = match (unit.runs, unit.state) {
                (true, _) => PodState::Running,
                (false, PodState::Created) => PodState::Created,
                (false, PodState::Exited) => PodState::Exited,
                (false, _) => PodState::Stopped,
            };
        }
    }

    /// Ends one of the units that run, as a fault of its own would.
    pub(crate) fn crash(&self, agent: Option<&Arc<Process>>) {
        let running: Vec<UnitName> = {
            let state = self.state();
            let runs = state.units.iter();
            let runs = runs.filter(|(_, unit)| unit.state == PodState::Running && unit.runs);
            runs.map(|(name, _)| name.clone()).collect()
        };
        let Some(name) = self.chance.pick(&running) else {
            return;
        };
        self.env
            .note(format_args!("{} of n{} crashes", name.name, self.at + 1));
        let Some((agent, host)) = agent.zip(self.own.upgrade()) else {
            // Its agent finds it.
            self.end(name, PodState::Stopped);
            return;
        };
        self.end(name, PodState::Waiting);
        let name = name.clone();
        agent.spawn("supervise", async move {
            tokio::time::sleep(RESTART_AFTER).await;
            let waits = {
                let mut state = host.state();
                let unit = state.units.get_mut(&name);
                unit.is_some_and(|unit| {
                    let waits = unit.wanted && unit.state == PodState::Waiting;
                    unit.restarts += u32::from(waits);
                    waits
                })
            };
            if waits {
                drop(host.run(&name));
            }
        });
    }

    /// Processes of a unit end.
    fn end(&self, name: &UnitName, state_after: PodState) {
        let ended = {
            let mut state = self.state();
            let Some(unit) = state.units.get_mut(name) else {
                return;
            };
            unit.state = state_after;
            std::mem::take(&mut unit.runs).then(|| unit.instance())
        };
        if let Some(instance) = ended {
            self.checks.ended(&instance.unwrap_or_default(), self.at);
        }
        self.changed.notify_waiters();
        self.event(name);
    }

    /// Processes of a unit begin, if its lease allows it.
    fn run(&self, name: &UnitName) -> Result<()> {
        let (instance, exclusive) = {
            let now = self.now();
            let mut state = self.state();
            let exclusive = state.fenced.contains(name);
            let may = match state.lease {
                Lease::Until(end) => now < end,
                Lease::Waived => true,
                Lease::Unset => false,
            };
            let Some(unit) = state.units.get_mut(name) else {
                return Err(Error::not_found(format!("there is no unit {}", name.name)));
            };
            if exclusive && !may {
                unit.state = PodState::Stopped;
                return Err(Error::wrong_state("the lease of this node has ended"));
            }
            unit.state = PodState::Running;
            unit.run += 1;
            unit.heeds = match self.chance.below(10) {
                0 => None,
                1 => Some(self.chance.millis(0..=8000)),
                _ => Some(self.chance.millis(0..=300)),
            };
            let again = std::mem::replace(&mut unit.runs, true);
            let instance = unit.instance().filter(|_| !again);
            (instance, exclusive)
        };
        if let Some(instance) = instance {
            self.checks.started(&instance, self.at, exclusive);
        }
        self.event(name);
        Ok(())
    }

    /// The shim: ends what is fenced when the lease ends.
    async fn watch_lease(&self) {
        loop {
            let changed = self.changed.notified();
            let lease = self.state().lease;
            let now = self.now();
            match lease {
                Lease::Until(end) if now >= end => {
                    self.end_fenced();
                    changed.await;
                }
                Lease::Until(end) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep(end.saturating_sub(now) / 2 + Duration::from_millis(1)) => {}
                },
                Lease::Unset | Lease::Waived => changed.await,
            }
        }
    }

    fn end_fenced(&self) {
        let fenced: Vec<UnitName> = {
            let mut state = self.state();
            state.lapses += 1;
            let runs = |name: &&UnitName| state.units.get(name).is_some_and(|unit| unit.runs);
            state.fenced.iter().filter(runs).cloned().collect()
        };
        for name in fenced {
            self.env
                .note(format_args!("shim of n{} ends {}", self.at + 1, name.name));
            self.end(&name, PodState::Stopped);
        }
    }

    /// Has the processes of a unit end within this time.
    async fn stop_within(&self, name: &UnitName, grace: Option<Duration>, then: PodState) {
        let (heeds, grace, run) = {
            let mut state = self.state();
            let Some(unit) = state.units.get_mut(name) else {
                return;
            };
            unit.wanted = false;
            if !unit.runs {
                unit.state = then;
                return;
            }
            unit.state = match then {
                PodState::Destroying => PodState::Destroying,
                _ => PodState::Stopping,
            };
            (
                unit.heeds,
                grace.unwrap_or(unit.spec.stop_grace()),
                unit.run,
            )
        };
        self.event(name);
        // The signal is sent: what heeds it ends without the agent, too.
        if let (Some(after), Some(host)) = (heeds, self.own.upgrade()) {
            let name = name.clone();
            self.kernel().spawn("ends", async move {
                tokio::time::sleep(after).await;
                if host.is_run(&name, run) {
                    host.end(&name, then);
                }
            });
        }
        let killed_at = Instant::now() + grace;
        while self.is_run(name, run) {
            let changed = self.changed.notified();
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(killed_at) => {
                    if self.is_run(name, run) {
                        self.end(name, then);
                    }
                }
            }
        }
    }

    fn is_run(&self, name: &UnitName, run: u64) -> bool {
        let state = self.state();
        let unit = state.units.get(name);
        unit.is_some_and(|unit| unit.runs && unit.run == run)
    }
}

impl BootClock for SimHost {
    fn now(&self) -> Duration {
        let elapsed = self.state().booted_at.elapsed();
        let micros = i64::try_from(elapsed.as_micros()).unwrap_or(0);
        let micros = micros + micros * self.drift_ppm / 1_000_000;
        Duration::from_micros(u64::try_from(micros).unwrap_or(0)) + Duration::from_secs(1)
    }

    fn boot_id(&self) -> String {
        format!("boot-{}-{}", self.at + 1, self.state().boot)
    }
}

/// The units of a host.
pub(crate) struct SimUnits(pub(crate) Arc<SimHost>);

impl UnitHost for SimUnits {
    fn look(&self, unit: &UnitName) -> Option<UnitStatus> {
        let state = self.0.state();
        let found = state.units.get(unit)?;
        let generation = found.label(GENERATION).and_then(|text| text.parse().ok());
        Some(UnitStatus {
            instance: found.instance(),
            generation: generation.unwrap_or(0),
            state: found.state,
            reason: String::new(),
            address: None,
            restarts: found.restarts,
            ending: matches!(found.state, PodState::Exited).then_some(Ending::Code(0)),
            health: Health::Unknown,
            wanted: found.wanted,
            damaged: false,
        })
    }

    fn pull_progress(&self, _: &AssignedSpec) -> Option<String> {
        None
    }

    fn create(&self, spec: AssignedSpec) -> BoxFuture<'_, Result<()>> {
        async move {
            let host = &self.0;
            let takes = match host.chance.below(10) {
                0 => host.chance.millis(1000..=5000),
                _ => host.chance.millis(1..=200),
            };
            tokio::time::sleep(takes).await;
            let name = spec.unit();
            let unit = Unit {
                spec,
                state: PodState::Created,
                wanted: false,
                restarts: 0,
                runs: false,
                heeds: None,
                run: 0,
            };
            host.state().units.entry(name.clone()).or_insert(unit);
            host.event(&name);
            Ok(())
        }
        .boxed()
    }

    fn start<'a>(&'a self, name: &'a UnitName) -> BoxFuture<'a, Result<()>> {
        async move {
            let host = &self.0;
            let lapses = {
                let mut state = host.state();
                let lapses = state.lapses;
                let Some(unit) = state.units.get_mut(name) else {
                    return Err(Error::not_found(format!("there is no unit {}", name.name)));
                };
                if unit.runs {
                    return Ok(());
                }
                unit.wanted = true;
                unit.state = PodState::Starting;
                lapses
            };
            let takes = match host.chance.below(20) {
                0 => host.chance.millis(1000..=6000),
                _ => host.chance.millis(1..=100),
            };
            tokio::time::sleep(takes).await;
            // The shim looks at the lease as it is when a cell is made. A start
            // that hung while a lease ended and another began would run for a
            // moment; that is known, and not simulated.
            let mut state = host.state();
            if state.lapses != lapses && state.fenced.contains(name) {
                if let Some(unit) = state.units.get_mut(name) {
                    unit.state = PodState::Stopped;
                }
                return Err(Error::wrong_state("the lease of this node has ended"));
            }
            drop(state);
            host.run(name)
        }
        .boxed()
    }

    fn kill(&self, name: &UnitName) -> Result<()> {
        let host = &self.0;
        let then = {
            let state = host.state();
            let unit = state.units.get(name).filter(|unit| unit.runs);
            unit.map(|unit| match unit.state {
                PodState::Destroying => PodState::Destroying,
                _ => PodState::Stopped,
            })
        };
        if let Some(then) = then {
            host.end(name, then);
        }
        Ok(())
    }

    fn stop<'a>(
        &'a self,
        name: &'a UnitName,
        grace: Option<Duration>,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            self.0.stop_within(name, grace, PodState::Stopped).await;
            Ok(())
        }
        .boxed()
    }

    fn destroy<'a>(
        &'a self,
        name: &'a UnitName,
        grace: Option<Duration>,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            self.0.stop_within(name, grace, PodState::Destroying).await;
            let takes = self.0.chance.millis(0..=50);
            tokio::time::sleep(takes).await;
            self.0.state().units.remove(name);
            self.0.event(name);
            Ok(())
        }
        .boxed()
    }

    fn set_fenced(&self, name: &UnitName, fenced: bool) -> Result<()> {
        let mut state = self.0.state();
        match fenced {
            true => state.fenced.insert(name.clone()),
            false => state.fenced.remove(name),
        };
        Ok(())
    }

    fn events(&self, kind: UnitType) -> BoxStream<'static, Option<String>> {
        BroadcastStream::new(self.0.events.subscribe())
            .filter_map(move |event| {
                std::future::ready(match event {
                    Ok((of, name)) if of == kind => Some(Some(name)),
                    Ok(_) => None,
                    Err(_) => Some(None),
                })
            })
            .boxed()
    }

    fn put_secrets(&self, _: &UnitName, _: &str, _: &SecretValues) -> Result<()> {
        Ok(())
    }

    fn remove_secrets(&self, _: &UnitName) {}

    fn keep_secrets_of(&self, _: &HashSet<Label>) {}
}

struct SimMeter;

impl Meter for SimMeter {
    fn look(&mut self, _: &[(String, UnitName)]) -> v1::NodeLoad {
        v1::NodeLoad::default()
    }
}

impl Host for SimHost {
    fn network(&self) -> &dyn HostNetwork {
        self
    }

    fn hello(&self, witness_port: u16) -> v1::Hello {
        v1::Hello {
            version: "1.0".to_owned(),
            capacity: Some(v1::Amounts {
                cpu: 16_000,
                memory: 64_000_000_000,
                disk: 1_000_000_000_000,
            }),
            address: format!("192.0.2.{}", self.at + 1),
            overlay_encryption: Some(v1::OverlayEncryption::default()),
            holds_leases: true,
            witness_port: witness_port.into(),
            keeps: true,
            peer_deltas: true,
            ..v1::Hello::default()
        }
    }

    fn meter(&self) -> Box<dyn Meter> {
        Box::new(SimMeter)
    }

    fn set_lease(&self, lease: Lease) -> BoxFuture<'static, Result<()>> {
        let host = self.own.upgrade();
        async move {
            let Some(host) = host else {
                return Err(Error::unavailable("the host is gone"));
            };
            let takes = host.chance.millis(0..=5);
            tokio::time::sleep(takes).await;
            host.state().lease = lease;
            host.changed.notify_waiters();
            Ok(())
        }
        .boxed()
    }

    fn adopt_lease(&self) -> Lease {
        self.state().lease
    }
}

impl HostNetwork for SimHost {
    fn overlay_encryption(&self) -> v1::OverlayEncryption {
        v1::OverlayEncryption::default()
    }

    fn set_projects(&self, _: ProjectAccess) -> Result<()> {
        Ok(())
    }

    fn update_names(&self, _: NameChange) {}

    fn set_others(&self, _: bool) -> Result<()> {
        Ok(())
    }

    fn set_peers(&self, peers: Vec<Peer>) -> Result<()> {
        self.peers.store(peers.len(), Ordering::Relaxed);
        Ok(())
    }

    fn give(&self, _: Subnet, _: Subnet) -> Result<()> {
        Ok(())
    }

    fn peer_count(&self) -> usize {
        self.peers.load(Ordering::Relaxed)
    }

    fn has_peers(&self) -> bool {
        self.peer_count() > 0
    }
}
