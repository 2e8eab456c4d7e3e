//! Difference between observed and desired specification: the fields that
//! differ, and the merge patch.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::failure::{Exit, Failure, Result};

/// A field that differs; `None` if it is absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Difference {
    pub(crate) field: String,
    pub(crate) before: Value,
    pub(crate) after: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            before,
            after,
        } = self;
        match (before, after) {
            (Value::Null, after) => write!(f, "{field}: + {after}"),
            (before, Value::Null) => write!(f, "{field}: - {before}"),
            (before, after) => write!(f, "{field}: {before} -> {after}"),
        }
    }
}

/// Something as JSON has it.
pub(crate) fn value(of: &impl Serialize) -> Result<Value> {
    serde_json::to_value(of)
        .map_err(|why| Failure::new(Exit::Unexpected, "cannot serialize").because(why.to_string()))
}

/// The fields that differ, in their order; lists are fields as a whole.
pub(crate) fn differences(before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", before, after, &mut found);
    found
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<Difference>) {
    if before == after || (says_nothing(before) && says_nothing(after)) {
        return;
    }
    let empty = Map::new();
    let (was, is) = match (before, after) {
        (Value::Object(was), Value::Object(is)) => (was, is),
        (Value::Null, Value::Object(is)) if !is.is_empty() => (&empty, is),
        (Value::Object(was), Value::Null) if !was.is_empty() => (was, &empty),
        _ => {
            found.push(Difference {
                field: path.to_owned(),
                before: before.clone(),
                after: after.clone(),
            });
            return;
        }
    };
    let mut keys: Vec<&String> = was.keys().chain(is.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let path = match path {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
        compare(&path, &of(was), &of(is), found);
    }
}

/// Values equal to an absent field. Zero is not one: it is a limit.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// What makes `after` of `before`, by RFC 7396.
pub(crate) fn merge_patch(before: &Value, after: &Value) -> Value {
    let (Value::Object(was), Value::Object(is)) = (before, after) else {
        return after.clone();
    };
    let mut patch = Map::new();
    for (key, now) in is {
        match was.get(key) {
            Some(then) if then == now => {}
            Some(then) => drop(patch.insert(key.clone(), merge_patch(then, now))),
            None => drop(patch.insert(key.clone(), now.clone())),
        }
    }
    for key in was.keys().filter(|key| !is.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// RFC 7396, word for word.
    fn apply(target: Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else {
            return patch.clone();
        };
        let mut target = match target {
            Value::Object(target) => target,
            _ => Map::new(),
        };
        for (key, value) in patch {
            if value.is_null() {
                target.remove(key);
            } else {
                let now = target.remove(key).unwrap_or_default();
                target.insert(key.clone(), apply(now, value));
            }
        }
        Value::Object(target)
    }

    #[test]
    fn fields_are_named_by_their_path() {
        let before = json!({"uri": "a", "ports": ["1:1"], "resources": {"cpu": 1, "disk": 2}});
        let after = json!({"uri": "a", "ports": [], "resources": {"cpu": 3, "disk": 2}, "health": {"tcp": 80}});
        let told: Vec<String> = differences(&before, &after)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            told,
            [
                "health.tcp: + 80",
                r#"ports: ["1:1"] -> []"#,
                "resources.cpu: 1 -> 3"
            ]
        );
        assert!(differences(&after, &after).is_empty());
        let unsaid = json!({"security": {"add": [], "readOnly": false}});
        assert!(differences(&json!({}), &unsaid).is_empty());
        assert_eq!(differences(&json!({}), &json!({"grace": 0})).len(), 1);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3i64).prop_map(Value::from),
            Just(json!([1, 2])),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
        })
    }

    proptest! {
        #[test]
        fn a_patch_makes_one_of_the_other(a in values(), b in values()) {
            let both = |v: Value| json!({"x": v});
            let (a, b) = (both(a), both(b));
            prop_assert_eq!(apply(a.clone(), &merge_patch(&a, &b)), b.clone());
            prop_assert!(a != b || differences(&a, &b).is_empty());
        }
    }
}
