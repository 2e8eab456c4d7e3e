//! What each role may do on a node and on the server.

use strata_testkit::observe::LogChannelType::ChannelStdout;
use strata_testkit::v1::{CellNetwork, ReadLogsRequest, RootMode};
use strata_testkit::{Code, Daemon, Node, cell_with, executable_with, refused};

use crate::access::{STRATA, certificate};

async fn world() -> (Daemon, i64) {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.expect("a cell can be made");
    let pid = node.start("web", "main", "sh -c 'echo hello; sleep 1000'");
    let pid = pid.await.expect("it can be started");
    (daemon, pid)
}

/// Asserts that every call that changes something is denied.
async fn may_change_nothing(node: &Node) {
    let denied = Code::PermissionDenied;
    let words = refused(node.allocate("new").await, denied);
    assert!(words.contains("Allocate"), "{words}");
    refused(node.start("web", "new", "true").await, denied);
    refused(node.stop("web", "main").await, denied);
    refused(node.free("web").await, denied);
    // Nor do they learn what is there by how they are refused.
    refused(node.free("none").await, denied);
    refused(node.allocate("..").await, denied);
    let request = strata_testkit::v1::PowerOffRequest {};
    refused(node.client().node().power_off(request).await, denied);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_looks_and_touches_nothing() {
    let (daemon, pid) = world().await;
    let dir = certificate(&daemon, "viewer").await;
    let viewer = daemon.node_with(&dir).await.unwrap();
    assert_eq!(viewer.names().await, ["web"]);
    assert!(viewer.is_running("web", "main").await);
    let mut lines = viewer.stream(ChannelStdout, pid).await.unwrap();
    assert_eq!(&*lines.message().await.unwrap().unwrap().line, "hello");
    let request = ReadLogsRequest {
        cell_name: "web".into(),
        executable_name: "main".into(),
        ..Default::default()
    };
    viewer.read(request).await.unwrap();
    may_change_nothing(&viewer).await;
    let node = daemon.node().await;
    assert_eq!(node.names().await, ["web"]);
    assert!(node.is_running("web", "main").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_runs_things_and_makes_no_identities() {
    let (daemon, _) = world().await;
    let dir = certificate(&daemon, "operator").await;
    let operator = daemon.node_with(&dir).await.unwrap();
    let mine = cell_with("mine", |options| {
        options.set_root(RootMode::Private);
        options.set_network(CellNetwork::Isolated);
    });
    operator.allocate_as(mine).await.unwrap();
    let main = executable_with("mine", "main", "echo yes", |options| {
        options.uid = Some(12_345);
    });
    let pid = operator.start_as(main).await.unwrap();
    assert_eq!(operator.stdout(pid).await.unwrap(), ["yes"]);
    // Those of an admin are not an operator's to end.
    refused(operator.stop("web", "main").await, Code::PermissionDenied);
    refused(operator.free("web").await, Code::PermissionDenied);
    let more = executable_with("mine", "more", "sleep 1000", |options| {
        options.uid = Some(12_345);
    });
    operator.start_as(more).await.unwrap();
    operator.stop("mine", "more").await.unwrap();
    operator.free("mine").await.unwrap();
    let request = strata_testkit::v1::PowerOffRequest {};
    let answer = operator.client().node().power_off(request).await;
    refused(answer, Code::PermissionDenied);
    may_make_no_identities(&daemon, "operator").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_no_admin() {
    let (daemon, pid) = world().await;
    let dir = certificate(&daemon, "node").await;
    let node = daemon.node_with(&dir).await.unwrap();
    may_change_nothing(&node).await;
    refused(node.list().await, Code::PermissionDenied);
    refused(node.get("web").await, Code::PermissionDenied);
    refused(
        node.stream(ChannelStdout, pid).await,
        Code::PermissionDenied,
    );
    may_make_no_identities(&daemon, "node").await;
    // The daemon's own node certificate is of the same kind.
    let who = cli(&daemon, "node").run(["whoami", "-o", "json"]).await;
    assert_eq!(who.json()["role"], "node");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_by_certificate_may_do_everything_but_switch_off_a_foreign_machine() {
    let (daemon, _) = world().await;
    let admin = daemon.node_with(&daemon.data_dir().join("client")).await;
    let admin = admin.unwrap();
    admin.allocate("mine").await.unwrap();
    admin.free("mine").await.unwrap();
    let request = strata_testkit::v1::PowerOffRequest {};
    let answer = admin.client().node().power_off(request).await;
    refused(answer, Code::FailedPrecondition);
}

/// The command line with the certificate of a role and nothing else.
fn cli(daemon: &Daemon, role: &str) -> strata_testkit::Cli {
    let server = daemon.endpoints().server.expect("there is a server");
    let dir = daemon.scratch().join(format!("as-{role}"));
    daemon
        .cli()
        .env("STRATA_SERVER", server)
        .env("STRATA_CREDENTIALS", dir)
}

async fn may_make_no_identities(daemon: &Daemon, role: &str) {
    let cli = cli(daemon, role);
    let out = daemon.scratch().join("stolen").display().to_string();
    let issue = [
        "certificate",
        "issue",
        "--role",
        "admin",
        "--name",
        "me",
        "--out",
        &out,
    ];
    cli.run(issue).await.exits(5);
    for words in [
        vec!["token", "create", "--name", "me", "--role", "admin"],
        vec!["token", "create", "--name", "me", "--join"],
        vec!["token", "list"],
        vec!["token", "revoke", "00000000"],
    ] {
        cli.run(words).await.exits(5);
    }
    assert!(!daemon.scratch().join("stolen/client.crt").exists());
}
