//! The audit log says what each decision was about: the object and its
//! project, by every API, also where the request names neither by its path, and
//! with nothing else of what was sent.

use std::fs;

use strata_testkit::cluster::Cluster;
use strata_testkit::serde_json::{self, Value, json};

use super::STRATA;
use super::project_world::{Caller, project};

const SECRET: &str = "canary-91c2e4";

/// The lines of a daemon's log, and their text.
fn lines(directory: &std::path::Path) -> (Vec<Value>, String) {
    let files = fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let text: String = files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (lines.collect(), text)
}

#[track_caller]
fn has(lines: &[Value], call: &str, outcome: &str, object: &str, project: Option<&str>) {
    let is_it = |line: &&Value| {
        line["call"] == call
            && line["outcome"] == outcome
            && line["object"] == object
            && line["project"].as_str() == project
    };
    let of_call = |line: &&Value| line["call"] == call;
    let near: Vec<_> = lines.iter().filter(of_call).collect();
    let found = lines.iter().any(|line| is_it(&line));
    assert!(found, "no {outcome} {call} of {object} in {near:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_decision_names_its_object_and_project() {
    let cluster = Cluster::start(STRATA, 1).await;
    for name in ["shop", "rival"] {
        project(&cluster, json!({ "name": name })).await;
    }
    let shop = Caller::new(&cluster, "operator", &["shop"]).await;
    let rival = Caller::new(&cluster, "operator", &["rival"]).await;
    let viewer = Caller::new(&cluster, "viewer", &["shop"]).await;
    let instance = json!({
        "id": "id-web", "name": "web", "project": "shop", "uri": "127.0.0.1:1/x:v1",
        "status": "STOPPED", "environment": [format!("PASSWORD={SECRET}")],
    });
    let secret = json!({ "value": SECRET, "project": "shop", "name": "db" });
    for (caller, method, path, body, status) in [
        (&shop, "PUT", "/instance", instance.clone(), 201),
        (&rival, "PUT", "/instance", instance, 403),
        (&shop, "PUT", "/secret", secret, 201),
        (
            &shop,
            "PATCH",
            "/secret/shop%2Fdb",
            json!({ "value": SECRET }),
            200,
        ),
        // By an id, which says nothing of a project.
        (
            &shop,
            "PATCH",
            "/instance/id-web",
            json!({ "labels": { "a": "b" } }),
            200,
        ),
        // Of another project: it is not there, and the log knows better.
        (&rival, "GET", "/instance/id-web", Value::Null, 404),
        (&rival, "DELETE", "/instance/id-web", Value::Null, 404),
        (
            &rival,
            "PATCH",
            "/instance/id-web",
            json!({ "labels": { "a": "b" } }),
            404,
        ),
        (&rival, "GET", "/secret/shop%2Fdb", Value::Null, 404),
        (&rival, "GET", "/instance/id-none", Value::Null, 404),
        (&viewer, "DELETE", "/instance/id-web", Value::Null, 403),
        (&shop, "DELETE", "/instance/id-web", Value::Null, 202),
    ] {
        let answer = caller.call(method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    let made = [
        "token", "create", "--name", "tina", "--role", "viewer", "-o", "json",
    ];
    let made = cluster.cli().run(made).await.json();
    let id = made["id"].as_str().unwrap().to_owned();
    let revoke = ["token", "revoke", "--yes", &id];
    cluster.cli().run(revoke).await.ok();
    let seed = cluster.create(cluster.instance("seed")).await;
    seed.unwrap();
    let node = &cluster.nodes[0];
    node.node().await.allocate("mine").await.unwrap();
    let started = node.node().await.start("mine", "main", "true").await;
    started.unwrap();

    let (server, text) = lines(&cluster.server.data_dir().join("audit"));
    let (allowed, denied) = ("allowed", "denied");
    let in_shop = Some("shop");
    has(&server, "PUT /instance", allowed, "instance/web", in_shop);
    has(&server, "PUT /instance", denied, "instance/web", in_shop);
    has(&server, "PUT /secret", allowed, "secret/db", in_shop);
    has(
        &server,
        "PATCH /secret/shop%2Fdb",
        allowed,
        "secret/shop/db",
        in_shop,
    );
    let by_id = "instance/id-web";
    has(&server, "PATCH /instance/id-web", allowed, by_id, in_shop);
    has(&server, "DELETE /instance/id-web", denied, by_id, in_shop);
    has(&server, "DELETE /instance/id-web", allowed, by_id, in_shop);
    for call in ["GET", "DELETE", "PATCH"] {
        let call = format!("{call} /instance/id-web");
        let is_it = |line: &&Value| {
            line["call"] == *call && line["outcome"] == denied && line["principal"] == "operator"
        };
        let line = server.iter().find(is_it);
        let line = line.unwrap_or_else(|| panic!("{call} by a rival is no refusal: {text}"));
        assert_eq!(line["projects"], json!(["rival"]), "{line}");
        assert_eq!(line["project"], "shop", "{line}");
        assert_eq!(line["object"], by_id, "{line}");
    }
    let secret = "GET /secret/shop%2Fdb";
    has(&server, secret, denied, "secret/shop/db", in_shop);
    let of_none = |line: &Value| line["object"] == "instance/id-none";
    assert!(
        !server.iter().any(of_none),
        "what is not there is of no one"
    );
    has(&server, "PUT /project", allowed, "project/shop", in_shop);
    let call = "/strata.v1.Identity/CreateToken";
    has(&server, call, allowed, "token/tina", None);
    let call = "/strata.v1.Identity/RevokeToken";
    has(&server, call, allowed, &format!("token/{id}"), None);
    let call = "/scheduler.InstanceService/Create";
    has(&server, call, allowed, "instance/id-seed", Some("default"));
    assert!(!text.contains(SECRET), "the log has a value that was sent");

    let (on_node, _) = lines(&node.daemon.data_dir().join("audit"));
    has(
        &on_node,
        "/runtime.CellService/Allocate",
        allowed,
        "cell/mine",
        None,
    );
    has(
        &on_node,
        "/runtime.CellService/Start",
        allowed,
        "cell/mine/main",
        None,
    );

    // And is found by it.
    let listed = [
        "audit",
        "list",
        "--project",
        "shop",
        "--object",
        "instance",
        "-o",
        "json",
    ];
    let listed = cluster.cli().run(listed).await.json();
    let listed = listed.as_array().unwrap();
    assert!(listed.len() >= 5, "{listed:#?}");
    assert!(
        listed.iter().all(|line| line["project"] == "shop"),
        "{listed:#?}"
    );
    let read = cluster.rest().get("/audit?object=token&project=shop").await;
    assert_eq!(read, json!([]));
    let read = cluster
        .rest()
        .get(&format!("/audit?object=token/{id}"))
        .await;
    assert_eq!(read.as_array().unwrap().len(), 1, "{read:#}");
    cluster
        .server
        .cli_with_endpoints()
        .run(["audit", "verify"])
        .await
        .ok();
}

/// Whoever is over its budget pushes nothing out of the log.
#[tokio::test(flavor = "multi_thread")]
async fn requests_over_budget_write_no_lines() {
    let config = "[limits]\nrequests_per_second = 1\nrequest_burst = 10\n";
    let cluster = Cluster::build(STRATA).nodes(1).server_config(config);
    let cluster = cluster.start().await;
    project(&cluster, json!({ "name": "shop" })).await;
    let shop = Caller::new(&cluster, "operator", &["shop"]).await;
    let mut passed = 0;
    for n in 0..100 {
        let body = json!({ "name": format!("w{n}"), "project": "shop", "uri": "x" });
        let answer = shop.call("PUT", "/workload", body).await;
        assert!([201, 429].contains(&answer.status), "{answer:?}");
        passed += usize::from(answer.status == 201);
    }
    assert!((1..100).contains(&passed), "{passed} passed");
    let (lines, _) = lines(&cluster.server.data_dir().join("audit"));
    let written = lines.iter().filter(|line| line["call"] == "PUT /workload");
    assert_eq!(written.count(), passed);
}
