//! A core with placement beside it, over a store in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use strata_server::core::{
    Core, CoreSettings, DEFAULT_PROJECT, Instance, Lead, NewInstance, NodeFacts, Principal, Range,
    Registration, Versioned,
};
use strata_server::placement::{self, PlacementHandle};
use strata_server::reconcile;
use strata_store::Memory;
use strata_types::instance::{InstanceSpec, InstanceState, Resources};
use strata_types::{Label, Role};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// How often nodes send heartbeats: several times in a lease.
const BEAT: Duration = Duration::from_millis(100);
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) placement: PlacementHandle,
    pub(crate) store: Memory,
    _shutdown: DropGuard,
}

pub(crate) fn settings() -> CoreSettings {
    CoreSettings {
        range: Range::DEFAULT,
        lease: Duration::from_millis(800),
        placement: Default::default(),
        overcommit: Default::default(),
        alone: true,
        bounds: Default::default(),
        events_file: None,
        server_port: None,
    }
}

pub(crate) fn label(text: &str) -> Label {
    text.parse().expect("a label")
}

pub(crate) fn admin() -> Principal {
    Principal {
        name: "admin".into(),
        role: Role::Admin,
        projects: None,
    }
}

pub(crate) fn spec(cpu: i32, memory: i32) -> InstanceSpec {
    InstanceSpec {
        uri: "oci:/x".into(),
        resources: Resources {
            cpu,
            memory,
            disk: 0,
        },
        ..InstanceSpec::default()
    }
}

pub(crate) fn new(name: &str, spec: InstanceSpec) -> NewInstance {
    NewInstance {
        id: None,
        name: Some(label(name)),
        project: label(DEFAULT_PROJECT),
        workload: None,
        spec,
        fresh_id: None,
        desired_state: None,
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::over(Memory::new()).await
    }

    /// A server that is started on what another left.
    pub(crate) async fn over(store: Memory) -> Self {
        let shutdown = CancellationToken::new();
        let core = Core::open(Arc::new(store.clone()), settings(), shutdown.clone()).await;
        let core = core.expect("the store can be read");
        core.set_lead(Lead::Leading(None));
        let placement = placement::start(core.clone(), shutdown.clone());
        reconcile::start_liveness(core.clone(), shutdown.clone());
        Self {
            core,
            placement,
            store,
            _shutdown: shutdown.drop_guard(),
        }
    }

    /// A node with so many cores and megabytes.
    pub(crate) async fn node(&self, name: &str, cores: u64, megabytes: u64) {
        let registration = Registration {
            name: name.into(),
            subnet: None,
        };
        self.core.register_node(&registration).await.unwrap();
        self.core
            .update_node_facts(name, &facts(cores, megabytes))
            .await
            .unwrap();
    }

    /// Has these nodes send heartbeats as long as the answer is held.
    pub(crate) fn speaking(&self, nodes: &'static [&'static str]) -> AbortOnDropHandle<()> {
        let core = self.core.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut beat = tokio::time::interval(BEAT);
            loop {
                beat.tick().await;
                for node in nodes {
                    let _ = core.update_node_facts(node, &NodeFacts::default()).await;
                }
            }
        }))
    }

    /// Waits until something of all there is holds.
    pub(crate) async fn until_true(&self, what: &str, holds: impl Fn(&Core) -> bool) {
        let mut changes = self.core.watch_all();
        let waited = tokio::time::timeout(WAIT_TIMEOUT, async {
            while !holds(&self.core) {
                let _ = changes.recv().await;
            }
        });
        assert!(waited.await.is_ok(), "waited in vain: {what}");
    }

    pub(crate) async fn create(&self, name: &str, spec: InstanceSpec) -> Arc<Versioned<Instance>> {
        let made = self.core.create_instance(&admin(), new(name, spec)).await;
        made.unwrap().0
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Versioned<Instance>>> {
        self.core.instance(&admin(), None, name).ok()
    }

    /// Waits until the instance is as the condition says.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Instance) -> bool,
    ) -> Arc<Versioned<Instance>> {
        let mut changes = self.core.watch_all();
        let waited = tokio::time::timeout(WAIT_TIMEOUT, async {
            loop {
                if let Some(now) = self.get(name).filter(|now| holds(now)) {
                    return now;
                }
                let _ = changes.recv().await;
            }
        });
        match waited.await {
            Ok(found) => found,
            Err(_) => panic!("{name} does not become {what}: {:?}", self.get(name)),
        }
    }

    pub(crate) async fn until_state(
        &self,
        name: &str,
        state: InstanceState,
    ) -> Arc<Versioned<Instance>> {
        self.until(name, state.as_str(), |now| now.state == state)
            .await
    }
}

pub(crate) fn facts(cores: u64, megabytes: u64) -> NodeFacts {
    NodeFacts {
        address: Some("192.0.2.1".into()),
        labels: Some(BTreeMap::new()),
        capacity: Some((cores * 1000, megabytes * 1_000_000, 1_000_000_000_000)),
        follows: Some(true),
        runs_vms: Some(false),
        ..NodeFacts::default()
    }
}
