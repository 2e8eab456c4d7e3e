//! Schemas of machines, of the storage pool and of backups: from the types,
//! with the bounds that the types do not say.

use serde_json::{Map, Value, json};
use strata_api::rest::{
    AutoscalePlan, Autoscaling, Backup, BackupSchedule, DeviceResize, ExpandPlan, ExpandRequest,
    HypervisorDrain, Machine, MachineSpec, NewBackup, NewDevice, NewPoolVolume, NewSnapshot, Pool,
    PoolDevice, PoolVolume, PoolVolumePatch, PowerRequest, PrunePlan, PruneRequest, ReplaceRequest,
    RestoreRequest, Retention, ShrinkPlan, ShrinkRequest, VerifyRequest,
};
use utoipa::OpenApi;

use super::schemas::{say, set};

#[derive(OpenApi)]
#[openapi(components(schemas(
    AutoscalePlan,
    Autoscaling,
    Backup,
    BackupSchedule,
    DeviceResize,
    ExpandPlan,
    ExpandRequest,
    HypervisorDrain,
    Machine,
    MachineSpec,
    NewBackup,
    NewDevice,
    NewPoolVolume,
    NewSnapshot,
    Pool,
    PoolDevice,
    PoolVolume,
    PoolVolumePatch,
    PowerRequest,
    PrunePlan,
    PruneRequest,
    ReplaceRequest,
    RestoreRequest,
    Retention,
    ShrinkPlan,
    ShrinkRequest,
    VerifyRequest,
)))]
struct Generated;

/// What people send; nothing else is taken.
const SENT: [&str; 15] = [
    "AutoscalingPatch",
    "BackupSchedule",
    "ExpandRequest",
    "HypervisorDrain",
    "MachinePatch",
    "NewBackup",
    "NewDevice",
    "NewMachine",
    "NewPoolVolume",
    "NewSnapshot",
    "PoolVolumePatch",
    "PowerRequest",
    "PruneRequest",
    "ReplaceRequest",
    "ShrinkRequest",
];
const SENT_OF_BACKUPS: [&str; 3] = ["RestoreRequest", "Retention", "VerifyRequest"];

const LABEL: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";
const PLAIN: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";

/// Adds them to the others.
pub(super) fn add(all: &mut Map<String, Value>) {
    let generated = serde_json::to_value(Generated::openapi()).unwrap_or_default();
    if let Some(Value::Object(ours)) = generated.pointer("/components/schemas") {
        all.extend(ours.clone());
    }
    machines(all);
    let settings = all.get("Autoscaling").cloned().unwrap_or_default();
    let patch = patch(settings, "A change to what the autoscaler goes by.");
    all.insert("AutoscalingPatch".into(), patch);
    for name in SENT.iter().chain(&SENT_OF_BACKUPS) {
        set(all, name, "/additionalProperties", json!(false));
    }
    let label = json!({ "pattern": LABEL, "maxLength": 63 });
    for name in ["NewPoolVolume", "NewSnapshot", "BackupSchedule"] {
        say(all, name, "name", &label);
    }
    let percent = json!({ "minimum": 1, "maximum": 100 });
    say(all, "VerifyRequest", "percent", &percent);
    say(all, "NewBackup", "bytesPerSecond", &json!({ "minimum": 1 }));
    examples(all);
}

/// What is said of a machine is sent in two ways: with its id when it is
/// added, and in parts when it is changed.
fn machines(all: &mut Map<String, Value>) {
    let spec = all.remove("MachineSpec").unwrap_or_default();
    all.insert("NewMachine".into(), spec.clone());
    let id = json!({ "type": "string", "description": "Its id: a DNS label; its node has it as its name.",
        "pattern": LABEL, "maxLength": 63 });
    set(all, "NewMachine", "/properties/id", id);
    set(all, "NewMachine", "/required", json!(["id", "provider"]));
    let says = json!("A machine that is added.");
    set(all, "NewMachine", "/description", says);
    let mut changed = patch(spec, "A change to a machine; `null` unsays a field.");
    if let Some(Value::Object(fields)) = changed.pointer_mut("/properties") {
        // It is another machine then.
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
            say(all, name, field, &bound);
        }
        for (field, most) in [("cpu", 4096), ("ram", 64_000_000), ("disk", 1_000_000)] {
            say(all, name, field, &json!({ "minimum": 1, "maximum": most }));
        }
        let labels = json!({
            "maxProperties": 100,
            "propertyNames": { "minLength": 1, "maxLength": 128, "pattern": PLAIN },
        });
        say(all, name, "labels", &labels);
    }
}

/// The same with nothing required: what is left out stays, and `null` gives a
/// field its default again.
fn patch(mut schema: Value, says: &str) -> Value {
    if let Value::Object(schema) = &mut schema {
        schema.remove("required");
        schema.insert("description".into(), json!(says));
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

fn examples(all: &mut Map<String, Value>) {
    let machine = json!({ "id": "m1", "provider": "local", "cpu": 2, "ram": 2048,
        "labels": { "zone": "a" } });
    let volume = json!({ "name": "data", "quotaBytes": 1_000_000_000 });
    let nightly = json!({ "name": "nightly", "when": "30 2 * * *",
        "keep": { "daily": 7, "weekly": 4 } });
    for (name, example) in [
        ("NewMachine", machine),
        ("MachinePatch", json!({ "labels": { "zone": "b" } })),
        ("AutoscalingPatch", json!({ "enabled": true, "cpu": 4000 })),
        ("NewDevice", json!({ "bytes": 10_000_000_000_u64 })),
        ("NewPoolVolume", volume),
        ("BackupSchedule", nightly),
        ("PruneRequest", json!({ "keep": { "last": 7 } })),
        (
            "RestoreRequest",
            json!({ "volume": "data", "as": "data-2" }),
        ),
    ] {
        set(all, name, "/examples", json!([example]));
    }
}
