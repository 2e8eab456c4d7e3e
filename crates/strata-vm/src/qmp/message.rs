//! What QEMU sends: a greeting, answers, events.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::QmpError;
use crate::Version;

/// Commands as they are sent.
#[derive(Serialize)]
pub(super) struct Outgoing<'a> {
    pub(super) execute: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<&'a Value>,
    pub(super) id: u64,
}

/// A message of QEMU.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    Greeting(Version),
    Returned { id: u64, value: Value },
    Refused { id: u64, class: String, why: String },
    Happened { name: String, data: Value },
}

/// Every field that any message has; which are present determines its kind.
#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "QMP")]
    greeting: Option<Greeting>,
    #[serde(rename = "return")]
    returned: Option<Value>,
    error: Option<Failure>,
    event: Option<String>,
    data: Option<Value>,
    id: Option<u64>,
}

#[derive(Deserialize)]
struct Greeting {
    version: Versions,
}

#[derive(Deserialize)]
struct Versions {
    qemu: Version,
}

#[derive(Deserialize)]
struct Failure {
    class: String,
    desc: String,
}

impl Incoming {
    pub(crate) fn read(line: &[u8]) -> Result<Self, QmpError> {
        let fields: Fields =
            serde_json::from_slice(line).map_err(|error| QmpError::Garbage(error.to_string()))?;
        match fields {
            Fields {
                greeting: Some(greeting),
                ..
            } => Ok(Self::Greeting(greeting.version.qemu)),
            Fields {
                event: Some(name),
                data,
                ..
            } => Ok(Self::Happened {
                name,
                data: data.unwrap_or_default(),
            }),
            Fields {
                returned: Some(value),
                id: Some(id),
                ..
            } => Ok(Self::Returned { id, value }),
            // Without an id when QEMU could not read what we sent: nothing
            // is known then of what it answers.
            Fields {
                error: Some(Failure { class, desc }),
                id: Some(id),
                ..
            } => Ok(Self::Refused {
                id,
                class,
                why: desc,
            }),
            _ => Err(QmpError::Garbage(
                "a message that is neither greeting, answer nor event".into(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn qmp_message_kinds_are_distinguished() {
        let read = |text: &str| Incoming::read(text.as_bytes());
        let greeting = r#"{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7},
            "package": "Debian"}, "capabilities": ["oob"]}}"#;
        let version = Version {
            major: 7,
            minor: 2,
            micro: 22,
        };
        assert_eq!(read(greeting), Ok(Incoming::Greeting(version)));
        let returned = read(r#"{"return": {}, "id": 4}"#).unwrap();
        assert!(matches!(returned, Incoming::Returned { id: 4, .. }));
        let refused = read(r#"{"error": {"class": "X", "desc": "y"}, "id": 5}"#).unwrap();
        assert!(matches!(refused, Incoming::Refused { id: 5, .. }));
        let event = read(r#"{"timestamp": {"seconds": 1}, "event": "STOP"}"#).unwrap();
        assert!(matches!(event, Incoming::Happened { ref name, .. } if name == "STOP"));
        for bad in ["", "{}", "[]", "HTTP/1.1", r#"{"return": {}, "id": "x"}"#] {
            assert!(matches!(read(bad), Err(QmpError::Garbage(_))), "{bad:?}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_not_followed() {
        let deep = format!("{{\"return\": {}", "[".repeat(100_000));
        assert!(matches!(
            Incoming::read(deep.as_bytes()),
            Err(QmpError::Garbage(_))
        ));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Incoming::read(&bytes);
        }
    }
}
