//! Schemas: from the types, and what the types cannot say. Fields of a
//! specification stand beside those of the thing that has it, so they are put
//! there; what the core refuses is said where a schema has words for it.

use serde_json::{Map, Value, json};
use strata_api::rest::{
    CaStepRequest, Certificate, CertificateAuthority, DrainRequest, Event, ExecRequest, ExecResult,
    Instance, InstancePatch, NewInstance, NewProject, NewSecret, NewWorkload, Node, NodePatch,
    Operation, OperationLine, Placement, Problem, Project, ProjectPatch, ResourcesInput,
    RetireCaRequest, RevokeRequest, RevokeResult, Secret, SecretPatch, UnknownInstance,
    UnreadableRecord, Workload, WorkloadPatch,
};
use strata_types::instance::InstanceSpec;
use utoipa::OpenApi;

use super::{clusters, estate_schemas};

#[derive(OpenApi)]
#[openapi(components(schemas(
    strata_audit::Entry,
    CaStepRequest,
    Certificate,
    CertificateAuthority,
    DrainRequest,
    Event,
    ExecRequest,
    ExecResult,
    Instance,
    InstancePatch,
    InstanceSpec,
    NewInstance,
    NewProject,
    NewSecret,
    NewWorkload,
    Node,
    NodePatch,
    Operation,
    OperationLine,
    Placement,
    Problem,
    Project,
    ProjectPatch,
    ResourcesInput,
    RetireCaRequest,
    RevokeRequest,
    RevokeResult,
    Secret,
    SecretPatch,
    UnknownInstance,
    UnreadableRecord,
    Workload,
    WorkloadPatch,
)))]
struct Generated;

/// What people send; nothing else is taken.
const SENT: [&str; 14] = [
    "CaStepRequest",
    "DrainRequest",
    "ExecRequest",
    "InstancePatch",
    "NewInstance",
    "NewProject",
    "NewSecret",
    "NewWorkload",
    "NodePatch",
    "ProjectPatch",
    "RetireCaRequest",
    "RevokeRequest",
    "SecretPatch",
    "WorkloadPatch",
];

/// All schemas by name.
pub(super) fn all() -> Value {
    let generated = serde_json::to_value(Generated::openapi()).unwrap_or_default();
    let mut all = match generated.pointer("/components/schemas") {
        Some(Value::Object(all)) => all.clone(),
        _ => Map::new(),
    };
    let spec = all.remove("InstanceSpec").unwrap_or_default();
    for name in ["NewInstance", "NewWorkload", "Workload"] {
        if let Some(schema) = all.get_mut(name) {
            stand_beside(schema, &spec);
        }
    }
    for name in ["NewInstance", "NewWorkload"] {
        let resources = json!({ "$ref": "#/components/schemas/ResourcesInput" });
        set(&mut all, name, "/properties/resources", resources);
    }
    for name in SENT {
        set(&mut all, name, "/additionalProperties", json!(false));
    }
    for name in [
        "NewInstance",
        "NewWorkload",
        "InstancePatch",
        "WorkloadPatch",
    ] {
        bound(&mut all, name);
    }
    let run = json!({ "type": "string", "enum": ["RUNNING", "STOPPED"] });
    for name in ["NewInstance", "InstancePatch"] {
        set(&mut all, name, "/properties/status", run.clone());
    }
    set(&mut all, "NewWorkload", "/required", json!(["name", "uri"]));
    estate_schemas::add(&mut all);
    clusters::add(&mut all);
    all.values_mut().for_each(without_null_defaults);
    examples(&mut all);
    Value::Object(all)
}

/// The fields of a specification, as fields of the thing itself.
fn stand_beside(schema: &mut Value, spec: &Value) {
    let fields = spec.pointer("/properties").and_then(Value::as_object);
    let own = schema
        .pointer_mut("/properties")
        .and_then(Value::as_object_mut);
    if let (Some(own), Some(fields)) = (own, fields) {
        for (name, field) in fields {
            own.entry(name).or_insert_with(|| field.clone());
        }
    }
}

pub(super) fn set(all: &mut Map<String, Value>, name: &str, place: &str, value: Value) {
    let Some((outer, last)) = place.rsplit_once('/') else {
        return;
    };
    let schema = all.get_mut(name).and_then(|it| it.pointer_mut(outer));
    if let Some(Value::Object(object)) = schema {
        object.insert(last.to_owned(), value);
    }
}

/// Nothing is what is meant where `null` stands as a default.
fn without_null_defaults(schema: &mut Value) {
    let fields = schema.pointer_mut("/properties");
    for field in fields.and_then(Value::as_object_mut).into_iter().flatten() {
        if let Value::Object(field) = field.1
            && field.get("default").is_some_and(Value::is_null)
        {
            field.remove("default");
        }
    }
}

/// Adds to what a schema says of a field.
pub(super) fn say(all: &mut Map<String, Value>, name: &str, field: &str, more: &Value) {
    let place = format!("/properties/{field}");
    let found = all.get_mut(name).and_then(|it| it.pointer_mut(&place));
    if let (Some(Value::Object(found)), Value::Object(more)) = (found, more) {
        for (key, value) in more {
            found.insert(key.clone(), value.clone());
        }
    }
}

/// What is refused, whoever asks.
fn bound(all: &mut Map<String, Value>, name: &str) {
    let words = |pattern: &str| json!({ "items": { "type": "string", "pattern": pattern }, "maxItems": 100 });
    let plain = r"^[^\x00-\x1f\x7f-\x9f]+$";
    let uri = json!({ "minLength": 1, "maxLength": 4096, "pattern": plain });
    let port = r"^((\[[0-9a-fA-F:]+\]|[0-9.]+):)?[0-9]{1,5}:[0-9]{1,5}(/(tcp|udp))?$";
    let labels = json!({
        "maxProperties": 100,
        "propertyNames": { "minLength": 1, "maxLength": 128, "pattern": plain },
    });
    say(all, name, "uri", &uri);
    say(all, name, "environment", &words("^[^=\\x00]+=[^\\x00]*$"));
    say(all, name, "ports", &words(port));
    say(all, name, "command", &words("^[^\\x00]*$"));
    say(all, name, "arguments", &words("^[^\\x00]*$"));
    say(all, name, "volumes", &words("^[^:]+:/"));
    say(all, name, "secrets", &words("^[a-zA-Z0-9_]"));
    say(all, name, "labels", &labels);
    say(all, name, "userData", &json!({ "maxLength": 65536 }));
}

fn examples(all: &mut Map<String, Value>) {
    let web = json!({
        "name": "web",
        "uri": "docker.io/library/nginx:1.27",
        "environment": ["GREETING=hello"],
        "resources": { "cpu": 500, "memory": 128, "disk": 1 },
        "ports": ["8080:80"],
    });
    for name in ["NewInstance", "NewWorkload"] {
        set(all, name, "/examples", json!([web]));
    }
    let stop = json!({ "status": "STOPPED" });
    set(all, "InstancePatch", "/examples", json!([stop]));
    let more = json!({ "resources": { "memory": 256 } });
    set(all, "WorkloadPatch", "/examples", json!([more]));
    let drain = json!({ "draining": true, "labels": { "zone": "a" } });
    set(all, "NodePatch", "/examples", json!([drain]));
    let team = json!({ "name": "team", "quota": { "cpu": 64000, "instances": 100 } });
    set(all, "NewProject", "/examples", json!([team]));
    let password = json!({ "name": "db-password", "value": "correct horse battery staple" });
    set(all, "NewSecret", "/examples", json!([password]));
    let quota = json!({ "quota": { "cpu": null, "instances": 200 } });
    set(all, "ProjectPatch", "/examples", json!([quota]));
}
