//! What tests of projects share: callers with tokens, projects, instances.

use std::path::PathBuf;

use strata_testkit::cluster::{Cluster, TEST_TIMEOUT};
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{Https, HttpsResponse, serde_json, wait_for};

pub(super) const STRATA: &str = env!("CARGO_BIN_EXE_strata");

/// A caller of the REST API who has a token and no certificate.
pub(super) struct Caller {
    https: Https,
    token: String,
}

impl Caller {
    /// One of this role, limited to these projects.
    pub(super) async fn new(cluster: &Cluster, role: &str, projects: &[&str]) -> Self {
        let mut words = vec!["token", "create", "--name", role, "--role", role];
        for project in projects {
            words.extend(["--project", project]);
        }
        let token = cluster.cli().run(words).await.ok().trim().to_owned();
        let dir: PathBuf = cluster.server.data_dir().join("client");
        let url = format!("https://{}", cluster.near());
        let https = Https::new(&url, &dir.join("ca.crt"), None);
        Self { https, token }
    }

    pub(super) async fn call(&self, method: &str, path: &str, body: Value) -> HttpsResponse {
        self.call_with(method, path, &[], body).await
    }

    pub(super) async fn call_with(
        &self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: Value,
    ) -> HttpsResponse {
        let (method, path, https) = (method.to_owned(), path.to_owned(), self.https.clone());
        let kind = match method.as_str() {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let mut headers = vec![
            ("authorization".to_owned(), format!("Bearer {}", self.token)),
            ("content-type".to_owned(), kind.to_owned()),
        ];
        headers.extend(more.iter().map(|(k, v)| (k.to_string(), v.to_string())));
        let sent = tokio::task::spawn_blocking(move || {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(k, v)| (&**k, &**v)).collect();
            let body = match body {
                Value::Null => String::new(),
                body => body.to_string(),
            };
            https.send_with(&method, &path, &headers, &body)
        });
        sent.await.unwrap().unwrap()
    }
}

pub(super) async fn project(cluster: &Cluster, body: Value) {
    let answer = cluster.rest().call("PUT", "/project", body).await;
    assert!(answer.status < 300, "{answer:?}");
}

/// An instance of a project that runs a shell script.
pub(super) fn script(cluster: &Cluster, project: &str, name: &str, script: &str) -> Value {
    json!({
        "id": format!("id-{name}"),
        "name": name,
        "project": project,
        "uri": cluster.image,
        "environment": [format!("SCRIPT={script}")],
    })
}

/// One that answers HTTP on port 80 with its name.
pub(super) fn web(cluster: &Cluster, project: &str, name: &str) -> Value {
    let text = "mkdir -p /tmp/www; hostname > /tmp/www/name; httpd -p 80 -h /tmp/www; \
        trap exit TERM; while :; do sleep 60 & wait; done";
    script(cluster, project, name, text)
}

/// Makes an instance as an admin, and waits until it runs.
pub(super) async fn run(cluster: &Cluster, instance: Value) -> Value {
    let answer = cluster.rest().call("PUT", "/instance", instance).await;
    assert!(answer.status < 300, "{answer:?}");
    let made: Value = serde_json::from_str(&answer.body).unwrap();
    let path = format!("/instance/{}", made["id"].as_str().unwrap());
    wait_for("the instance to run", TEST_TIMEOUT, async || {
        let now = cluster.rest().get(&path).await;
        match now["status"] == "RUNNING" && now["ip"].is_string() {
            true => Ok(now),
            false => Err(now.to_string()),
        }
    })
    .await
}
