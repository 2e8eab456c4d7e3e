//! Schemas of clusters: bounds and examples that the types cannot express.

use serde_json::{Map, Value, json};

use super::schemas::{constrain, set};

const LABEL: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";

/// Adds what the types of clusters cannot express to `all`.
pub(super) fn add(all: &mut Map<String, Value>) {
    let scale = all.remove("ScalePool").unwrap_or_default();
    all.insert("ScalePoolPatch".into(), scale);
    set(all, "ControlPlane", "/additionalProperties", json!(false));
    let most = json!({ "minimum": 0, "maximum": 200 });
    constrain(all, "NodePool", "count", &most);
    constrain(all, "ScalePoolPatch", "count", &most);
    constrain(all, "ControlPlane", "count", &json!({ "enum": [1, 3, 5] }));
    let label = json!({ "pattern": LABEL, "maxLength": 63 });
    constrain(all, "NodePool", "name", &label);
    constrain(
        all,
        "NewCluster",
        "name",
        &json!({ "pattern": LABEL, "maxLength": 40 }),
    );
    constrain(all, "NewCluster", "pools", &json!({ "maxItems": 64 }));
    let ttl = json!({ "minimum": 600, "maximum": 604_800 });
    constrain(all, "KubeconfigRequest", "ttlSeconds", &ttl);
}
