//! One control plane in memory, and callers of every role.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{CONTENT_TYPE, HeaderName};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use strata_api::controller::scheduler_service_server::SchedulerService as _;
use strata_api::controller::{InstanceStatus, Status};
use strata_identity::{Caller, Clock, Proof};
use strata_scheduler::{Overcommit, Settings};
use strata_server::api::grpc::{ClusterApi, ControllerApi, NodeInstancesApi};
use strata_server::api::rest::{self, RestState};
use strata_server::core::{Core, CoreSettings, Lead, NodeFacts, Range, Registration, StoreBounds};
use strata_server::link::Tunnels;
use strata_server::{Build, api, operations, placement};
use strata_store::{Memory, Store};
use strata_transport::{AuthLayer, AuthService, Peer};
use strata_types::Role;
use tokio_util::sync::CancellationToken;
use tower::{Layer as _, ServiceExt as _};

/// Longer than anything here takes.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(20);
/// Longer than any operation here takes.
const LONG_WAIT_TIMEOUT: Duration = Duration::from_secs(180);

pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) state: RestState,
    pub(crate) service: ClusterApi,
    app: AuthService<axum::Router>,
    shutdown: CancellationToken,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{self:?} is no JSON"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn etag(&self) -> String {
        self.header("etag").unwrap().to_owned()
    }

    /// That it is a problem of this status in this field.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, field: Option<&str>) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let problem = self.json();
        assert_eq!(problem["status"], status);
        let code = problem["code"].as_str().unwrap();
        assert_eq!(problem["type"], format!("urn:strata:error:{code}"));
        assert!(!problem["title"].as_str().unwrap().is_empty());
        assert!(!problem["detail"].as_str().unwrap().is_empty());
        assert_eq!(
            problem.get("field").and_then(Value::as_str),
            field,
            "{problem}"
        );
        problem
    }
}

pub(crate) fn caller(role: Role) -> Caller {
    Caller {
        name: role.as_str().parse().unwrap(),
        role,
        projects: None,
        proof: Proof::Certificate,
        expires_at: None,
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::over(Arc::new(Memory::new())).await
    }

    pub(crate) async fn over(store: Arc<dyn Store>) -> Self {
        Self::with(store, operations::Backends::none).await
    }

    /// With these bounds on what callers put into the store.
    pub(crate) async fn bounded(store: Arc<dyn Store>, bounds: StoreBounds) -> Self {
        Self::made(store, bounds, operations::Backends::none).await
    }

    /// With what operations work on.
    pub(crate) async fn with(
        store: Arc<dyn Store>,
        backends: impl FnOnce(&Core) -> operations::Backends,
    ) -> Self {
        Self::made(store, StoreBounds::default(), backends).await
    }

    async fn made(
        store: Arc<dyn Store>,
        bounds: StoreBounds,
        backends: impl FnOnce(&Core) -> operations::Backends,
    ) -> Self {
        let shutdown = CancellationToken::new();
        let settings = CoreSettings {
            range: Range::DEFAULT,
            lease: Duration::from_secs(10),
            placement: Settings::default(),
            overcommit: Overcommit::default(),
            alone: true,
            bounds,
            events_file: None,
            server_port: Some(7443),
        };
        let core = Core::open(store.clone(), settings, shutdown.clone())
            .await
            .unwrap();
        core.set_lead(Lead::Leading(None));
        let placement = placement::start(core.clone(), shutdown.clone());
        let backends = backends(&core);
        let operations = operations::start(&core, &backends, store.clone(), shutdown.clone());
        let operations = operations.expect("operations are known once");
        let talk = NodeInstancesApi::new(core.clone(), Tunnels::default());
        let state = RestState::new(
            core.clone(),
            placement,
            operations,
            backends,
            talk,
            shutdown.clone(),
        );
        let build = Build {
            version: "1.2.3".into(),
            compiler: "rustc 1.95.0".into(),
            ..Build::default()
        };
        let service = ClusterApi::new(state.backends.clusters.clone(), build);
        let routes = rest::routes(state.clone()).merge(rest::gateway(service.clone()));
        let gate = AuthLayer::new(api::policy(), None, Clock::system());
        Self {
            core,
            app: gate.layer(routes),
            state,
            service,
            shutdown,
        }
    }

    /// A node that is ready, with room for a lot.
    pub(crate) async fn node(&self, name: &str) {
        let registration = Registration {
            name: name.to_owned(),
            subnet: None,
        };
        self.core.register_node(&registration).await.unwrap();
        let facts = NodeFacts {
            address: Some("192.0.2.1".into()),
            version: Some("1.0".into()),
            capacity: Some((64_000, 256_000_000_000, 2_000_000_000_000)),
            follows: Some(true),
            ..NodeFacts::default()
        };
        self.core.update_node_facts(name, &facts).await.unwrap();
    }

    /// The node of an instance reports how it is.
    pub(crate) async fn tell(&self, id: &str, status: Status, description: &str) {
        let mut request = tonic::Request::new(InstanceStatus {
            id: id.to_owned(),
            status: status.into(),
            description: description.to_owned(),
        });
        request.extensions_mut().insert(caller(Role::Admin));
        let service = ControllerApi::new(self.core.clone());
        service.set_instance_status(request).await.unwrap();
    }

    pub(crate) async fn send(&self, caller: Option<Caller>, mut request: Request) -> Response {
        let peer = Peer {
            remote: None,
            local: None,
            certificate: None,
            caller: Ok(caller),
            certificate_id: None,
        };
        request.extensions_mut().insert(Arc::new(peer));
        self.app.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn ask(
        &self,
        caller: Caller,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            request = request.header(name, *value);
        }
        let request = request.body(body.into()).unwrap();
        let response = self.send(Some(caller), request).await;
        let (parts, body) = response.into_parts();
        let body = tokio::time::timeout(WAIT_TIMEOUT, body.collect())
            .await
            .unwrap();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text: String::from_utf8(body.unwrap().to_bytes().to_vec()).unwrap(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(caller(Role::Admin), "GET", path, &[], "").await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.with_body("PUT", path, &[], body).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.with_body("PATCH", path, &[], body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask(caller(Role::Admin), "DELETE", path, &[], "").await
    }

    pub(crate) async fn with_body(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let mut all = vec![(CONTENT_TYPE.as_str(), "application/json")];
        all.extend(headers);
        self.ask(caller(Role::Admin), method, path, &all, body.to_string())
            .await
    }

    /// Begins something long.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.with_body("POST", path, &[], body).await
    }

    /// How what was begun came to its end.
    pub(crate) async fn end_of(&self, begun: &Answer) -> Value {
        assert_eq!(begun.status, 202, "{begun:?}");
        let id = begun.json()["id"].as_str().unwrap().to_owned();
        let path = format!("/operation/{id}");
        assert_eq!(begun.header("location"), Some(path.as_str()));
        let waiting = self.state.operations.wait(id.parse().unwrap());
        let ended = tokio::time::timeout(LONG_WAIT_TIMEOUT, waiting).await;
        ended.expect("it ends").unwrap();
        self.get(&path).await.json()
    }

    /// That what was begun came to a good end.
    pub(crate) async fn done(&self, begun: &Answer) -> Value {
        let ended = self.end_of(begun).await;
        assert_eq!(ended["status"], "COMPLETED", "{ended}");
        ended
    }

    /// A new instance with this name.
    pub(crate) async fn instance(&self, name: &str) -> Answer {
        let body = json!({ "name": name, "uri": "docker.io/library/nginx:1.27" });
        let made = self.put("/instance/", &body).await;
        assert_eq!(made.status, 201, "{made:?}");
        made
    }

    /// Waits until what is at `path` is as wanted.
    pub(crate) async fn until(&self, path: &str, condition: impl Fn(&Answer) -> bool) -> Answer {
        let mut changes = self.core.watch_all();
        let waiting = async {
            loop {
                let answer = self.get(path).await;
                if condition(&answer) {
                    return answer;
                }
                let _ = changes.recv().await;
            }
        };
        let waited = tokio::time::timeout(WAIT_TIMEOUT, waiting).await;
        waited.unwrap_or_else(|_| panic!("{path} did not become as condition"))
    }

    /// All that can be listed, for tests that nothing was changed.
    pub(crate) async fn everything(&self) -> String {
        let mut all = String::new();
        for path in ["/instance", "/workload", "/node", "/project"] {
            all += &self.get(path).await.text;
        }
        all
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}
