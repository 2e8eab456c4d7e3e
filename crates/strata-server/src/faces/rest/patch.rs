//! Changes by RFC 7396: what is left out stays, `null` gives a field its
//! default again, objects are merged, everything else is replaced.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use strata_types::instance::{InstanceSpec, InstanceState};
use strata_types::{Error, Label, Result};

use super::json::{from_object, plain_resources, take_text};
use crate::core::{Change, Wanted};

/// What of a specification can be changed.
const CHANGEABLE: [&str; 16] = [
    "uri",
    "environment",
    "resources",
    "ports",
    "command",
    "arguments",
    "user",
    "workingDirectory",
    "volumes",
    "security",
    "health",
    "restart",
    "stopGraceSeconds",
    "labels",
    "placement",
    "userData",
];

/// What is told and cannot be changed.
const FIXED: [&str; 18] = [
    "id",
    "type",
    "project",
    "description",
    "node",
    "ip",
    "workloadId",
    "restarts",
    "exitCode",
    "healthy",
    "wanted",
    "generation",
    "owner",
    "createdAt",
    "changedAt",
    "instances",
    "status",
    "name",
];

/// The value with the patch in it.
pub(super) fn merge(value: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *value = patch;
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(object) = value else { return };
    for (key, part) in patch {
        match part {
            Value::Null => drop(object.remove(&key)),
            part => merge(object.entry(key).or_insert(Value::Null), part),
        }
    }
}

/// What a patch makes of anything that can be told and read.
pub(super) fn patched<T: Serialize + DeserializeOwned>(
    now: &T,
    patch: Map<String, Value>,
) -> Result<T> {
    let mut whole = serde_json::to_value(now)
        .map_err(|error| Error::internal(format!("it cannot be told: {error}")))?;
    merge(&mut whole, Value::Object(patch));
    match whole {
        Value::Object(whole) => from_object(whole),
        _ => Err(Error::internal("it is no object")),
    }
}

/// What a patch makes of a specification.
fn spec(now: &InstanceSpec, mut patch: Map<String, Value>) -> Result<InstanceSpec> {
    for field in patch.keys() {
        if FIXED.contains(&field.as_str()) {
            return Err(Error::invalid(field, "cannot be changed"));
        }
        if !CHANGEABLE.contains(&field.as_str()) {
            let field: String = field.chars().take(80).collect();
            let why = format!("is unknown; there are {}", CHANGEABLE.join(", "));
            return Err(Error::invalid(field, why));
        }
    }
    plain_resources(&mut patch)?;
    let mut value = serde_json::to_value(now)
        .map_err(|error| Error::internal(format!("a record cannot be told: {error}")))?;
    merge(&mut value, Value::Object(patch));
    match value {
        Value::Object(object) => from_object(object),
        _ => Err(Error::internal("a specification is no object")),
    }
}

/// The new name, if the patch has one.
fn name(patch: &mut Map<String, Value>) -> Result<Option<Label>> {
    let name = take_text(patch, "name")?;
    name.map(|name| Label::from_field("name", &name))
        .transpose()
}

/// The change of an instance that a patch asks for.
pub(super) fn instance(now: &InstanceSpec, mut patch: Map<String, Value>) -> Result<Change> {
    let wanted = take_text(&mut patch, "status")?;
    Ok(Change {
        name: name(&mut patch)?,
        wanted: wanted.map(|word| run_or_rest(&word)).transpose()?,
        spec: match patch.is_empty() {
            true => None,
            false => Some(spec(now, patch)?),
        },
        made_from: None,
    })
}

/// The name and the specification of a workload that a patch asks for.
pub(super) fn workload(
    now: &InstanceSpec,
    mut patch: Map<String, Value>,
) -> Result<(Option<Label>, Option<InstanceSpec>)> {
    let name = name(&mut patch)?;
    match patch.is_empty() {
        true => Ok((name, None)),
        false => Ok((name, Some(spec(now, patch)?))),
    }
}

/// What is wanted by whoever says that something shall have a status.
pub(super) fn run_or_rest(word: &str) -> Result<Wanted> {
    match word {
        _ if word == InstanceState::Running.as_str() => Ok(Wanted::Running),
        _ if word == InstanceState::Stopped.as_str() => Ok(Wanted::Stopped),
        _ => Err(Error::invalid("status", "must be RUNNING or STOPPED")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(object) => object,
            _ => panic!("{value} is no object"),
        }
    }

    #[test]
    fn patches_are_merged_as_the_rfc_shows() {
        for (mut before, patch, after) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b", "b": "c"}),
                json!({"a": null}),
                json!({"b": "c"}),
            ),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (
                json!({"e": null}),
                json!({"a": 1}),
                json!({"e": null, "a": 1}),
            ),
            (
                json!([1, 2]),
                json!({"a": "b", "c": null}),
                json!({"a": "b"}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ] {
            merge(&mut before, patch);
            assert_eq!(before, after);
        }
    }

    #[test]
    fn every_field_of_a_specification_can_be_changed_but_its_type() {
        let full = json!({
            "type": "VM", "uri": "x", "environment": [], "resources": {}, "ports": [],
            "command": ["a"], "arguments": ["a"], "user": "a", "workingDirectory": "/",
            "volumes": ["a:/b"], "security": {"readOnlyRoot": true}, "health": {"tcp": 1},
            "restart": "never", "stopGraceSeconds": 1, "labels": {"a": "b"},
            "placement": {}, "userData": "x",
        });
        let spec: InstanceSpec = serde_json::from_value(full).unwrap();
        let told = object(serde_json::to_value(spec).unwrap());
        let mut fields: Vec<&str> = told.keys().map(String::as_str).collect();
        fields.retain(|field| *field != "type");
        let mut known = CHANGEABLE;
        known.sort_unstable();
        fields.sort_unstable();
        assert_eq!(fields, known);
    }

    #[test]
    fn null_gives_a_field_its_default_and_amounts_come_in_both_forms() {
        let now: InstanceSpec = serde_json::from_value(json!({
            "uri": "x", "user": "me", "environment": ["A=1"], "labels": {"a": "1", "b": "2"},
            "resources": {"cpu": 100, "memory": 64, "disk": 1},
        }))
        .unwrap();
        let patched = |patch| spec(&now, object(patch));
        let next = patched(json!({"user": null, "environment": null, "labels": {"a": null}}));
        let next = next.unwrap();
        assert_eq!((next.user, next.environment), (None, vec![]));
        assert_eq!(next.labels.len(), 1);
        for patch in [
            json!({"resources": {"memory": 32}}),
            json!({"resources": {"max": {"memory": 32}}}),
        ] {
            let next = patched(patch).unwrap().resources;
            assert_eq!((next.cpu, next.memory, next.disk), (100, 32, 1));
        }
        let none = patched(json!({"resources": null})).unwrap();
        assert_eq!(none.resources.cpu, 0);
        for (patch, field) in [
            (json!({"id": "x"}), "id"),
            (json!({"colour": 1}), "colour"),
            (json!({"labels": {"a": 1}}), "labels.a"),
            (json!({"resources": {"gpu": 1}}), "resources.gpu"),
        ] {
            assert_eq!(patched(patch).unwrap_err().field(), Some(field));
        }
    }
}
