//! Files that list machines: YAML, JSON or TOML, a list as it is or under
//! `machines`. Sizes are numbers in the units of the API, so that what a
//! server told can be told again, or texts with a unit, as people write them.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use strata_api::rest::{MachineSpec, NewMachine};
use strata_types::Label;

use crate::failure::{Exit, Failure, Result};
use crate::values::{Bytes, plain_documents, text_of};

/// The unit of memory in the API.
pub(super) fn megabytes(Bytes(n): Bytes) -> u64 {
    n.div_ceil(1_000_000)
}

/// The unit of disks in the API.
pub(super) fn gigabytes(Bytes(n): Bytes) -> u64 {
    n.div_ceil(1_000_000_000)
}

/// The machines of a file; `-` is stdin.
pub(super) fn read(file: &Path, input: &mut dyn Read) -> Result<Vec<NewMachine>> {
    let refuse = |why: String| {
        let what = format!("{} is not an inventory", file.display());
        Failure::new(Exit::Usage, what)
            .because(why)
            .hint("write a list of machines, each with `id` and `provider`")
    };
    let documents = match file.extension().is_some_and(|end| end == "toml") {
        true => {
            let text = text_of(file, input)?;
            let document = toml::from_str::<Value>(&text);
            vec![document.map_err(|why| refuse(why.message().to_owned()))?]
        }
        false => plain_documents(file, input)?,
    };
    machines(documents).map_err(refuse)
}

fn machines(documents: Vec<Value>) -> std::result::Result<Vec<NewMachine>, String> {
    let mut found = Vec::new();
    let mut ids = BTreeSet::new();
    for value in documents.into_iter().flat_map(listed) {
        let at = found.len() + 1;
        let one = machine(value).map_err(|why| format!("machine {at}: {why}"))?;
        if !ids.insert(one.id.clone()) {
            return Err(format!("machine {at}: {} is listed twice", one.id));
        }
        found.push(one);
    }
    match found.is_empty() {
        true => Err("it lists no machines".to_owned()),
        false => Ok(found),
    }
}

/// What a document lists: itself, what is under `machines` or, as in the file
/// of a server, under `machine`; or one machine.
fn listed(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Array(several) => several,
        Value::Object(mut fields) if fields.len() == 1 => {
            for name in ["machines", "machine"] {
                if let Some(Value::Array(several)) = fields.get_mut(name) {
                    return std::mem::take(several);
                }
            }
            vec![Value::Object(fields)]
        }
        other => vec![other],
    }
}

fn machine(value: Value) -> std::result::Result<NewMachine, String> {
    let Value::Object(mut fields) = value else {
        return Err("is not a machine; write `id`, `provider` and its other fields".to_owned());
    };
    let id = fields.remove("id").ok_or("id: is missing")?;
    let id: Label = read_at("id", id)?;
    size(&mut fields, "ram", megabytes)?;
    size(&mut fields, "disk", gigabytes)?;
    let spec: MachineSpec = read_at("", Value::Object(fields))?;
    let id = id.into();
    Ok(NewMachine { id, spec })
}

/// Turns a text with a unit into the number that the API takes.
fn size(
    fields: &mut Map<String, Value>,
    key: &str,
    units: fn(Bytes) -> u64,
) -> std::result::Result<(), String> {
    if let Some(Value::String(text)) = fields.get(key) {
        let bytes: Bytes = text.parse().map_err(|why| format!("{key}: {why}"))?;
        fields.insert(key.to_owned(), units(bytes).into());
    }
    Ok(())
}

/// Parses a value; errors name the path.
fn read_at<T: DeserializeOwned>(key: &str, value: Value) -> std::result::Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|why| {
        let path = why.path().to_string();
        match (key, path.as_str()) {
            ("", ".") => why.inner().to_string(),
            ("", path) => format!("{path}: {}", why.inner()),
            (key, _) => format!("{key}: {}", why.inner()),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use strata_api::rest::ProviderKind;

    use super::*;

    #[test]
    fn lists_are_read_wherever_they_stand() {
        let one = json!({"id": "m1", "provider": "local", "ram": "4GB", "disk": 20});
        for document in [json!([one]), json!({"machines": [one]}), one.clone()] {
            let found = machines(vec![document]).unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].id, "m1");
            assert_eq!(found[0].spec.provider, ProviderKind::Local);
            assert_eq!(
                (found[0].spec.ram, found[0].spec.disk),
                (Some(4000), Some(20))
            );
        }
    }

    #[test]
    fn unknown_fields_are_reported_with_their_position() {
        let why = |value: Value| machines(vec![value]).unwrap_err();
        let ok = json!({"id": "m1", "provider": "sim"});
        insta::assert_snapshot!(why(json!([ok, {"id": "m2", "provder": "sim"}])), @r#"machine 2: provder: unknown field `provder`, expected one of `provider`, `handle`, `address`, `credentials`, `cpu`, `ram`, `disk`, `labels`"#);
        insta::assert_snapshot!(why(json!([{"provider": "sim"}])), @r#"machine 1: id: is missing"#);
        insta::assert_snapshot!(why(json!([{"id": "M", "provider": "sim"}])), @r#"machine 1: id: has 'M' in it; only a-z, 0-9 and - are allowed"#);
        insta::assert_snapshot!(why(json!([{"id": "m", "provider": "aws"}])), @r#"machine 1: provider: unknown variant `aws`, expected one of `local`, `qemu`, `redfish`, `maas`, `sim`"#);
        insta::assert_snapshot!(why(json!([{"id": "m", "provider": "sim", "ram": "much"}])), @r#"machine 1: ram: "much" is not a size; write a number with a unit, e.g. 64MiB, 64MB or 4096"#);
        insta::assert_snapshot!(why(json!([ok, ok])), @r#"machine 2: m1 is listed twice"#);
        insta::assert_snapshot!(why(json!([3])), @r#"machine 1: is not a machine; write `id`, `provider` and its other fields"#);
        insta::assert_snapshot!(why(json!([])), @r#"it lists no machines"#);
    }
}
