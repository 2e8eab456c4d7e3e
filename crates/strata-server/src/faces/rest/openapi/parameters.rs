//! The parameters there are, each with what is allowed.

use serde_json::{Value, json};
use strata_api::rest::NodeStatus;
use strata_types::instance::{InstanceKind, InstanceState};

const LABEL: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";

/// A parameter by its name.
pub(super) fn parameter(name: &str) -> Value {
    let kinds = InstanceKind::ALL.map(InstanceKind::as_str);
    let states = InstanceState::ALL.map(InstanceState::as_str);
    let nodes = ["REGISTERED", "READY", "DRAINING", "LEAVING", "LOST"];
    debug_assert_eq!(nodes[4], NodeStatus::Lost.as_str());
    let label = json!({ "type": "string", "pattern": LABEL, "maxLength": 63 });
    let flag = json!({ "type": "boolean", "default": false });
    let (schema, says) = match name {
        "limit" => (
            json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 }),
            "At most so many.",
        ),
        "offset" => (
            json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX, "default": 0 }),
            "Without the first so many.",
        ),
        "type" => (
            json!({ "type": "string", "enum": kinds }),
            "Only of this type.",
        ),
        "state" => (
            json!({ "type": "string", "enum": states }),
            "Only in this state.",
        ),
        "node state" => (
            json!({ "type": "string", "enum": nodes }),
            "Only in this state.",
        ),
        "project" => (
            label,
            "Only of this project; or where a name is looked for.",
        ),
        "new project" => (label, "Where, unless the body says it."),
        "node" => (
            json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]+$", "maxLength": 128 }),
            "Only on this node.",
        ),
        "workload" => (
            json!({ "type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]*$", "maxLength": 128 }),
            "Only of this workload, by its id or name.",
        ),
        "kind" => (
            json!({ "type": "string", "enum": ["instance", "workload", "node", "project", "machine", "cluster", "server"] }),
            "Only of things of this kind.",
        ),
        "record key" => (
            json!({ "type": "string", "minLength": 1, "maxLength": 512 }),
            "The key of the record.",
        ),
        "after" => (
            json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": i64::MAX }),
            "Only those with a greater number.",
        ),
        "audit tail" => (
            json!({ "type": "integer", "minimum": 1, "maximum": 1000 }),
            "Only the latest so many.",
        ),
        "principal" => (
            json!({ "type": "string", "minLength": 1 }),
            "Only of the caller with this name.",
        ),
        "call" => (
            json!({ "type": "string", "minLength": 1 }),
            "Only those whose call contains this.",
        ),
        "audit object" => (
            json!({ "type": "string", "minLength": 1 }),
            "Only about this object, or what is in it: `instance/web`, `cell`.",
        ),
        "audit project" => (
            json!({ "type": "string", "minLength": 1 }),
            "Only about objects of this project.",
        ),
        "refused" => (flag, "Only refusals."),
        "sessions" => (
            flag,
            "Only the starts and ends of sessions: exec, attach, console, executables.",
        ),
        "watch" => (
            flag,
            "Server-sent events instead: what there is as `put`, then `synced`, then every \
             change as `put` or `delete`. After `resync` all comes once more. \
             `limit` and `offset` have no meaning then.",
        ),
        "operation state" => (
            json!({ "type": "string", "enum": ["SCHEDULED", "ACTIVE", "FAILED", "COMPLETED"] }),
            "Only in this state.",
        ),
        "follow" => (flag, "Go on until it ends for good."),
        "tail" => (
            json!({ "type": "integer", "minimum": 0, "maximum": 1_000_000 }),
            "Only the last so many lines.",
        ),
        "previous" => (flag, "Of the run before the latest."),
        "dryRun" => (flag, "Only tell what would be done."),
        "version" => (
            json!({ "type": "string", "maxLength": 32, "minLength": 1 }),
            "Of Kubernetes, as `v1.35.4`, or `1.35` for the newest of these here.",
        ),
        "user" => (
            json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]+$", "maxLength": 128 }),
            "Whose; the caller's unless told.",
        ),
        "cascade" => (flag, "With its instances."),
        "force" => (
            flag,
            "Delete the record of one that is being deleted and does not go. \
             Its node is sent that when it can be.",
        ),
        other => return header(other),
    };
    let name = name.split_whitespace().last().unwrap_or(name);
    json!({ "name": name, "in": "query", "description": says, "schema": schema })
}

fn header(name: &str) -> Value {
    let tags = r#"^(\*|(W/)?"[!#-~]*"(, ?(W/)?"[!#-~]*")*)?$"#;
    let (pattern, says) = match name {
        "If-Match" => (tags, "Only if it is still this version, by its ETag."),
        "If-None-Match" => (tags, "Only if it is another version by now."),
        _ => (
            "^[!-~]{1,255}$",
            "The same request with the same key within a day has its effect once, \
             and the same answer.",
        ),
    };
    let schema = json!({ "type": "string", "pattern": pattern });
    json!({ "name": name, "in": "header", "description": says, "schema": schema })
}

/// What is in the path.
pub(super) fn part(name: &str, says: &str) -> Value {
    json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": says,
        "schema": { "type": "string", "minLength": 1, "maxLength": 192 },
    })
}
