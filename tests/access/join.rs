//! Nodes that join with a token.

use strata_testkit::{Daemon, NodeClient, Target};

use crate::access::STRATA;

async fn join_token(server: &Daemon, name: &str) -> String {
    let words = ["token", "create", "--name", name, "--join", "-q"];
    let token = server.cli_with_endpoints().run(words).await.ok();
    token.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_joins_once_with_a_token_and_no_second_one_does() {
    let server = Daemon::build(STRATA).role("server").start().await;
    let url = server.endpoints().server.unwrap();
    let token = join_token(&server, "n").await;
    let mut node = Daemon::build(STRATA)
        .role("node")
        .arg("--server")
        .arg(&url)
        .arg("--join-token")
        .arg(&token)
        .start()
        .await;
    assert!(node.ready().starts_with("ready unix:"), "{}", node.ready());
    // The server's people are the node's people.
    let admin = server.data_dir().join("client");
    let target = Target::Tls {
        address: node.endpoints().node.unwrap().parse().unwrap(),
        credentials: strata_testkit::Credentials::read(&admin).unwrap(),
    };
    let client = NodeClient::connect(&target).await.unwrap();
    let request = strata_testkit::v1::ListCellsRequest::default();
    client.cells().list(request).await.unwrap();

    let other = server.scratch().join("other").display().to_string();
    let again = [
        "node",
        "--data-dir",
        &other,
        "--node-listen",
        "127.0.0.1:0",
        "--server",
        &url,
        "--join-token",
        &token,
    ];
    let ran = server.cli().run(again).await;
    assert!([5, 6].contains(&ran.code.unwrap()), "{ran:?}");
    assert!(!ran.stdout.contains("ready"), "{ran:?}");
    assert!(!ran.stderr.contains(&token), "{ran:?}");

    // It needs no token to come back, and stays the same node.
    let before = std::fs::read(node.data_dir().join("node/id")).unwrap();
    node.kill();
    node.restart().await;
    let after = std::fs::read(node.data_dir().join("node/id")).unwrap();
    assert_eq!(after, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_and_wrong_servers_are_refused() {
    let server = Daemon::build(STRATA).role("server").start().await;
    let other = Daemon::build(STRATA).role("server").start().await;
    let url = server.endpoints().server.unwrap();
    let of_other = join_token(&other, "n").await;
    let mut torn = join_token(&server, "n").await;
    torn.truncate(torn.len() - 3);
    let api = ["token", "create", "--name", "x", "--role", "admin", "-q"];
    let api = server
        .cli_with_endpoints()
        .run(api)
        .await
        .ok()
        .trim()
        .to_owned();
    for token in [of_other, torn, api, "nonsense".to_owned(), String::new()] {
        let dir = server.scratch().join("joining").display().to_string();
        let words = [
            "node",
            "--data-dir",
            &dir,
            "--node-listen",
            "127.0.0.1:0",
            "--server",
            &url,
            "--join-token",
            &token,
        ];
        let ran = server.cli().run(words).await;
        assert!([2, 3, 5, 6].contains(&ran.code.unwrap()), "{ran:?}");
        assert!(!ran.stdout.contains("ready"), "{ran:?}");
    }
}
