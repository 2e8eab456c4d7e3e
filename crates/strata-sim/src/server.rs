//! A simulated server: the core of the product with its reconcilers, its
//! operations, its REST API and its links, over the simulated store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use http::Request;
use http_body_util::{BodyExt as _, Collected};
use strata_identity::{Caller, CertificateId, Clock, Proof};
use strata_scheduler::{Overcommit, Settings};
use strata_server::api::grpc::NodeInstancesApi;
use strata_server::api::rest::{self, RestState};
use strata_server::core::{Core, CoreSettings, Lead, Range, StoreBounds};
use strata_server::link::{AssignmentsApi, LinkPeer, NodeMessages, ServerMessages, Tunnels};
use strata_server::operations::Backends;
use strata_server::{api, operations, placement, reconcile};
use strata_store::Store;
use strata_tasks::{Stage, Tasks};
use strata_transport::{AuthLayer, AuthService, Peer};
use strata_types::{Result, Role};
use tokio::sync::oneshot;
use tonic::Status;
use tower::{Layer as _, ServiceExt as _};

use crate::checks::address;
use crate::env::Env;
use crate::net::{Network, Place};
use crate::process::Process;
use crate::store::{Engine, StoreClient};

/// How soon the service manager starts a server again that could not start.
const START_AGAIN: Duration = Duration::from_secs(1);
/// How long a caller waits for an answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What all servers have in common.
#[derive(Clone)]
pub(crate) struct ServerSettings {
    pub(crate) alone: bool,
    pub(crate) lease: Duration,
}

/// A server that has started.
#[derive(Clone)]
struct Serving {
    links: AssignmentsApi,
    app: AuthService<axum::Router>,
    tasks: Tasks,
}

/// A server, while it runs and while it does not.
pub(crate) struct SimServer {
    pub(crate) at: usize,
    env: Arc<Env>,
    net: Arc<Network>,
    engine: Arc<Engine>,
    settings: ServerSettings,
    state: Mutex<(Arc<Process>, Option<Serving>)>,
}

impl SimServer {
    pub(crate) fn new(
        env: &Arc<Env>,
        net: &Arc<Network>,
        engine: &Arc<Engine>,
        at: usize,
        settings: ServerSettings,
    ) -> Arc<Self> {
        let none = Process::new(env);
        none.kill();
        Arc::new(Self {
            at,
            env: env.clone(),
            net: net.clone(),
            engine: engine.clone(),
            settings,
            state: Mutex::new((none, None)),
        })
    }

    fn state(&self) -> MutexGuard<'_, (Arc<Process>, Option<Serving>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn place(&self) -> Place {
        Place::Server(self.at)
    }

    pub(crate) fn process(&self) -> Arc<Process> {
        self.state().0.clone()
    }

    fn serving(&self) -> Option<(Arc<Process>, Serving)> {
        let state = self.state();
        Some((state.0.clone(), state.1.clone()?))
    }

    /// Starts it, unless it runs.
    pub(crate) fn start(self: &Arc<Self>) {
        let process = {
            let mut state = self.state();
            if !state.0.is_dead() {
                return;
            }
            *state = (Process::new(&self.env), None);
            state.0.clone()
        };
        self.env.note(format_args!("{} starts", self.place()));
        let server = self.clone();
        let own = process.clone();
        process.spawn("server", async move {
            loop {
                match server.serve().await {
                    Ok(serving) => {
                        let mut state = server.state();
                        if Arc::ptr_eq(&state.0, &own) {
                            state.1 = Some(serving);
                        }
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "server not started");
                        tokio::time::sleep(START_AGAIN).await;
                    }
                }
            }
        });
    }

    async fn serve(&self) -> Result<Serving> {
        let tasks = Tasks::default();
        let controllers = &tasks.group(Stage::Controllers);
        let services = &tasks.group(Stage::Services);
        let store: Arc<dyn Store> = Arc::new(StoreClient {
            place: self.place(),
            net: self.net.clone(),
            engine: self.engine.clone(),
        });
        let settings = CoreSettings {
            range: Range::DEFAULT,
            lease: self.settings.lease,
            placement: Settings::default(),
            overcommit: Overcommit::default(),
            alone: self.settings.alone,
            bounds: StoreBounds::default(),
            events_file: None,
            server_port: Some(7700),
        };
        let core = Core::open(store.clone(), settings, services).await?;
        let placement = placement::start(core.clone(), controllers);
        reconcile::start_liveness(core.clone(), controllers);
        let backends = Backends::none(&core);
        let operations = operations::start(&core, &backends, store.clone(), controllers)?;
        match self.settings.alone {
            true => core.set_lead(Lead::Leading(None)),
            false => {
                reconcile::start_leadership(core.clone(), store, address(self.at), controllers);
            }
        }
        let tunnels = Tunnels::default();
        let talk = NodeInstancesApi::new(core.clone(), tunnels.clone());
        let shutdown = tasks.group(Stage::Api).shutdown().clone();
        let links = AssignmentsApi::new(core.clone(), tunnels, controllers);
        let state = RestState::new(
            core.clone(),
            placement,
            operations,
            backends,
            talk,
            shutdown,
        );
        let gate = AuthLayer::new(api::policy(), None, Clock::system());
        let app = gate.layer(rest::routes(state));
        Ok(Serving { links, app, tasks })
    }

    /// Kills it. Its host lives: its connections end.
    pub(crate) fn kill(&self) {
        let process = {
            let mut state = self.state();
            state.1 = None;
            state.0.clone()
        };
        process.kill();
        self.net.reset(self.place());
    }

    /// Ends it as its service manager does.
    pub(crate) async fn stop(&self) {
        if let Some((process, serving)) = self.serving() {
            let (done, ended) = oneshot::channel();
            process.spawn("shutdown", async move {
                for stage in Stage::ORDER {
                    serving.tasks.stop(stage).await;
                }
                let _ = done.send(());
            });
            drop(tokio::time::timeout(Duration::from_secs(10), ended).await);
        }
        self.kill();
    }

    /// Whether something listens there. Waits while the process stands still.
    pub(crate) async fn accepts(&self) -> bool {
        let Some((process, _)) = self.serving() else {
            return false;
        };
        let (answer, answered) = oneshot::channel();
        process.spawn("accept", async move {
            let _ = answer.send(());
        });
        answered.await.is_ok()
    }

    /// Begins the link of a node.
    pub(crate) async fn link(
        &self,
        certificate: Arc<CertificateId>,
        peer: LinkPeer,
        from_node: NodeMessages,
    ) -> std::result::Result<ServerMessages, Status> {
        let gone = || Status::unavailable("the connection ended");
        let (process, serving) = self.serving().ok_or_else(gone)?;
        let (answer, answered) = oneshot::channel();
        process.spawn("follow", async move {
            drop(answer.send(serving.links.link(certificate, peer, from_node)));
        });
        answered.await.map_err(|_| gone())?
    }

    /// Sends a request to its REST API: the status and the body of the answer;
    /// none where none comes.
    pub(crate) async fn request(&self, mut request: Request<Body>) -> Option<(u16, String)> {
        let peer = Peer {
            remote: None,
            local: None,
            certificate: None,
            caller: Ok(Some(Caller {
                name: "admin".parse().ok()?,
                role: Role::Admin,
                projects: None,
                proof: Proof::Certificate,
                expires_at: None,
            })),
            certificate_id: None,
        };
        request.extensions_mut().insert(Arc::new(peer));
        let asking = async {
            self.net.cross(Place::Client, self.place()).await;
            let (process, serving) = self.serving()?;
            let (answer, answered) = oneshot::channel();
            process.spawn("request", async move {
                let Ok(response) = serving.app.oneshot(request).await;
                let status = response.status().as_u16();
                let body = response.into_body().collect().await;
                let body = body.map(Collected::to_bytes).unwrap_or_default();
                let text = String::from_utf8_lossy(&body).into_owned();
                drop(answer.send((status, text)));
            });
            let answer = answered.await.ok()?;
            self.net.cross(self.place(), Place::Client).await;
            Some(answer)
        };
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, asking).await;
        answer.ok().flatten()
    }
}
