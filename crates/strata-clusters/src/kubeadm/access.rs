//! Access to a cluster: a certificate that names the user, and a binding in the
//! cluster that says what the user may do. To delete the binding is to revoke
//! all certificates of a user at once.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use strata_types::Secret;

use super::api::Api;
use super::pki;
use crate::{ClusterFacts, DriverError};

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const IN_DEFAULT: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
/// For the namespace `default` alone: in `kube-system`, which no level holds,
/// it would be `cluster-admin` by another name.
const EDIT: &str = "edit";
/// What a user with `edit` there has elsewhere.
const VIEW: &str = "view";

/// Lets a user in with a role, or out with none.
pub(super) async fn grant_access(
    api: &Api,
    user: &str,
    role: Option<&str>,
) -> Result<(), DriverError> {
    match role {
        Some(EDIT) => {
            bind(api, user, BINDINGS, Some(VIEW)).await?;
            bind(api, user, IN_DEFAULT, Some(EDIT)).await
        }
        Some(role) => bind(api, user, BINDINGS, Some(role)).await,
        None => {
            bind(api, user, IN_DEFAULT, None).await?;
            bind(api, user, BINDINGS, None).await
        }
    }
}

/// Binds a user to a role, in the cluster or in a namespace, or to none.
async fn bind(
    api: &Api,
    user: &str,
    bindings: &str,
    role: Option<&str>,
) -> Result<(), DriverError> {
    let name = binding(user);
    let path = format!("{bindings}/{}", name.replace(':', "%3A"));
    let Some(role) = role else {
        return Ok(api.delete(&path).await?);
    };
    let group = "rbac.authorization.k8s.io";
    let kind = match bindings == BINDINGS {
        true => "ClusterRoleBinding",
        false => "RoleBinding",
    };
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "annotations": {"strata.dev/user": user}},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    match api.get::<serde_json::Value>(&path).await {
        // The role of a binding cannot be changed.
        Ok(found) if found["roleRef"]["name"] != role => api.delete(&path).await?,
        Ok(_) => return Ok(()),
        Err(error) if error.is(http::StatusCode::NOT_FOUND) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(api.create(bindings, &object).await?)
}

/// The name of a user's binding: what cannot be in a path is written in hex.
fn binding(user: &str) -> String {
    let mut name = String::from("strata:");
    for byte in user.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.@:".contains(&byte) {
            name.push(byte.into());
        } else {
            name.push_str(&format!("={byte:02x}"));
        }
    }
    name
}

/// A file for kubectl. In no group: what the user may do is in the binding
/// alone.
pub(super) fn kubeconfig(
    cluster: &ClusterFacts,
    user: &str,
    server: &str,
    seconds: u64,
) -> Result<Secret, DriverError> {
    let lifetime = Duration::from_secs(seconds);
    let identity = pki::client(&cluster.secrets, pki::CLUSTER, user, None, lifetime)?;
    let ca = STANDARD.encode(pki::of(&cluster.secrets, "ca.crt")?);
    let certificate = STANDARD.encode(&identity.certificate);
    let key = STANDARD.encode(identity.key.expose());
    let server = server.strip_prefix("https://").unwrap_or(server);
    let (name, quoted) = (&cluster.name, json!(user));
    let context = json!(format!("{user}@{name}"));
    Ok(Secret::new(format!(
        "apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: https://{server}
    tls-server-name: kubernetes
    certificate-authority-data: {ca}
users:
- name: {quoted}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {context}
  context:
    cluster: {name}
    user: {quoted}
current-context: {context}
"
    )))
}
