//! Schemas: generated from the types, plus what the types cannot express.
//! Fields of a specification are flattened into the resource that has it, and
//! bounds that the core enforces are added where JSON Schema can express them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use strata_api::rest::{MachineSpec, Problem, ResourcesInput, ScalePool};
use strata_types::instance::InstanceSpec;

use super::operation::Schema;
use super::{cluster_schemas, infrastructure_schemas};
use crate::api::rest::route::{Noun, Route};

/// All schemas, keyed by name.
pub(super) fn all(nouns: &[Noun]) -> Value {
    let routes = || nouns.iter().flat_map(|noun| &noun.routes);
    let mut all = generated(routes());
    let spec = all.remove("InstanceSpec").unwrap_or_default();
    for name in ["NewInstance", "NewWorkload", "Workload"] {
        if let Some(schema) = all.get_mut(name) {
            flatten_into(schema, &spec);
        }
    }
    for name in ["NewInstance", "NewWorkload"] {
        let resources = json!({ "$ref": "#/components/schemas/ResourcesInput" });
        set(&mut all, name, "/properties/resources", resources);
    }
    for name in [
        "NewInstance",
        "NewWorkload",
        "InstancePatch",
        "WorkloadPatch",
    ] {
        add_spec_bounds(&mut all, name);
    }
    let run = json!({ "type": "string", "enum": ["RUNNING", "STOPPED"] });
    for name in ["NewInstance", "InstancePatch"] {
        set(&mut all, name, "/properties/status", run.clone());
    }
    set(&mut all, "NewWorkload", "/required", json!(["name", "uri"]));
    // Its default, an empty list, is rejected.
    set(&mut all, "ExecRequest", "/required", json!(["command"]));
    constrain(
        &mut all,
        "ExecRequest",
        "command",
        &json!({ "default": null }),
    );
    infrastructure_schemas::add(&mut all);
    cluster_schemas::add(&mut all);
    all.values_mut().for_each(without_null_defaults);
    for route in routes() {
        // Unknown fields of a request are rejected.
        let Some(body) = route.body else { continue };
        set(
            &mut all,
            &body.name(),
            "/additionalProperties",
            json!(false),
        );
        if let Some(example) = &route.example {
            set(&mut all, &body.name(), "/examples", json!([example]));
        }
    }
    Value::Object(all)
}

/// Those of the types that routes take and return, and of those that others
/// are made of.
fn generated<'a>(routes: impl Iterator<Item = &'a Route>) -> Map<String, Value> {
    let sent = routes.flat_map(|route| {
        let responses = route.responses.iter().flat_map(|one| one.content.schemas());
        route.body.into_iter().chain(responses)
    });
    let parts = [
        Schema::of::<InstanceSpec>(),
        Schema::of::<MachineSpec>(),
        Schema::of::<Problem>(),
        Schema::of::<ResourcesInput>(),
        Schema::of::<ScalePool>(),
    ];
    let mut all = Vec::new();
    for schema in sent.chain(parts) {
        if let Schema::Type { add, .. } = schema {
            add(&mut all);
        }
    }
    let all: BTreeMap<_, _> = all.into_iter().collect();
    let all = all.into_iter().map(|(name, schema)| {
        let schema = serde_json::to_value(schema).unwrap_or_default();
        (name, schema)
    });
    all.collect()
}

/// Adds the fields of a specification to the schema of the resource.
fn flatten_into(schema: &mut Value, spec: &Value) {
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

/// Removes defaults of `null`: the field is absent then.
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

/// Adds keywords to the schema of a field.
pub(super) fn constrain(all: &mut Map<String, Value>, name: &str, field: &str, more: &Value) {
    let place = format!("/properties/{field}");
    let found = all.get_mut(name).and_then(|it| it.pointer_mut(&place));
    if let (Some(Value::Object(found)), Value::Object(more)) = (found, more) {
        for (key, value) in more {
            found.insert(key.clone(), value.clone());
        }
    }
}

/// Adds the bounds that the core enforces on specifications.
fn add_spec_bounds(all: &mut Map<String, Value>, name: &str) {
    let strings = |pattern: &str| json!({ "items": { "type": "string", "pattern": pattern }, "maxItems": 100 });
    let plain = r"^[^\x00-\x1f\x7f-\x9f]+$";
    // The default of the type, an empty text, is rejected.
    let uri = json!({ "default": null, "minLength": 1, "maxLength": 4096, "pattern": plain });
    let port = r"^((\[[0-9a-fA-F:]+\]|[0-9.]+):)?[0-9]{1,5}:[0-9]{1,5}(/(tcp|udp))?$";
    let labels = json!({
        "maxProperties": 100,
        "propertyNames": { "minLength": 1, "maxLength": 128, "pattern": plain },
    });
    constrain(all, name, "uri", &uri);
    constrain(all, name, "environment", &strings("^[^=\\x00]+=[^\\x00]*$"));
    constrain(all, name, "ports", &strings(port));
    constrain(all, name, "command", &strings("^[^\\x00]*$"));
    constrain(all, name, "arguments", &strings("^[^\\x00]*$"));
    constrain(all, name, "volumes", &strings("^[^:]+:/"));
    constrain(all, name, "secrets", &strings("^[a-zA-Z0-9_]"));
    constrain(all, name, "labels", &labels);
    constrain(all, name, "userData", &json!({ "maxLength": 65536 }));
}
