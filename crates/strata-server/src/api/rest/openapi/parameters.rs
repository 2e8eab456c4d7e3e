//! Query parameters, headers and path parameters, with their bounds.

use serde_json::{Value, json};
use strata_api::rest::NodeStatus;
use strata_types::instance::{InstanceKind, InstanceState};

const LABEL: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";

/// A query parameter or header. Of a name with several words the last is the
/// name on the wire; the others tell apart parameters of the same name.
pub(super) fn parameter(name: &str) -> Value {
    let kinds = InstanceKind::ALL.map(InstanceKind::as_str);
    let states = InstanceState::ALL.map(InstanceState::as_str);
    let nodes = ["REGISTERED", "READY", "DRAINING", "LEAVING", "LOST"];
    debug_assert_eq!(nodes[4], NodeStatus::Lost.as_str());
    let label = json!({ "type": "string", "pattern": LABEL, "maxLength": 63 });
    let flag = json!({ "type": "boolean", "default": false });
    let (schema, description) = match name {
        "limit" => (
            json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 }),
            "Maximum number of items.",
        ),
        "offset" => (
            json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX, "default": 0 }),
            "Number of items to skip.",
        ),
        "type" => (
            json!({ "type": "string", "enum": kinds }),
            "Only items of this type.",
        ),
        "state" => (
            json!({ "type": "string", "enum": states }),
            "Only items in this state.",
        ),
        "node state" => (
            json!({ "type": "string", "enum": nodes }),
            "Only items in this state.",
        ),
        "project" => (
            label,
            "Only items of this project; for one resource, the project in which its name is looked up.",
        ),
        "new project" => (
            label,
            "Project of the new resource, if the body names none.",
        ),
        "node" => (
            json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]+$", "maxLength": 128 }),
            "Only items on this node.",
        ),
        "workload" => (
            json!({ "type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]*$", "maxLength": 128 }),
            "Only items of this workload, by ID or name.",
        ),
        "kind" => (
            json!({ "type": "string", "enum": ["instance", "workload", "node", "project", "machine", "cluster", "server"] }),
            "Only events about this kind of resource.",
        ),
        "record key" => (
            json!({ "type": "string", "minLength": 1, "maxLength": 512 }),
            "Key of the record.",
        ),
        "after" => (
            json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": i64::MAX }),
            "Only items with a greater number.",
        ),
        "audit tail" => (
            json!({ "type": "integer", "minimum": 1, "maximum": 1000 }),
            "Only the latest N entries.",
        ),
        "principal" => (
            json!({ "type": "string", "minLength": 1 }),
            "Only calls by this principal.",
        ),
        "call" => (
            json!({ "type": "string", "minLength": 1 }),
            "Only entries whose call contains this text.",
        ),
        "audit object" => (
            json!({ "type": "string", "minLength": 1 }),
            "Only entries about this object or objects in it, e.g. `instance/web` or `cell`.",
        ),
        "audit project" => (
            json!({ "type": "string", "minLength": 1 }),
            "Only entries about objects of this project.",
        ),
        "refused" => (flag, "Only rejected calls."),
        "sessions" => (
            flag,
            "Only starts and ends of sessions: exec, attach, console, executables.",
        ),
        "watch" => (
            flag,
            "Return server-sent events: the present items as `put`, then `synced`, then every \
             change as `put` or `delete`. After `resync` all items are sent again. \
             `limit` and `offset` are ignored.",
        ),
        "operation state" => (
            json!({ "type": "string", "enum": ["SCHEDULED", "ACTIVE", "FAILED", "COMPLETED"] }),
            "Only items in this state.",
        ),
        "follow" => (flag, "Keep streaming until the instance stops."),
        "tail" => (
            json!({ "type": "integer", "minimum": 0, "maximum": 1_000_000 }),
            "Only the last N lines.",
        ),
        "previous" => (flag, "Logs of the run before the latest."),
        "dryRun" => (flag, "Return the plan without changing anything."),
        "version" => (
            json!({ "type": "string", "maxLength": 32, "minLength": 1 }),
            "Kubernetes version, e.g. `v1.35.4`, or `1.35` for its newest available patch release.",
        ),
        "user" => (
            json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]+$", "maxLength": 128 }),
            "User of the kubeconfig. Default: the caller.",
        ),
        "cascade" => (flag, "Delete its instances too."),
        "force" => (
            flag,
            "Delete the record of an instance whose deletion hangs. \
             Its node is notified when it is reachable again.",
        ),
        "now" => (
            flag,
            "Revoke the certificates of the node at once, and do not wait for it to stop its \
             instances: they are placed elsewhere when its lease has ended.",
        ),
        other => return header(other),
    };
    let name = name.split_whitespace().last().unwrap_or(name);
    json!({ "name": name, "in": "query", "description": description, "schema": schema })
}

fn header(name: &str) -> Value {
    let tags = r#"^(\*|(W/)?"[!#-~]*"(, ?(W/)?"[!#-~]*")*)?$"#;
    let (pattern, description) = match name {
        "If-Match" => (tags, "Only if the ETag still matches."),
        "If-None-Match" => (tags, "Only if the ETag has changed."),
        _ => (
            "^[!-~]{1,255}$",
            "A repeated request with the same key within 24 hours takes effect once \
             and returns the same response.",
        ),
    };
    let schema = json!({ "type": "string", "pattern": pattern });
    json!({ "name": name, "in": "header", "description": description, "schema": schema })
}

/// A parameter of the path.
pub(super) fn path_parameter(name: &str, description: &str) -> Value {
    json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": description,
        "schema": { "type": "string", "minLength": 1, "maxLength": 192 },
    })
}
