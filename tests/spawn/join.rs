//! A machine that joins a server, as a machine elsewhere does: with a token,
//! which is nowhere to be read afterwards.

use strata_testkit::machines::{HostDaemon, machine};
use strata_testkit::v1::MachineSpec;
use strata_testkit::{Code, NamespaceProxy};

use crate::spawn::STRATA;

const CONFIG: &str = "hosts = ['10.42.7.1']\n[network]\nsubnet = '10.42.7.0/24'\n";

async fn join_token(outside: &HostDaemon, name: &str) -> String {
    let words = ["token", "create", "--name", name, "--join", "-q"];
    let made = outside.daemon.cli_with_endpoints().run(words).await.ok();
    made.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_joins_a_server() {
    let outside = HostDaemon::start_with(STRATA, CONFIG).await;
    let node = outside.node().await;
    // The first one brings the bridge, to whose address the server is led.
    node.spawn(machine("first")).await.unwrap();
    let server = outside.daemon.endpoints().server.unwrap();
    let server = server.strip_prefix("https://").unwrap().parse().unwrap();
    let near = "10.42.7.1:7700".parse().unwrap();
    let _way = NamespaceProxy::within(&outside.network, near, server).await;

    let token = join_token(&outside, "joins").await;
    let joining = MachineSpec {
        server: "https://10.42.7.1:7700".into(),
        join_token: token.clone(),
        ..machine("joins")
    };
    let made = node.spawn(joining).await.unwrap();
    assert_eq!(made.spec.as_ref().unwrap().join_token, "");
    let command = std::fs::read(format!("/proc/{}/cmdline", made.process_id)).unwrap();
    assert!(!String::from_utf8_lossy(&command).contains(&token));
    assert!(!outside.daemon.log().contains(&token));
    // The server's CA is the daemon's own, so its credentials serve here too.
    let inside = outside.reach(made).await;
    inside.node.allocate("a").await.unwrap();
    assert!(inside.disk().join("strata/identity").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_fails_says_why_and_leaves_nothing() {
    let outside = HostDaemon::start_with(STRATA, CONFIG).await;
    let node = outside.node().await;
    let lost = MachineSpec {
        // Nobody listens there.
        server: "https://10.42.7.1:7700".into(),
        join_token: join_token(&outside, "lost").await,
        ..machine("lost")
    };
    let error = node.spawn(lost).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert!(error.message().contains("10.42.7.1:7700"), "{error}");
    assert!(node.machines().await.unwrap().is_empty());
}
