//! Every route and every call of the server, tried with the token of another
//! project and with that of a viewer of the same one: nothing of the victim is
//! read or changed, whatever the object that is named.

use std::time::Duration;

use http::Method;
use strata_testkit::serde_json::{self, Value, json};
use strata_testkit::{Daemon, TEST_TIMEOUT, wait_for};

use super::STRATA;
use super::http2_client::{Caller, Connection};

/// In everything of the victim that an untrusted party could be shown.
const CANARY: &str = "canary7f3a";
/// Watches are not waited for.
const OPEN: Duration = Duration::from_millis(700);

async fn run(daemon: &Daemon, words: &[&str]) -> String {
    let ran = daemon.cli_with_endpoints().run(words.iter().copied()).await;
    ran.ok().trim().to_owned()
}

async fn token(daemon: &Daemon, name: &str, role: &str, project: &str) -> String {
    let words = [
        "token",
        "create",
        "-q",
        "--name",
        name,
        "--role",
        role,
        "--project",
        project,
    ];
    run(daemon, &words).await
}

struct World {
    daemon: Daemon,
    admin: Caller,
    /// What the victim's objects are found by.
    ids: Vec<String>,
}

impl World {
    async fn new() -> Self {
        let (daemon, _node) = Daemon::up(STRATA).await;
        run(&daemon, &["project", "create", "shop"]).await;
        run(&daemon, &["project", "create", "rival"]).await;
        let admin = std::fs::read_to_string(daemon.data_dir().join("client/token")).unwrap();
        let admin = Caller::of(&daemon, Some(admin.trim()));
        let mut connection = admin.connect(1 << 20).await.unwrap();
        let mut ids = vec!["shop".to_owned()];
        let named = format!("{CANARY}-instance");
        for (path, body) in [
            (
                "/instance",
                json!({ "id": "id-victim", "name": named, "project": "shop", "uri": "x",
                        "environment": [format!("A={CANARY}")],
                        "placement": { "constraints": ["node=nowhere"] } }),
            ),
            (
                "/workload",
                json!({ "name": format!("{CANARY}-workload"), "project": "shop", "uri": "x",
                        "labels": { "a": CANARY } }),
            ),
            (
                "/secret",
                json!({ "name": format!("{CANARY}-secret"), "project": "shop",
                        "value": CANARY }),
            ),
        ] {
            let (status, text) = connection
                .call(Method::PUT, path, &body.to_string())
                .await
                .unwrap();
            assert!((200..300).contains(&status), "{path}: {status} {text}");
            let made: Value = serde_json::from_str(&text).unwrap();
            for field in ["id", "name"] {
                ids.extend(made[field].as_str().map(str::to_owned));
            }
        }
        ids.sort();
        ids.dedup();
        // From here on nothing of it changes by itself.
        wait_for("the instance to fit nowhere", TEST_TIMEOUT, async || {
            let path = "/instance/id-victim";
            let (_, text) = connection.call(Method::GET, path, "").await.unwrap();
            match text.contains("FAILED") {
                true => Ok(()),
                false => Err(text),
            }
        })
        .await;
        Self { daemon, admin, ids }
    }

    /// All that there is of the victim, without what changes by itself.
    async fn victims(&self) -> Value {
        let mut connection = self.admin.connect(1 << 20).await.unwrap();
        let mut all = Vec::new();
        for path in [
            "/instance?project=shop",
            "/workload?project=shop",
            "/secret?project=shop",
            "/project/shop",
        ] {
            let (status, text) = connection.call(Method::GET, path, "").await.unwrap();
            assert_eq!(status, 200, "{path}: {text}");
            all.push(serde_json::from_str::<Value>(&text).unwrap());
        }
        Value::Array(all)
    }
}

/// Every route of the document, with every object of the victim in its place.
fn requests(ids: &[String]) -> Vec<(Method, String, String)> {
    let text = include_str!("../../docs/openapi.json");
    let document: Value = serde_json::from_str(text).unwrap();
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let Ok(method) = method.to_uppercase().parse::<Method>() else {
                continue;
            };
            if !["GET", "PUT", "POST", "PATCH", "DELETE"].contains(&method.as_str()) {
                continue;
            }
            let objects: &[String] = match path.contains('{') {
                true => ids,
                false => &ids[..1],
            };
            for id in objects {
                let mut path = path.clone();
                for name in ["{id}", "{pool}", "{snapshot}"] {
                    path = path.replace(name, id);
                }
                let bodies = match method.as_str() {
                    "GET" | "DELETE" => vec![String::new()],
                    _ => vec![
                        "{}".to_owned(),
                        json!({ "name": format!("{id}-new"), "project": "shop", "uri": "x" })
                            .to_string(),
                        json!({ "project": "shop", "labels": { "a": "taken" } }).to_string(),
                        json!({ "command": ["cat", "/etc/passwd"] }).to_string(),
                    ],
                };
                for body in bodies {
                    all.push((method.clone(), path.clone(), body));
                }
                if method == Method::GET {
                    for query in ["?project=shop", "?watch=true&project=shop"] {
                        all.push((method.clone(), format!("{path}{query}"), String::new()));
                    }
                }
            }
        }
    }
    all
}

/// What a message of any type is read as: its first field, a text.
fn first_field(text: &str) -> Vec<u8> {
    let mut message = vec![0x0a, u8::try_from(text.len()).unwrap()];
    message.extend(text.as_bytes());
    message
}

/// One request within the budget of its caller; none where it stays open.
async fn ask(
    connection: &mut Connection,
    method: &Method,
    path: &str,
    body: &str,
) -> Option<(u16, String)> {
    wait_for("an answer within the budget", TEST_TIMEOUT, async || {
        let asked = connection.call(method.clone(), path, body);
        let max_wait = if path.contains("watch=") {
            OPEN
        } else {
            TEST_TIMEOUT
        };
        match tokio::time::timeout(max_wait, asked).await {
            Ok(Ok((429, _))) => Err("over budget".to_owned()),
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Ok(None),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_route_shows_or_changes_what_is_of_another_project() {
    let world = World::new().await;
    let before = world.victims().await;
    assert!(before.to_string().contains(CANARY));
    let rival = token(&world.daemon, "rival", "operator", "rival").await;
    let rival = Caller::of(&world.daemon, Some(&rival));
    let mut connection = rival.connect(1 << 20).await.unwrap();
    let all = requests(&world.ids);
    assert!(all.len() > 300, "{}", all.len());
    for (method, path, body) in &all {
        let Some((status, text)) = ask(&mut connection, method, path, body).await else {
            // A watch that is let in tells of its own projects alone.
            assert!(path.contains("watch=true"), "{method} {path} stays open");
            connection = rival.connect(1 << 20).await.unwrap();
            continue;
        };
        // What it named itself may be in what it is told.
        let asked = format!("{path} {body}");
        let shown = text.replace(&asked, "");
        let named = world.ids.iter().any(|id| asked.contains(id.as_str()));
        let leaks = shown.contains(CANARY) && (status < 300 || !named);
        assert!(!leaks, "{method} {path} {body}: {status} {text}");
        let is_change = *method != Method::GET;
        assert!(
            !(is_change && (200..300).contains(&status)),
            "{method} {path} {body}: {status} {text}"
        );
    }
    assert_eq!(world.victims().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_of_the_project_changes_nothing_by_any_route() {
    let world = World::new().await;
    let before = world.victims().await;
    let viewer = token(&world.daemon, "viewer", "viewer", "shop").await;
    let viewer = Caller::of(&world.daemon, Some(&viewer));
    let mut connection = viewer.connect(1 << 20).await.unwrap();
    for (method, path, body) in requests(&world.ids) {
        if method == Method::GET {
            continue;
        }
        let answer = ask(&mut connection, &method, &path, &body).await;
        let (status, text) = answer.unwrap_or_else(|| panic!("{method} {path} stays open"));
        assert!(
            (400..500).contains(&status),
            "{method} {path}: {status} {text}"
        );
    }
    // Nor is it shown what is in an environment or a secret.
    for path in ["/instance/id-victim", "/secret?project=shop"] {
        let (status, text) = connection.call(Method::GET, path, "").await.unwrap();
        assert_eq!(status, 200, "{path}");
        let value = format!("A={CANARY}");
        assert!(!text.contains(&value), "{path}: {text}");
        assert!(!text.contains(&format!("\"value\":\"{CANARY}")), "{text}");
    }
    assert_eq!(world.victims().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_shows_or_changes_what_is_of_another_project() {
    let world = World::new().await;
    let before = world.victims().await;
    let rival = token(&world.daemon, "rival", "operator", "rival").await;
    let rival = Caller::of(&world.daemon, Some(&rival));
    let mut connection = rival.connect(1 << 20).await.unwrap();
    let mut calls = 0;
    for path in strata_identity::policy::grpc_methods() {
        // Those that are let in and stay open.
        let streams = ["Watch", "Reflection"].iter().any(|one| path.contains(one));
        let max_wait = if streams { OPEN } else { TEST_TIMEOUT };
        let messages = world.ids.iter().map(|id| first_field(id));
        for message in messages.chain([Vec::new()]) {
            calls += 1;
            let answer = loop {
                let asked = connection.grpc(path, &message);
                match tokio::time::timeout(max_wait, asked).await {
                    Ok(answer) => {
                        let (status, body) = answer.unwrap_or_else(|e| panic!("{path}: {e}"));
                        // RESOURCE_EXHAUSTED: over its budget.
                        if status == Some(8) {
                            tokio::time::sleep(OPEN / 10).await;
                            continue;
                        }
                        break Some((status, body));
                    }
                    Err(_) => break None,
                }
            };
            let Some((status, body)) = answer else {
                connection = rival.connect(1 << 20).await.unwrap();
                assert!(streams, "{path} stays open");
                continue;
            };
            let text = String::from_utf8_lossy(&body);
            assert!(
                status != Some(0) || !text.contains(CANARY),
                "{path}: {status:?} {text}"
            );
            let about_projects = [
                "InstanceService",
                "Instances/",
                "Health",
                "Reflection",
                "WhoAmI",
            ];
            let may =
                about_projects.iter().any(|one| path.contains(one)) && !path.contains("/runtime.");
            let anyone = path.ends_with("Identity/Join");
            assert!(
                may || anyone || status == Some(7),
                "{path}: {status:?} {text}"
            );
        }
    }
    assert!(calls > 400, "{calls}");
    assert_eq!(world.victims().await, before);
}
