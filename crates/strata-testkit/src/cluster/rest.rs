//! The server's REST API, as an admin calls it.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;

use super::{Cluster, TEST_TIMEOUT};
use crate::{Https, HttpsResponse, wait_for};

/// A caller of the REST API.
#[derive(Clone, Debug)]
pub struct Rest(Https);

impl Rest {
    /// To the server that is reached there, with the credentials in `dir`.
    pub fn new(near: SocketAddr, dir: &Path) -> Self {
        Self(Https::new(
            &format!("https://{near}"),
            &dir.join("ca.crt"),
            Some(dir),
        ))
    }

    /// Sends a request with a JSON body, unless that is null.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn call(&self, method: &str, path: &str, body: Value) -> HttpsResponse {
        self.try_call(method, path, body)
            .await
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// The same, for a server that may be gone.
    pub async fn try_call(
        &self,
        method: &str,
        path: &str,
        body: Value,
    ) -> std::io::Result<HttpsResponse> {
        let (method, path, https) = (method.to_owned(), path.to_owned(), self.0.clone());
        let sent = tokio::task::spawn_blocking(move || {
            let (kind, body) = match (&body, method.as_str()) {
                (Value::Null, _) => ("application/json", String::new()),
                (body, "PATCH") => ("application/merge-patch+json", body.to_string()),
                (body, _) => ("application/json", body.to_string()),
            };
            https.send_with(&method, &path, &[("content-type", kind)], &body)
        });
        sent.await.expect("sending does not panic")
    }

    /// A change, which must be accepted.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn patch(&self, path: &str, body: Value) -> Value {
        let answer = self.call("PATCH", path, body).await;
        assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
        serde_json::from_str(&answer.body).unwrap_or(Value::Null)
    }

    /// An object, or a list of them.
    ///
    /// # Panics
    /// When there is none.
    pub async fn get(&self, path: &str) -> Value {
        let answer = self.call("GET", path, Value::Null).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        serde_json::from_str(&answer.body).expect("an answer is JSON")
    }
}

impl Cluster {
    /// Waits until a node is in this state, in the words of the REST API.
    ///
    /// # Panics
    /// When it does not come to be.
    pub async fn node_is(&self, name: &str, status: &str) -> Value {
        wait_for("the node's state", TEST_TIMEOUT, async || {
            let path = format!("/node/{name}");
            let answer = self.rest().try_call("GET", &path, Value::Null).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let node: Value = serde_json::from_str(&answer.body).unwrap_or(Value::Null);
            match node["status"] == status {
                true => Ok(node),
                false => Err(format!("{answer:?}")),
            }
        })
        .await
    }

    /// Waits until an instance meets the condition.
    ///
    /// # Panics
    /// When it does not come to be.
    pub async fn instance_until(&self, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        wait_for("the instance", TEST_TIMEOUT, async || {
            let path = format!("/instance/{id}");
            let answer = self.rest().try_call("GET", &path, Value::Null).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let one: Value = serde_json::from_str(&answer.body).unwrap_or(Value::Null);
            match wanted(&one) {
                true => Ok(one),
                false => Err(format!("{answer:?}")),
            }
        })
        .await
    }

    /// The REST API, as an admin calls it.
    pub fn rest(&self) -> Rest {
        Rest::new(self.near(), &self.server.data_dir().join("client"))
    }
}
