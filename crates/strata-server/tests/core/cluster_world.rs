//! A control plane whose machines and whose Kubernetes are simulated, with an
//! engine that runs whatever operations begin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_clusters::catalogue::Catalogue;
use strata_clusters::sim::Sim as Kubernetes;
use strata_machines::sim::Sim as Machines;
use strata_machines::{Power, Provider, Providers, Secret};
use strata_server::core::{Cluster, Core, CoreSettings, Lead};
use strata_server::operations::{
    ClusterSettings, Clusters, CreateCluster, CreateHypervisor, DeleteCluster, DestroyHypervisor,
    HealCluster, HealInput, HypervisorProof, Hypervisors, RenewCluster, RestoreCluster,
    ScaleCluster, SnapshotCluster, SwitchMachine, UpgradeCluster,
};
use strata_server::reconcile::look_at_clusters;
use strata_store::{Memory, Store as _, Transaction};
use strata_types::Result;
use strata_types::cluster::{ControlPlane, InstanceType, KubernetesVersion, NodePool};
use strata_types::machine::{MachineSpec, ProviderKind};
use strata_workflow::{
    Kind, Operation, OperationId, Operations, Registry, Settings, State, Workflow,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use crate::world::{admin, facts, label, settings};

/// The versions that can be installed.
pub(crate) const VERSIONS: [KubernetesVersion; 4] = [
    KubernetesVersion::new(1, 33, 2),
    KubernetesVersion::new(1, 34, 1),
    KubernetesVersion::new(1, 34, 4),
    KubernetesVersion::new(1, 35, 0),
];
/// The version that clusters of trials begin with.
pub(crate) const FIRST: KubernetesVersion = VERSIONS[1];
/// The version that they are upgraded to.
pub(crate) const NEXT: KubernetesVersion = VERSIONS[3];
/// The cluster of a trial.
pub(crate) const NAME: &str = "c";
/// How long anything may take; the clock of tests is not the wall's.
const LONGEST: Duration = Duration::from_secs(8 * 24 * 3600);

struct Proven;

impl HypervisorProof for Proven {
    fn prove<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        std::future::ready(Ok(())).boxed()
    }
}

pub(crate) struct ClusterWorld {
    pub(crate) core: Core,
    pub(crate) store: Memory,
    pub(crate) machines: Machines,
    pub(crate) kubernetes: Kubernetes,
    pub(crate) hypervisors: Hypervisors,
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) operations: Operations,
    engine: std::sync::Mutex<Option<Workflow>>,
    _voices: AbortOnDropHandle<()>,
    _folder: tempfile::TempDir,
    _shutdown: DropGuard,
}

impl ClusterWorld {
    /// With so many machines, `m1` and on.
    pub(crate) async fn new(machines: usize) -> Self {
        Self::with_kinds(machines, true).await
    }

    /// One whose engine does not know how clusters are created: a record is
    /// written, and the trial runs the operation.
    pub(crate) async fn without_creating(machines: usize) -> Self {
        Self::with_kinds(machines, false).await
    }

    async fn with_kinds(many: usize, creates: bool) -> Self {
        let shutdown = CancellationToken::new();
        let settings = CoreSettings {
            // The test knows which machine is off, not a wall clock.
            lease: Duration::from_secs(3600),
            ..settings()
        };
        let store = Memory::new();
        let core = Core::open(Arc::new(store.clone()), settings, shutdown.clone()).await;
        let core = core.unwrap();
        core.set_lead(Lead::Leading(None));
        let ids: Vec<String> = (1..=many).map(|n| format!("m{n}")).collect();
        let machines = Machines::new(ids.iter().map(String::as_str));
        for id in &ids {
            let spec = serde_json::json!({ "provider": ProviderKind::Sim, "cpu": 4, "ram": 8000 });
            let spec: MachineSpec = serde_json::from_value(spec).unwrap();
            core.add_machine(&admin(), &label(id), spec).await.unwrap();
        }
        let kubernetes = Kubernetes::default();
        let looked_at = machines.clone();
        kubernetes.follow(move |id| {
            let simulated = looked_at.machines().get(id).cloned()?;
            simulated.on.then_some(simulated.wipes)
        });
        let driver: Arc<dyn Provider> = Arc::new(machines.clone());
        let hypervisors = Hypervisors {
            providers: Providers::new([driver]),
            join_tokens: Arc::new(|_, _| Ok(Secret::new("once"))),
            prove: Arc::new(Proven),
            server: "https://server".into(),
            run: "test".into(),
            ..Hypervisors::none(core.clone())
        };
        let dir = bundles();
        let clusters = Arc::new(Clusters {
            driver: Arc::new(kubernetes.clone()),
            catalogue: Catalogue::new(dir.path()),
            settings: ClusterSettings {
                first_port: 41_800,
                max_wait: Duration::ZERO,
                snapshot_every: Duration::ZERO,
                ..ClusterSettings::default()
            },
            ..Clusters::none(core.clone())
        });
        let operations = Operations::new(
            Arc::new(Memory::new()),
            registry(&hypervisors, &clusters, creates),
        );
        assert!(clusters.operations.set(operations.clone()).is_ok());
        let world = Self {
            _voices: voices(&core, &machines),
            core,
            store,
            machines,
            kubernetes,
            hypervisors,
            clusters,
            operations,
            engine: std::sync::Mutex::default(),
            _folder: dir,
            _shutdown: shutdown.drop_guard(),
        };
        world.open().await;
        world
    }

    /// Starts the engine.
    pub(crate) async fn open(&self) {
        let settings = Settings {
            at_once: 64,
            ..Settings::default()
        };
        let engine = Workflow::open(self.operations.clone(), settings).await;
        *self.engine.lock().unwrap() = Some(engine.unwrap());
    }

    /// Kills the engine.
    pub(crate) async fn close(&self) {
        let engine = self.engine.lock().unwrap().take();
        if let Some(engine) = engine {
            engine.shutdown().await;
        }
    }

    /// Kills the engine, and starts another on what it left.
    pub(crate) async fn restart(&self) {
        self.close().await;
        self.open().await;
    }

    /// Records a cluster; its operation is begun if the engine knows how.
    pub(crate) async fn ask(
        &self,
        name: &str,
        control: u32,
        pools: &[(&str, u32)],
    ) -> Result<OperationId> {
        let (principal, version) = (admin(), FIRST.to_string());
        let made =
            self.clusters
                .create(&principal, name, &version, plane(control), pools_of(pools));
        made.await
    }

    /// The cluster of a trial, running.
    pub(crate) async fn running(machines: usize, control: u32, pools: &[(&str, u32)]) -> Self {
        let world = Self::new(machines).await;
        let id = world.ask(NAME, control, pools).await.unwrap();
        world.completes(id).await;
        world
    }

    /// Requests the next version.
    pub(crate) async fn upgrade(&self) -> OperationId {
        let (principal, to) = (admin(), NEXT.to_string());
        self.clusters.upgrade(&principal, NAME, &to).await.unwrap()
    }

    pub(crate) async fn wait(&self, id: OperationId) -> Operation {
        let ended = tokio::time::timeout(LONGEST, self.operations.wait(id)).await;
        match ended {
            Ok(ended) => ended.unwrap(),
            Err(_) => panic!("it has not ended: {:?}", self.operations.get(id).await),
        }
    }

    pub(crate) async fn completes(&self, id: OperationId) {
        let ended = self.wait(id).await;
        assert!(matches!(ended.state, State::Completed { .. }), "{ended:?}");
    }

    pub(crate) async fn fails(&self, id: OperationId) {
        let ended = self.wait(id).await;
        assert!(matches!(ended.state, State::Failed { .. }), "{ended:?}");
        assert!(ended.leftovers().is_empty(), "{ended:?}");
    }

    /// Runs an operation to its good end.
    pub(crate) async fn run<K: Kind>(&self, input: &K::Input) {
        let id = self
            .operations
            .submit::<K>(input, "test", None)
            .await
            .unwrap();
        self.completes(id).await;
    }

    /// Whether the API of a cluster answers.
    pub(crate) async fn serves(&self, name: &str) -> bool {
        look_at_clusters(&self.clusters).await;
        let cluster = self.cluster(name);
        let facts = self.clusters.observations.get(name, &cluster.id);
        facts.is_some_and(|facts| facts.observed.serves)
    }

    /// A machine loses its power.
    pub(crate) async fn kill(&self, id: &str) {
        let (provider, target) = self.hypervisors.reach(id).unwrap();
        // Past all faults: this is the world, not a call.
        while provider.power(&target, Power::Off).await.is_err() {}
    }

    pub(crate) fn cluster(&self, name: &str) -> Cluster {
        self.core.cluster(name).unwrap().record.clone()
    }

    /// Writes the record of a cluster otherwise, as time or another would have.
    pub(crate) async fn rewrite(&self, name: &str, change: impl FnOnce(&mut serde_json::Value)) {
        let key = format!("cluster/{name}");
        let entry = self.store.get(&key).await.unwrap().unwrap();
        let mut record: serde_json::Value = serde_json::from_slice(&entry.value).unwrap();
        change(&mut record);
        let expected: Cluster = serde_json::from_value(record.clone()).unwrap();
        let put = Transaction::new().put(key, record.to_string());
        self.store.commit(put).await.unwrap();
        while self.cluster(name) != expected {
            tokio::task::yield_now().await;
        }
    }

    /// The machines of a pool, or of the control plane.
    pub(crate) fn of_pool(&self, name: &str, pool: &str) -> Vec<String> {
        let cluster = self.cluster(name);
        let of = cluster.members.iter().filter(|member| member.pool == pool);
        of.map(|member| member.machine.to_string()).collect()
    }

    /// Replaces these, and the member that an earlier try left.
    pub(crate) async fn heal(&self, name: &str, dead: &[String]) {
        let cluster = self.cluster(name);
        let left = cluster.members.iter().filter(|member| !member.joined);
        let left = left.map(|member| member.machine.to_string());
        let input = HealInput {
            cluster: name.into(),
            dead: left.chain(dead.iter().cloned()).collect(),
        };
        self.run::<HealCluster>(&input).await;
    }

    /// A running cluster can be deleted, and then there is nothing.
    pub(crate) async fn delete(&self, name: &str) {
        let id = self.clusters.delete(&admin(), name).await.unwrap();
        self.completes(id).await;
        assert!(self.core.cluster(name).is_err());
        self.assert_nothing();
    }
}

fn registry(hypervisors: &Hypervisors, clusters: &Arc<Clusters>, creates: bool) -> Registry {
    let mut registry = Registry::new();
    let machines = Arc::new(hypervisors.clone());
    registry
        .register(CreateHypervisor, machines.clone())
        .unwrap();
    registry
        .register(DestroyHypervisor, machines.clone())
        .unwrap();
    registry.register(SwitchMachine, machines).unwrap();
    if creates {
        registry.register(CreateCluster, clusters.clone()).unwrap();
    }
    registry.register(DeleteCluster, clusters.clone()).unwrap();
    registry.register(ScaleCluster, clusters.clone()).unwrap();
    registry.register(HealCluster, clusters.clone()).unwrap();
    registry.register(UpgradeCluster, clusters.clone()).unwrap();
    registry
        .register(SnapshotCluster, clusters.clone())
        .unwrap();
    registry.register(RestoreCluster, clusters.clone()).unwrap();
    registry.register(RenewCluster, clusters.clone()).unwrap();
    registry
}

/// Every machine that is on and was booted has a node that sends heartbeats.
fn voices(core: &Core, machines: &Machines) -> AbortOnDropHandle<()> {
    let (core, machines) = (core.clone(), machines.clone());
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut changes = core.watch_all();
        let mut spoken = BTreeMap::new();
        loop {
            for (id, simulated) in machines.machines() {
                let life = (simulated.boots, simulated.wipes);
                let speaks = simulated.on && simulated.boot.is_some() && core.node(&id).is_ok();
                if !speaks {
                    spoken.remove(&id);
                } else if spoken.get(&id) != Some(&life)
                    && core.update_node_facts(&id, &facts(4, 8000)).await.is_ok()
                {
                    spoken.insert(id, life);
                }
            }
            // A boot is followed by a change of a record; this is for missed ones.
            drop(tokio::time::timeout(Duration::from_secs(30), changes.recv()).await);
        }
    }))
}

fn bundles() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for version in VERSIONS {
        let bundle = dir.path().join(version.to_string());
        std::fs::create_dir(&bundle).unwrap();
        let text = serde_json::json!({
            "version": version.to_string(),
            "etcd": "3.6.0-0", "coredns": "v1.12.1", "pause": "3.10.1",
            "images": ["strata.internal/kubernetes/pause:3.10.1"],
        });
        std::fs::write(bundle.join("bundle.json"), text.to_string()).unwrap();
    }
    dir
}

pub(crate) fn plane(count: u32) -> ControlPlane {
    ControlPlane {
        count,
        instance_type: InstanceType::Standard,
        labels: BTreeMap::new(),
        pod_security: None,
    }
}

pub(crate) fn pools_of(pools: &[(&str, u32)]) -> Vec<NodePool> {
    let pools = pools.iter().map(|(name, count)| NodePool {
        name: (*name).into(),
        count: *count,
        instance_type: InstanceType::Standard,
        labels: [("pool".to_owned(), (*name).to_owned())].into(),
    });
    pools.collect()
}
