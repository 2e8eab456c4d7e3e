//! Commands against the routes that a server really has, in this process:
//! over TLS, with a token, on a store in memory. No node is there.

use std::sync::Arc;
use std::time::Duration;

use strata_identity::{
    Ca, CertificateSpec, Clock, LiveIdentity, Tokens, server_config_optional_client,
};
use strata_scheduler::{Overcommit, Settings};
use strata_server::api::grpc::NodeInstancesApi;
use strata_server::api::rest::{self, RestState};
use strata_server::core::{Core, CoreSettings, Lead, NodeFacts, Range, Registration};
use strata_server::link::Tunnels;
use strata_server::{ApiServer, Build, Metrics, api, operations, placement, reconcile};
use strata_store::Memory;
use strata_transport::{AuthLayer, serve_tls};
use strata_types::Role;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::common::World;

struct Served {
    world: World,
    core: Core,
    port: u16,
    _end: DropGuard,
}

impl Served {
    async fn start() -> Self {
        let world = World::new();
        let authority = Ca::open(&world.path("ca")).unwrap();
        let tokens = Arc::new(Tokens::open(&world.path("tokens.json")).unwrap());
        let admin = CertificateSpec::caller("me".parse().unwrap(), Role::Admin);
        let admin = authority.issue(&admin).unwrap();
        admin.write(&world.path("admin")).unwrap();
        let shutdown = CancellationToken::new();
        let settings = CoreSettings {
            range: Range::DEFAULT,
            lease: Duration::from_secs(10),
            placement: Settings::default(),
            overcommit: Overcommit::default(),
            alone: true,
            bounds: Default::default(),
            events_file: None,
            server_port: None,
        };
        let store = Arc::new(Memory::new());
        let core = Core::open(store.clone(), settings, shutdown.clone());
        let core = core.await.unwrap();
        core.set_lead(Lead::Leading(None));
        let placement = placement::start(core.clone(), shutdown.clone());
        reconcile::start_liveness(core.clone(), shutdown.clone());
        let backends = operations::Backends::none(&core);
        let operations = operations::start(&core, &backends, store, shutdown.clone()).unwrap();
        let talk = NodeInstancesApi::new(core.clone(), Tunnels::default());
        let state = RestState::new(
            core.clone(),
            placement,
            operations,
            backends,
            talk,
            shutdown.clone(),
        );
        let gate = AuthLayer::new(api::policy(), Some(tokens), Clock::system());
        let metrics = Arc::new(Metrics::new(gate.refusals(), Build::default()));
        let api = ApiServer::new(metrics).http(rest::routes(state));
        let app = api.router().await.unwrap();
        let server = CertificateSpec::server("server".parse().unwrap());
        let identity = LiveIdentity::new(&authority.issue(&server).unwrap()).unwrap();
        let tls =
            server_config_optional_client(&authority.ca_pem(), identity.into(), Clock::system());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(serve_tls(
            listener,
            tls.unwrap(),
            app,
            gate,
            shutdown.clone(),
        ));
        Self {
            world,
            core,
            port,
            _end: shutdown.drop_guard(),
        }
    }

    /// A node that is ready.
    async fn node(&self, name: &str) {
        let registration = Registration {
            name: name.to_owned(),
            subnet: None,
        };
        self.core.register_node(&registration).await.unwrap();
        let facts = NodeFacts {
            capacity: Some((64_000, 256_000_000_000, 2_000_000_000_000)),
            follows: Some(true),
            ..NodeFacts::default()
        };
        self.core.update_node_facts(name, &facts).await.unwrap();
    }

    /// Runs a command; gives its exit code, stdout and stderr.
    async fn run(&self, line: &str) -> (u8, String, String) {
        let server = format!(
            "strata --server https://localhost:{} --credentials {{}}/admin",
            self.port
        );
        let exit = self.world.exit(&line.replacen("strata", &server, 1)).await;
        (exit, self.world.stdout.take(), self.world.stderr.take())
    }

    async fn ok(&self, line: &str) -> String {
        let (exit, out, err) = self.run(line).await;
        assert_eq!(exit, 0, "{line}: {err}");
        out
    }
}

#[tokio::test]
async fn projects_and_workloads_live_and_go() {
    let server = Served::start().await;
    server
        .ok("strata project create shop --cpu 8 --memory 16GB --instances 2")
        .await;
    server
        .ok("strata project create shop --cpu 8 --memory 16GB --instances 2")
        .await;
    assert_eq!(server.run("strata project create shop --cpu 9").await.0, 6);
    server
        .ok("strata project update shop --cpu none --instances 1")
        .await;
    let shown = server.ok("strata project show shop -o json").await;
    assert!(
        !shown.contains("\"cpu\": 8000") && shown.contains("\"instances\": 1"),
        "{shown}"
    );
    server
        .ok("strata workload create web --image nginx:1.27 --project shop --label a=b -p 8080:80")
        .await;
    server
        .ok("strata workload update shop/web --image nginx:1.28 --label a- --label c=d")
        .await;
    let shown = server
        .ok("strata workload show web --project shop -o json")
        .await;
    assert!(
        shown.contains("nginx:1.28") && shown.contains("\"c\": \"d\""),
        "{shown}"
    );
    assert!(!shown.contains("\"a\""), "{shown}");
    let made = server
        .ok("strata workload run shop/web --detach -o name")
        .await;
    assert!(made.starts_with("instance/"), "{made}");
    let (exit, _, err) = server.run("strata workload run shop/web --detach").await;
    assert_eq!(exit, 6, "the quota: {err}");
    assert_eq!(
        server.run("strata workload delete shop/web --yes").await.0,
        6
    );
    assert_eq!(server.run("strata project delete shop --yes").await.0, 6);
    server
        .ok("strata workload delete shop/web --cascade --yes")
        .await;
    server.ok("strata project delete shop --yes").await;
    assert_eq!(server.run("strata project show shop").await.0, 6);
    let events = server.ok("strata events --kind workload -o json").await;
    assert!(events.contains("\"name\":\"web\""), "{events}");
}

#[tokio::test]
async fn a_node_is_drained_and_opened_when_that_is_called_off() {
    let server = Served::start().await;
    server.node("n1").await;
    let (exit, out, err) = server.run("strata node drain n1").await;
    assert_eq!((exit, out.as_str()), (0, ""), "{err}");
    assert!(err.contains("drained n1\n"), "{err}");
    let listed = server.ok("strata node list").await;
    assert!(listed.contains("draining"), "{listed}");
    server.ok("strata node undrain n1").await;
    // It has an instance that nobody takes away: this one has no end.
    let made = "strata instance create web --image nginx --detach";
    server.ok(made).await;
    let on_it = async || strata_testkit::holds(server.core.instances_on("n1") == 1);
    strata_testkit::wait_for("it is placed", strata_testkit::TEST_TIMEOUT, on_it).await;
    let id = server.ok("strata node drain n1 --detach").await;
    let id = id.trim();
    let shown = server
        .ok(&format!("strata operation show {id} -o json"))
        .await;
    assert!(shown.contains("\"node/n1\""), "{shown}");
    server
        .ok(&format!("strata operation cancel {id} --yes"))
        .await;
    let (exit, _, err) = server.run(&format!("strata operation wait {id}")).await;
    assert_eq!(exit, 7, "{err}");
    assert!(err.contains("node-drain of node/n1 failed"), "{err}");
    let log = server.ok(&format!("strata operation log {id}")).await;
    assert!(log.contains("close"), "{log}");
    let failed = server
        .ok("strata operation list --state failed -o name")
        .await;
    assert_eq!(failed, format!("operation/{id}\n"));
    let done = "strata operation list --state completed -o name";
    let done = server.ok(done).await;
    let done = done.trim().strip_prefix("operation/").unwrap();
    let (exit, _, err) = server.run(&format!("strata operation cancel {done}")).await;
    assert_eq!(exit, 6, "it has ended: {err}");
    assert_eq!(server.run("strata operation show x").await.0, 6);
    server.node("n2").await;
    let (exit, _, err) = server.run("strata node remove n2 --yes").await;
    assert_eq!((exit, err.contains("removed n2\n")), (0, true), "{err}");
    assert_eq!(server.run("strata node show n2").await.0, 6);
}

#[tokio::test]
async fn an_instance_that_finds_no_node_fails_and_is_explained() {
    let server = Served::start().await;
    let (exit, _, err) = server.run("strata instance create web --image nginx").await;
    assert_eq!(exit, 7, "{err}");
    assert!(err.contains("hint: `strata instance explain web`"), "{err}");
    let (exit, _, err) = server.run("strata instance explain web").await;
    assert_eq!((exit, err.contains("no node fits")), (0, true), "{err}");
    let listed = server.ok("strata instance list").await;
    assert!(listed.contains("web   failed"), "{listed}");
    server.ok("strata instance stop web").await;
    server
        .ok("strata instance update web --memory 128MB -e A=1 --detach")
        .await;
    let shown = server.ok("strata instance show web").await;
    assert!(
        shown.contains("memory 128MB") && shown.contains("A=1"),
        "{shown}"
    );
    server.ok("strata instance delete web").await;
    assert_eq!(server.run("strata instance show web").await.0, 6);
    assert!(server.ok("strata node list").await.is_empty());
    assert_eq!(server.run("strata instance logs web").await.0, 6);
}

#[tokio::test]
async fn applied_manifest_is_unchanged_the_next_time() {
    let server = Served::start().await;
    let file = "\
kind: instance
name: web
project: shop
spec:
  uri: nginx:1.27
  ports: ['8080:80']
  environment: [A=1]
  resources: {cpu: 500, memory: 256}
  health: {http: 80/up}
  security: {readOnlyRoot: true}
  placement: {constraints: [zone=eu], spread: [{over: zone}]}
  labels: {app: shop}
  stopGraceSeconds: 5
---
kind: workload
name: api
project: shop
spec: {uri: 'x:1', command: [/bin/x], arguments: [y]}
---
kind: project
name: shop
spec: {quota: {cpu: 4000}}
";
    let path = server.world.path("shop.yaml");
    std::fs::write(&path, file).unwrap();
    let apply = "strata apply -f {}/shop.yaml";
    insta::assert_snapshot!(server.ok(apply).await, @r#"
    project/shop created
    workload/shop/api created
    instance/shop/web created
    "#);
    insta::assert_snapshot!(server.ok(apply).await, @r#"
    project/shop unchanged
    workload/shop/api unchanged
    instance/shop/web unchanged
    "#);
    let other = file
        .replace("nginx:1.27", "nginx:1.28")
        .replace("  stopGraceSeconds: 5\n", "")
        .replace("  security: {readOnlyRoot: true}\n", "")
        .replace("{quota: {cpu: 4000}}", "{quota: {memory: 900}}");
    std::fs::write(&path, other).unwrap();
    insta::assert_snapshot!(server.ok(apply).await, @r#"
    project/shop changed
      quota.cpu: - 4000
      quota.memory: + 900
    workload/shop/api unchanged
    instance/shop/web changed
      security.readOnlyRoot: - true
      stopGraceSeconds: - 5
      uri: "nginx:1.27" -> "nginx:1.28"
    "#);
    insta::assert_snapshot!(server.ok(apply).await, @r#"
    project/shop unchanged
    workload/shop/api unchanged
    instance/shop/web unchanged
    "#);
}
