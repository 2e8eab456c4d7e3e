//! A node behind the real wire, with knobs for faults. It has a runtime of
//! its own, so that it can vanish as a killed process does.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use strata_api::observe::observe_server::ObserveServer;
use strata_api::runtime::cell_service_server::CellServiceServer;
use strata_api::runtime::instances_server::InstancesServer;
use strata_api::runtime::pods_server::PodsServer;
use strata_api::runtime::spawn_server::SpawnServer;
use strata_api::strata::v1::cells_server::CellsServer;
use strata_api::strata::v1::identity_server::IdentityServer;
use strata_api::strata::v1::images_server::ImagesServer;
use strata_api::strata::v1::instances_server::InstancesServer as ServerInstancesServer;
use strata_api::strata::v1::logs_server::LogsServer;
use strata_api::strata::v1::volumes_server::VolumesServer;
use strata_api::strata::v1::{
    CellInfo, ImageInfo, LogLine, Machine, MachineSpec, Pod, PodSpec, TokenInfo, Vm, VmSpec, Volume,
};
use strata_types::Error;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use super::{data, images, objects, pods, rest, vms, volumes};

/// What the node holds and how it behaves.
pub struct State {
    pub cells: Vec<CellInfo>,
    pub logs: Vec<(&'static str, LogLine)>,
    pub tokens: Vec<TokenInfo>,
    pub images: Vec<ImageInfo>,
    pub pods: Vec<Pod>,
    pub vms: Vec<Vm>,
    pub machines: Vec<Machine>,
    pub volumes: Vec<Volume>,
    /// What was asked for, as it came.
    pub created: Vec<PodSpec>,
    pub created_vms: Vec<VmSpec>,
    pub created_machines: Vec<MachineSpec>,
    /// That of the last process in a pod.
    pub environment: Vec<String>,
    /// What the REST API tells of.
    pub objects: objects::Objects,
    /// Every call is answered with this.
    pub refuse: Option<Error>,
    /// Streams never end by themselves.
    pub endless: bool,
    /// How an executable that is started ends.
    pub exit_code: i32,
    /// Every call that changed something, in words.
    pub calls: Vec<String>,
}

/// Handed to every service.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<State>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

pub struct FakeNode {
    pub state: Shared,
    runtime: Mutex<Option<Runtime>>,
}

impl FakeNode {
    /// Serves on `socket`.
    pub fn start(socket: PathBuf, change: impl FnOnce(&mut State)) -> Self {
        let mut state = State {
            cells: data::cells(),
            logs: data::logs(),
            tokens: data::tokens(),
            images: images::images(),
            pods: pods::pods(),
            vms: vms::vms(),
            machines: vms::machines(),
            volumes: volumes::volumes(),
            created: Vec::new(),
            created_vms: Vec::new(),
            created_machines: Vec::new(),
            environment: Vec::new(),
            objects: objects::objects(),
            refuse: None,
            endless: false,
            exit_code: 0,
            calls: Vec::new(),
        };
        change(&mut state);
        let state = Shared(Arc::new(Mutex::new(state)));
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(socket).unwrap()
        };
        let server = Server::builder()
            .add_routes(rest::routes(state.clone()))
            .add_service(ServerInstancesServer::new(state.clone()))
            .add_service(CellServiceServer::new(state.clone()))
            .add_service(CellsServer::new(state.clone()))
            .add_service(ImagesServer::new(state.clone()))
            .add_service(LogsServer::new(state.clone()))
            .add_service(PodsServer::new(state.clone()))
            .add_service(InstancesServer::new(state.clone()))
            .add_service(SpawnServer::new(state.clone()))
            .add_service(VolumesServer::new(state.clone()))
            .add_service(ObserveServer::new(state.clone()))
            .add_service(IdentityServer::new(state.clone()))
            .serve_with_incoming(UnixListenerStream::new(listener));
        runtime.spawn(server);
        Self {
            state,
            runtime: Mutex::new(Some(runtime)),
        }
    }

    /// Gone, in the middle of whatever it does.
    pub fn vanish(&self) {
        if let Some(runtime) = self.runtime.lock().unwrap().take() {
            // A runtime may not wait for another one's end on its own thread.
            let gone = std::thread::spawn(|| runtime.shutdown_timeout(Duration::from_secs(5)));
            gone.join().unwrap();
        }
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.vanish();
    }
}
