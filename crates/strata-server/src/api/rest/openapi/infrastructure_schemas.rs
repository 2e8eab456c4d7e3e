//! Schemas of machines, the storage pool and backups: bounds that the types
//! cannot express, and the forms in which one type is sent.

use serde_json::{Map, Value, json};

use super::schemas::{constrain, set};

const LABEL: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";
const PLAIN: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";

/// Adds what the types of infrastructure cannot express to `all`.
pub(super) fn add(all: &mut Map<String, Value>) {
    machines(all);
    let settings = all.get("Autoscaling").cloned().unwrap_or_default();
    let patch = patch(settings, "A change to the settings of the autoscaler.");
    all.insert("AutoscalingPatch".into(), patch);
    set(all, "Retention", "/additionalProperties", json!(false));
    let label = json!({ "pattern": LABEL, "maxLength": 63 });
    for name in ["NewPoolVolume", "NewSnapshot", "BackupSchedule"] {
        constrain(all, name, "name", &label);
    }
    let percent = json!({ "minimum": 1, "maximum": 100 });
    constrain(all, "VerifyRequest", "percent", &percent);
    constrain(all, "NewBackup", "bytesPerSecond", &json!({ "minimum": 1 }));
}

/// The specification of a machine is sent in two forms: with its ID when the
/// machine is added, and in part when it is updated.
fn machines(all: &mut Map<String, Value>) {
    let spec = all.remove("MachineSpec").unwrap_or_default();
    all.insert("NewMachine".into(), spec.clone());
    let id = json!({ "type": "string", "description": "ID: a DNS label; also the name of the node.",
        "pattern": LABEL, "maxLength": 63 });
    set(all, "NewMachine", "/properties/id", id);
    set(all, "NewMachine", "/required", json!(["id", "provider"]));
    let description = json!("A machine to add to the inventory.");
    set(all, "NewMachine", "/description", description);
    let mut changed = patch(spec, "A change to a machine; `null` clears a field.");
    if let Some(Value::Object(fields)) = changed.pointer_mut("/properties") {
        // A machine with another provider is another machine.
        fields.remove("provider");
    }
    all.insert("MachinePatch".into(), changed);
    let gone = json!({ "type": ["string", "null"] });
    set(
        all,
        "MachinePatch",
        "/properties/labels/additionalProperties",
        gone,
    );
    for name in ["NewMachine", "MachinePatch"] {
        for (field, most) in [("handle", 256), ("address", 512), ("credentials", 63)] {
            let bound = json!({ "maxLength": most, "pattern": PLAIN });
            constrain(all, name, field, &bound);
        }
        for (field, most) in [("cpu", 4096), ("ram", 64_000_000), ("disk", 1_000_000)] {
            constrain(all, name, field, &json!({ "minimum": 1, "maximum": most }));
        }
        let labels = json!({
            "maxProperties": 100,
            "propertyNames": { "minLength": 1, "maxLength": 128, "pattern": PLAIN },
        });
        constrain(all, name, "labels", &labels);
    }
}

/// The schema with nothing required: fields that are left out keep their
/// value, and `null` resets a field to its default.
fn patch(mut schema: Value, description: &str) -> Value {
    if let Value::Object(schema) = &mut schema {
        schema.remove("required");
        schema.insert("description".into(), json!(description));
    }
    let fields = schema.pointer_mut("/properties");
    for (_, field) in fields.and_then(Value::as_object_mut).into_iter().flatten() {
        let Value::Object(field) = field else {
            continue;
        };
        field.remove("default");
        if let Some(Value::String(kind)) = field.get("type") {
            let either = json!([kind, "null"]);
            field.insert("type".into(), either);
        }
    }
    schema
}
