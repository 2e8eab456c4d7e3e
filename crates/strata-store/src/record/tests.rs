//! Records with fields that this release does not know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Record {
    name: String,
    #[serde(alias = "old_count")]
    count: u32,
    spec: Spec,
    #[serde(default)]
    labels: BTreeMap<String, Spec>,
    #[serde(default)]
    parts: Vec<Spec>,
    #[serde(default)]
    how: How,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Spec {
    size: u32,
    within: Option<Box<Spec>>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    #[default]
    Plain,
    Pair(u32, u32),
    One(Spec),
    Two {
        size: u32,
    },
}

fn text() -> Value {
    json!({
        "name": "a", "old_count": 1, "future": [1, {"x": null}],
        "spec": {"size": 1, "replicas": 3, "within": {"size": 2, "deep": true}},
        "labels": {"x": {"size": 1, "tint": "red"}},
        "parts": [{"size": 1}, {"size": 2, "grain": 7}],
        "how": {"one": {"size": 4, "speed": 9}},
    })
}

fn read(value: &Value) -> (Record, Unknown) {
    decode(value.to_string().as_bytes()).unwrap()
}

fn merged(before: &Value, unknown: &Unknown, next: &Record) -> Value {
    let next = serde_json::to_vec(next).unwrap();
    let before = before.to_string();
    serde_json::from_slice(&unknown.merge(before.as_bytes(), &next).unwrap()).unwrap()
}

#[test]
fn unknown_fields_survive_an_update_at_every_depth() {
    let text = text();
    assert!(serde_json::from_value::<Record>(text.clone()).is_err());
    let (mut record, unknown) = read(&text);
    assert_eq!((record.count, record.spec.size), (1, 1));
    record.name = "b".into();
    record.spec.size = 5;
    let next = merged(&text, &unknown, &record);
    assert_eq!(next["name"], "b");
    assert_eq!(next["future"], json!([1, {"x": null}]));
    assert_eq!(next["spec"]["size"], 5);
    assert_eq!(next["spec"]["replicas"], 3);
    assert_eq!(next["spec"]["within"]["deep"], true);
    assert_eq!(next["labels"]["x"]["tint"], "red");
    assert_eq!(next["parts"][1]["grain"], 7);
    assert_eq!(next["how"]["one"]["speed"], 9);
    // A name from before is the same field, not one more.
    assert_eq!((&next["count"], next.get("old_count")), (&json!(1), None));
    // And what was merged is read as it was written.
    assert_eq!(read(&next), (record, unknown));
}

#[test]
fn unknown_field_goes_with_what_it_was_in() {
    let text = text();
    let (mut record, unknown) = read(&text);
    record.spec.within = None;
    record.labels.clear();
    record.parts.remove(0);
    record.how = How::Two { size: 1 };
    let next = merged(&text, &unknown, &record);
    assert_eq!(next["spec"]["within"], Value::Null);
    assert_eq!(next["labels"], json!({}));
    assert_eq!(next["parts"], json!([{"size": 2, "within": null}]));
    assert_eq!(next["how"], json!({"two": {"size": 1}}));
    assert_eq!(next["future"], text["future"]);
}

#[test]
fn known_record_is_read_as_ever() {
    for how in [How::Plain, How::Pair(1, 2), How::Two { size: 3 }] {
        let record = Record {
            name: "a\u{e9}\"".into(),
            count: 2,
            spec: Spec::default(),
            labels: BTreeMap::new(),
            parts: vec![Spec::default()],
            how,
        };
        let text = serde_json::to_vec(&record).unwrap();
        let (again, unknown) = decode::<Record>(&text).unwrap();
        assert!(unknown.is_empty());
        assert_eq!(again, record);
    }
    let unknown_variant = br#"{"name":"a","count":1,"spec":{},"how":"later"}"#;
    assert!(decode::<Record>(unknown_variant).is_err());
    for damaged in [&b""[..], b"{", b"{}", b"[1]", b"{\"name\":1} x"] {
        assert!(decode::<Record>(damaged).is_err());
    }
}
