//! JSON that clients wrote: what is no JSON is refused with its place, what is
//! JSON and something else than it should be with its field.

use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde::de::{DeserializeOwned, DeserializeSeed as _, IgnoredAny};
use serde_json::{Map, Value};
use strata_types::instance::{InstanceSpec, Resources};
use strata_types::{Error, Result};

use super::rejection::{Answer, Rejection};

/// Parses a body.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Answer<T> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| unfit(body, &error.path().to_string(), error.inner()))?;
    reader.end().map_err(|error| no_json(&error))?;
    Ok(value)
}

/// Parses a body as a message of this kind.
pub(super) fn parse_as(body: &[u8], kind: MessageDescriptor) -> Answer<DynamicMessage> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut reader, &mut track);
    let message = kind.deserialize(tracked);
    let message = message.map_err(|error| unfit(body, &track.path().to_string(), &error))?;
    reader.end().map_err(|error| no_json(&error))?;
    Ok(message)
}

fn unfit(body: &[u8], path: &str, error: &serde_json::Error) -> Rejection {
    // What comes after it may be no JSON at all.
    match serde_json::from_slice::<IgnoredAny>(body) {
        Ok(_) if error.is_data() => Rejection::from(at(path, error)),
        Ok(_) => no_json(error),
        Err(error) => no_json(&error),
    }
}

/// Converts an object that was parsed before.
pub(super) fn from_object<T: DeserializeOwned>(object: Map<String, Value>) -> Result<T> {
    serde_path_to_error::deserialize(Value::Object(object))
        .map_err(|error| at(&error.path().to_string(), error.inner()))
}

fn no_json(error: &serde_json::Error) -> Rejection {
    Rejection::unreadable(Error::invalid("body", format!("is no JSON: {error}")))
}

/// The field at fault: where the reader stood, and in it what it names.
fn at(path: &str, error: &serde_json::Error) -> Error {
    let text = error.to_string();
    let named = [
        ("unknown field `", '`'),
        ("missing field `", '`'),
        ("duplicate field `", '`'),
        // Of messages that are known by their descriptor.
        ("unrecognized field name '", '\''),
    ];
    let named = named.iter().find_map(|(begin, end)| {
        let rest = text.strip_prefix(begin)?;
        rest.split_once(*end).map(|(name, _)| name)
    });
    let field = match (path, named) {
        (".", Some(name)) => name.to_owned(),
        (".", None) => "body".to_owned(),
        // Some readers stand before the field that they name, others in it.
        (path, Some(name)) if path == name || path.ends_with(&format!(".{name}")) => path.into(),
        (path, Some(name)) => format!("{path}.{name}"),
        (path, None) => path.to_owned(),
    };
    let field: String = field.chars().take(200).collect();
    let text: String = text.chars().take(500).collect();
    Error::invalid(field, text)
}

/// Takes a text out of an object.
pub(super) fn take_text(object: &mut Map<String, Value>, field: &str) -> Result<Option<String>> {
    match object.remove(field) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Error::invalid(field, "must be a text")),
    }
}

/// The amounts of an object in the one form that records have. Both forms
/// are read: `{cpu, memory, disk}`, and `{max: {…}}` with what is used.
pub(super) fn plain_resources(object: &mut Map<String, Value>) -> Result<()> {
    let Some(Value::Object(resources)) = object.get_mut("resources") else {
        return Ok(());
    };
    let Some(max) = resources.remove("max") else {
        return Ok(());
    };
    if let Some(Value::Object(usage)) = resources.remove("usage") {
        // The usage is measured, whatever the request contains.
        from_object::<Resources>(usage).map_err(|error| within("resources.usage", error))?;
    }
    if !resources.is_empty() {
        let why = "give either cpu, memory and disk, or max with them in it";
        return Err(Error::invalid("resources", why));
    }
    object.insert("resources".into(), max);
    Ok(())
}

fn within(outer: &str, error: Error) -> Error {
    let field = match error.field() {
        None | Some("body") => outer.to_owned(),
        Some(field) => format!("{outer}.{field}"),
    };
    error.in_field(field)
}

/// The specification of an instance, after the rest was taken out.
pub(super) fn spec(mut object: Map<String, Value>) -> Result<InstanceSpec> {
    plain_resources(&mut object)?;
    from_object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn json_error_names_the_field() {
        for (text, field) in [
            (r#"{"uri": 1}"#, "uri"),
            (r#"{"colour": 1}"#, "colour"),
            (r#"{"ports": [1]}"#, "ports[0]"),
            (r#"{"resources": {"cpu": "x"}}"#, "resources.cpu"),
            (r#"{"resources": {"gpu": 1}}"#, "resources.gpu"),
            (r#"{"resources": {"max": {"gpu": 1}}}"#, "resources.gpu"),
            (r#"{"resources": {"max": {}, "cpu": 1}}"#, "resources"),
            (
                r#"{"resources": {"max": {}, "usage": {"cpu": ""}}}"#,
                "resources.usage.cpu",
            ),
            (r#"{"resources": 3}"#, "resources"),
            (
                r#"{"placement": {"spread": [{"skew": 1}]}}"#,
                "placement.spread[0].skew",
            ),
            (r#"{"placement": {"gpus": {}}}"#, "placement.gpus.count"),
            (r#"{"type": "BOX"}"#, "type"),
        ] {
            assert_eq!(
                spec(object(text)).unwrap_err().field(),
                Some(field),
                "{text}"
            );
        }
    }

    #[test]
    fn amounts_are_read_in_both_forms() {
        let plain = spec(object(r#"{"resources": {"cpu": 100, "disk": 2}}"#)).unwrap();
        let claim = r#"{"resources": {"max": {"cpu": 100, "disk": 2}, "usage": {"cpu": 7}}}"#;
        assert_eq!(plain, spec(object(claim)).unwrap());
        assert_eq!((plain.resources.cpu, plain.resources.disk), (100, 2));
    }
}
