//! Callers without a proof, or with a wrong one.

use strata_testkit::{Daemon, Https};

use crate::access::{STRATA, certificate, token};

fn https(daemon: &Daemon, url: &str) -> Https {
    Https::new(url, &daemon.data_dir().join("client/ca.crt"), None)
}

#[tokio::test(flavor = "multi_thread")]
async fn node_port_rejects_unauthenticated_clients() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let port = daemon.endpoints().node.unwrap();
    let client = https(&daemon, &port);
    assert_eq!(client.get("/healthz", &[]).unwrap().status, 200);
    let grpc = ("content-type", "application/grpc");
    // A token is no certificate.
    let bearer = format!("Bearer {}", token(&daemon, "admin").await);
    let bearer = ("authorization", bearer.as_str());
    for headers in [vec![], vec![bearer]] {
        for path in ["/version", "/metrics"] {
            let answer = client.get(path, &headers).unwrap();
            assert_eq!(answer.status, 401, "{path}: {answer:?}");
        }
        let headers: Vec<_> = headers.into_iter().chain([grpc]).collect();
        let path = "/runtime.CellService/Allocate";
        let answer = client.send("POST", path, &headers).unwrap();
        assert_eq!(answer.header("grpc-status"), Some("16"), "{answer:?}");
    }
    assert!(node.names().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_ca_is_none() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let (other, _) = Daemon::up(STRATA).await;
    let theirs = other.data_dir().join("client");
    let ours = daemon.data_dir().join("client/ca.crt");
    for port in [daemon.endpoints().node, daemon.endpoints().server] {
        let client = Https::new(&port.unwrap(), &ours, Some(&theirs));
        client.get("/version", &[]).unwrap_err();
    }
    // And a client does not speak to a server of another CA.
    let port = daemon.endpoints().server.unwrap();
    let client = Https::new(&port, &theirs.join("ca.crt"), None);
    client.get("/healthz", &[]).unwrap_err();
    assert!(daemon.node_with(&theirs).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn unauthenticated_clients_see_only_the_health_endpoint() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let client = https(&daemon, &daemon.endpoints().server.unwrap());
    assert_eq!(client.get("/healthz", &[]).unwrap().status, 200);
    for path in [
        "/version",
        "/metrics",
        "/instance",
        "/nowhere",
        "/",
        "/../etc/passwd",
    ] {
        let answer = client.get(path, &[]).unwrap();
        assert!([401, 403].contains(&answer.status), "{path}: {answer:?}");
        let kind = answer.header("content-type");
        assert_eq!(kind, Some("application/problem+json"), "{path}");
        assert!(answer.body.contains("\"code\""), "{path}: {}", answer.body);
    }
    for method in ["PUT", "DELETE", "POST", "PATCH", "OPTIONS"] {
        let answer = client.send(method, "/version", &[]).unwrap();
        assert!([401, 403].contains(&answer.status), "{method}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_token_is_unauthenticated() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let client = https(&daemon, &daemon.endpoints().server.unwrap());
    let grpc = ("content-type", "application/grpc");
    let mut wrong = token(&daemon, "admin").await;
    wrong.pop();
    let wrong = format!("Bearer {wrong}x");
    for path in [
        "/strata.v1.Identity/WhoAmI",
        "/strata.v1.Identity/CreateToken",
        "/runtime.CellService/Allocate",
        "/no.such.Service/Call",
    ] {
        for headers in [
            vec![grpc],
            vec![grpc, ("authorization", "Bearer nonsense")],
            vec![grpc, ("authorization", &wrong)],
            vec![grpc, ("authorization", "Basic YTpi")],
        ] {
            let answer = client.send("POST", path, &headers).unwrap();
            let code = answer.header("grpc-status");
            assert!(
                [Some("16"), Some("7")].contains(&code),
                "{path}: {answer:?}"
            );
            if !path.contains("no.such") {
                assert_eq!(code, Some("16"), "{path}: {answer:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_open_the_routes_of_their_role() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let client = https(&daemon, &daemon.endpoints().server.unwrap());
    for role in ["admin", "operator", "viewer"] {
        let bearer = format!("Bearer {}", token(&daemon, role).await);
        let headers = [("authorization", bearer.as_str())];
        for path in ["/version", "/metrics", "/healthz"] {
            let answer = client.get(path, &headers).unwrap();
            assert_eq!(answer.status, 200, "{role} {path}: {answer:?}");
        }
    }
    let version = https(&daemon, &daemon.endpoints().server.unwrap());
    let local = std::fs::read_to_string(daemon.data_dir().join("client/token")).unwrap();
    let bearer = format!("Bearer {}", local.trim());
    let answer = version
        .get("/version", &[("authorization", &bearer)])
        .unwrap();
    assert!(
        answer.body.contains(env!("CARGO_PKG_VERSION")),
        "{}",
        answer.body
    );
    let revoked = token(&daemon, "viewer").await;
    let list = daemon
        .cli_with_endpoints()
        .run(["token", "list", "-o", "json"])
        .await;
    for entry in list.json().as_array().unwrap() {
        if entry["role"] == "viewer" {
            let id = entry["id"].as_str().unwrap();
            daemon
                .cli_with_endpoints()
                .run(["token", "revoke", id])
                .await
                .ok();
        }
    }
    let bearer = format!("Bearer {revoked}");
    let answer = client
        .get("/version", &[("authorization", &bearer)])
        .unwrap();
    assert_eq!(answer.status, 401, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_a_proof_on_the_server_too() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let dir = certificate(&daemon, "viewer").await;
    let port = daemon.endpoints().server.unwrap();
    let client = Https::new(&port, &dir.join("ca.crt"), Some(&dir));
    assert_eq!(client.get("/version", &[]).unwrap().status, 200);
    // A wrong token beside it does not fall back to the certificate.
    let answer = client.get("/version", &[("authorization", "Bearer x")]);
    assert_eq!(answer.unwrap().status, 401);
}
