//! Changes by RFC 7396: what is left out stays, `null` gives a field its
//! default again, objects are merged, everything else is replaced.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use strata_types::instance::{InstanceSpec, InstanceState};
use strata_types::{Error, Label, Result};

use super::json::{from_object, plain_resources, take_text};
use crate::core::{DesiredState, InstanceUpdate};

/// What of a specification can be changed.
const CHANGEABLE: [&str; 19] = [
    "uri",
    "environment",
    "resources",
    "pids",
    "ports",
    "command",
    "arguments",
    "user",
    "workingDirectory",
    "volumes",
    "secrets",
    "init",
    "security",
    "health",
    "restart",
    "stopGraceSeconds",
    "labels",
    "placement",
    "userData",
];

/// What makes a thing the one it is: a patch may repeat it.
const IDENTITY: [&str; 6] = ["id", "type", "project", "workloadId", "owner", "createdAt"];

/// What the server observes of a thing, and no client sets.
const OBSERVED: [&str; 9] = [
    "description",
    "node",
    "ip",
    "restarts",
    "exitCode",
    "healthy",
    "wanted",
    "generation",
    "changedAt",
];

/// Takes out of a patch what cannot be changed and is not changed: so a client
/// may send back what it read, with some of it changed. What a thing is has to
/// be as it is. What the server observes may have changed since it was read;
/// where the patch has the id in it, it is such a whole, and that is ignored.
fn without_the_fixed(patch: &mut Map<String, Value>, now: &Map<String, Value>) -> Result<()> {
    let is_whole = patch.contains_key("id");
    let same = |field: &str, value: &Value| match now.get(field) {
        Some(now) => now == value,
        None => value.is_null() || value.as_str() == Some(""),
    };
    for field in IDENTITY {
        let other = |value: &Value| !same(field, value);
        if patch.get(field).is_some_and(other) {
            return Err(Error::invalid(field, "cannot be changed"));
        }
        patch.remove(field);
    }
    for field in OBSERVED.into_iter().chain(["instances"]) {
        let other = |value: &Value| !is_whole && !same(field, value);
        if patch.get(field).is_some_and(other) {
            return Err(Error::invalid(field, "is observed, and cannot be changed"));
        }
        patch.remove(field);
    }
    Ok(())
}

/// What a thing is shown as, to hold a patch against.
pub(super) fn shown(view: &impl Serialize) -> Result<Map<String, Value>> {
    match serde_json::to_value(view) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Error::internal("a record is shown as no object")),
        Err(error) => Err(Error::internal(format!(
            "a record cannot be shown: {error}"
        ))),
    }
}

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

/// What a patch makes of anything that can be sent and read.
pub(super) fn patched<T: Serialize + DeserializeOwned>(
    now: &T,
    patch: Map<String, Value>,
) -> Result<T> {
    let mut whole = serde_json::to_value(now)
        .map_err(|error| Error::internal(format!("the record cannot be encoded: {error}")))?;
    merge(&mut whole, Value::Object(patch));
    match whole {
        Value::Object(whole) => from_object(whole),
        _ => Err(Error::internal("it is not an object")),
    }
}

/// What a patch makes of a specification.
fn spec(now: &InstanceSpec, mut patch: Map<String, Value>) -> Result<InstanceSpec> {
    for field in patch.keys() {
        if !CHANGEABLE.contains(&field.as_str()) {
            let field: String = field.chars().take(80).collect();
            let why = format!("is unknown; there are {}", CHANGEABLE.join(", "));
            return Err(Error::invalid(field, why));
        }
    }
    plain_resources(&mut patch)?;
    let mut value = serde_json::to_value(now)
        .map_err(|error| Error::internal(format!("a record cannot be encoded: {error}")))?;
    merge(&mut value, Value::Object(patch));
    match value {
        Value::Object(object) => from_object(object),
        _ => Err(Error::internal("a specification is not an object")),
    }
}

/// The new name, if the patch has one.
fn name(patch: &mut Map<String, Value>) -> Result<Option<Label>> {
    let name = take_text(patch, "name")?;
    name.map(|name| Label::from_field("name", &name))
        .transpose()
}

/// The change of an instance that a patch requests; `shown` is how it is shown.
pub(super) fn instance(
    now: &InstanceSpec,
    shown: &Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<InstanceUpdate> {
    let is_whole = patch.contains_key("id");
    let status = take_text(&mut patch, "status")?;
    let as_shown = |word: &str| shown.get("status").and_then(Value::as_str) == Some(word);
    let desired_state = match status {
        None => None,
        // It was so when the whole was read.
        Some(word) if is_whole && as_shown(&word) => None,
        Some(word) if is_whole => desired_state_of(&word)?,
        // Also where it is so already: one that is to run may be stopped for
        // the moment, because its node had no server.
        Some(word) => match parse_desired_state(&word) {
            Err(_) if as_shown(&word) => None,
            requested => Some(requested?),
        },
    };
    without_the_fixed(&mut patch, shown)?;
    Ok(InstanceUpdate {
        name: name(&mut patch)?,
        desired_state,
        spec: match patch.is_empty() {
            true => None,
            false => Some(spec(now, patch)?),
        },
        made_from: None,
    })
}

/// The name and the specification of a workload that a patch requests.
pub(super) fn workload(
    now: &InstanceSpec,
    shown: &Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<(Option<Label>, Option<InstanceSpec>)> {
    without_the_fixed(&mut patch, shown)?;
    let name = name(&mut patch)?;
    match patch.is_empty() {
        true => Ok((name, None)),
        false => Ok((name, Some(spec(now, patch)?))),
    }
}

/// The desired state of an instance that has this status, where the status
/// implies one: an instance on its way to run is to run.
pub(super) fn desired_state_of(word: &str) -> Result<Option<DesiredState>> {
    use InstanceState::{Running, Scheduled, Scheduling, Starting, Stopped, Stopping};
    let known = InstanceState::ALL.into_iter();
    let Some(state) = known.into_iter().find(|state| state.as_str() == word) else {
        return parse_desired_state(word).map(Some);
    };
    Ok(match state {
        Running | Starting | Scheduling | Scheduled => Some(DesiredState::Running),
        Stopping | Stopped => Some(DesiredState::Stopped),
        _ => None,
    })
}

/// The desired state that a requested status stands for.
pub(super) fn parse_desired_state(word: &str) -> Result<DesiredState> {
    match word {
        _ if word == InstanceState::Running.as_str() => Ok(DesiredState::Running),
        _ if word == InstanceState::Stopped.as_str() => Ok(DesiredState::Stopped),
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
    fn status_that_is_shown_already_is_requested_unless_the_whole_is_sent_back() {
        let spec = InstanceSpec::default();
        let requested = |shown: &str, patch: Value| {
            let shown = object(json!({ "id": "i1", "status": shown }));
            let update = instance(&spec, &shown, object(patch)).unwrap();
            update.desired_state
        };
        let (running, stopped) = (Some(DesiredState::Running), Some(DesiredState::Stopped));
        assert_eq!(
            requested("STOPPED", json!({ "status": "STOPPED" })),
            stopped
        );
        assert_eq!(
            requested("RUNNING", json!({ "status": "RUNNING" })),
            running
        );
        assert_eq!(requested("FAILED", json!({ "status": "FAILED" })), None);
        let whole = json!({ "id": "i1", "status": "STOPPED" });
        assert_eq!(requested("STOPPED", whole.clone()), None);
        assert_eq!(requested("RUNNING", whole), stopped);
    }

    #[test]
    fn every_field_of_a_specification_can_be_changed_but_its_type() {
        let full = json!({
            "type": "VM", "uri": "x", "environment": [], "resources": {}, "ports": [],
            "pids": 100, "command": ["a"], "arguments": ["a"], "user": "a", "workingDirectory": "/",
            "volumes": ["a:/b"], "secrets": ["a"], "init": false,
            "security": {"readOnlyRoot": true}, "health": {"tcp": 1}, "restart": "never", "stopGraceSeconds": 1, "labels": {"a": "b"},
            "placement": {}, "userData": "x",
        });
        let spec: InstanceSpec = serde_json::from_value(full).unwrap();
        let shown = object(serde_json::to_value(&spec).unwrap());
        let mut fields: Vec<&str> = shown.keys().map(String::as_str).collect();
        // Fields at their default are not shown. A new field does not compile
        // here until it is named, and then fails until the literal sets it.
        let InstanceSpec {
            kind: _,
            uri: _,
            environment: _,
            resources: _,
            pids,
            ports: _,
            command,
            arguments,
            user,
            working_directory,
            volumes,
            secrets,
            init,
            security,
            health,
            restart: _,
            stop_grace_seconds,
            labels,
            placement: _,
            user_data,
        } = &spec;
        assert!(pids.is_some() && user.is_some() && working_directory.is_some());
        assert!(init.is_some() && health.is_some() && stop_grace_seconds.is_some());
        assert!(user_data.is_some() && *security != Default::default() && !labels.is_empty());
        assert!(
            [command, arguments, volumes, secrets]
                .iter()
                .all(|list| !list.is_empty())
        );
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
            (json!({"colour": 1}), "colour"),
            (json!({"labels": {"a": 1}}), "labels.a"),
            (json!({"resources": {"gpu": 1}}), "resources.gpu"),
        ] {
            assert_eq!(patched(patch).unwrap_err().field(), Some(field));
        }
    }

    #[test]
    fn instance_that_was_read_can_be_sent_back() {
        let now: InstanceSpec = serde_json::from_value(json!({"uri": "x"})).unwrap();
        let shown = object(json!({
            "id": "i1", "name": "web", "type": "CONTAINER", "status": "RUNNING", "uri": "x",
            "project": "default", "node": "n1", "restarts": 1, "changedAt": "then",
        }));
        let change = |patch| instance(&now, &shown, object(patch));
        // Meanwhile it was started again, and what the server observes differs.
        let mut whole = Value::Object(shown.clone());
        (whole["restarts"], whole["changedAt"]) = (json!(0), json!("before"));
        whole["environment"] = json!(["A=1"]);
        let patched = change(whole.clone()).unwrap();
        assert_eq!(patched.spec.unwrap().environment, ["A=1"]);
        assert_eq!(patched.desired_state, None);
        whole["status"] = json!("STOPPED");
        assert_eq!(
            change(whole.clone()).unwrap().desired_state,
            Some(DesiredState::Stopped)
        );
        whole["status"] = json!("FAILED");
        assert_eq!(change(whole).unwrap().desired_state, None);
        for (patch, field) in [
            (json!({"id": "i2"}), "id"),
            (json!({"id": "i1", "project": "other"}), "project"),
            (json!({"node": "n2"}), "node"),
            (json!({"status": "FAILED"}), "status"),
            (json!({"id": "i1", "status": "NONSENSE"}), "status"),
        ] {
            assert_eq!(change(patch).unwrap_err().field(), Some(field));
        }
    }
}
