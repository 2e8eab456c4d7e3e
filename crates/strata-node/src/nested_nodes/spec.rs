//! The specification of a machine.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use strata_api::pod_fields;
use strata_api::strata::v1;
use strata_client::Address;
use strata_identity::JoinToken;
use strata_types::{Error, Label, Result};

/// A node alone takes half of this.
const MIN_MEMORY: u64 = 64 << 20;
/// A quota of the kernel is at least one millisecond of a hundred.
const MIN_CPU_MILLIS: u32 = 10;

/// The specification of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NestedNodeSpec {
    pub(crate) name: Label,
    pub(crate) cpu_millis: Option<u32>,
    pub(crate) memory: Option<u64>,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) join: Option<Join>,
    pub(crate) labels: BTreeMap<String, String>,
}

/// The server that a machine joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Join {
    pub(crate) server: String,
    pub(crate) token: Secret,
    /// The name of its node there; the machine's own by default.
    #[serde(default)]
    pub(crate) node: Option<Label>,
}

/// A text that is not for printing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl TryFrom<v1::MachineSpec> for NestedNodeSpec {
    type Error = Error;

    fn try_from(spec: v1::MachineSpec) -> Result<Self> {
        let name = spec.name.parse().map_err(|why| {
            let text: String = spec.name.chars().take(80).collect();
            Error::invalid("machine.name", format!("{text:?} {why}"))
        })?;
        if spec.cpu_millis.is_some_and(|n| n < MIN_CPU_MILLIS) {
            return Err(Error::invalid(
                "machine.cpu_millis",
                format!("{MIN_CPU_MILLIS} is the least"),
            ));
        }
        if spec.memory_bytes.is_some_and(|n| n < MIN_MEMORY) {
            return Err(Error::invalid(
                "machine.memory_bytes",
                format!("{MIN_MEMORY} (64 MiB) is the least that a node runs in"),
            ));
        }
        let unit_spec = Self {
            name,
            cpu_millis: spec.cpu_millis,
            memory: spec.memory_bytes,
            address: pod_fields::address("machine.address", &spec.address)?,
            join: join(spec.server, spec.join_token, &spec.node_name)?,
            labels: spec.labels.into_iter().collect(),
        };
        pod_fields::check_labels("machine.labels", &unit_spec.labels)?;
        Ok(unit_spec)
    }
}

fn join(server: String, token: String, node: &str) -> Result<Option<Join>> {
    match (server.is_empty(), token.is_empty()) {
        (true, true) if node.is_empty() => return Ok(None),
        (true, true) => {
            let why = "is for a machine that joins a server";
            return Err(Error::invalid("machine.node_name", why));
        }
        (true, false) => {
            return Err(Error::invalid(
                "machine.server",
                "is missing: a token joins one",
            ));
        }
        (false, true) => {
            return Err(Error::invalid("machine.join_token", "is missing")
                .with_hint("make one on the server: strata token create --join"));
        }
        (false, false) => {}
    }
    match server.parse::<Address>() {
        Ok(Address::Https(_)) => {}
        Ok(Address::Unix(_)) => {
            let why = "is a socket of this machine; https://HOST:PORT is expected";
            return Err(Error::invalid("machine.server", why));
        }
        Err(why) => return Err(Error::invalid("machine.server", why.to_string())),
    }
    if JoinToken::parse(&token).is_none() {
        return Err(Error::invalid("machine.join_token", "is not a join token"));
    }
    let node = match node {
        "" => None,
        name => Some(name.parse().map_err(|why| {
            let text: String = name.chars().take(80).collect();
            Error::invalid("machine.node_name", format!("{text:?} {why}"))
        })?),
    };
    let token = Secret(token);
    Ok(Some(Join {
        server,
        token,
        node,
    }))
}

/// Without its join credentials, which no reader needs any more.
impl From<&NestedNodeSpec> for v1::MachineSpec {
    fn from(unit_spec: &NestedNodeSpec) -> Self {
        Self {
            name: unit_spec.name.to_string(),
            cpu_millis: unit_spec.cpu_millis,
            memory_bytes: unit_spec.memory,
            address: unit_spec.address.map(|a| a.to_string()).unwrap_or_default(),
            server: unit_spec
                .join
                .as_ref()
                .map(|j| j.server.clone())
                .unwrap_or_default(),
            join_token: String::new(),
            node_name: unit_spec
                .join
                .as_ref()
                .and_then(|j| j.node.as_ref().map(ToString::to_string))
                .unwrap_or_default(),
            labels: unit_spec.labels.clone().into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> v1::MachineSpec {
        v1::MachineSpec {
            name: name.into(),
            ..v1::MachineSpec::default()
        }
    }

    fn field_of(spec: v1::MachineSpec) -> String {
        let error = NestedNodeSpec::try_from(spec).unwrap_err();
        error.field().unwrap_or_default().to_owned()
    }

    #[test]
    fn invalid_nested_node_spec_names_its_field() {
        assert_eq!(field_of(named("A b")), "machine.name");
        let spec = named("a");
        let little = Some(1);
        assert_eq!(
            field_of(v1::MachineSpec {
                memory_bytes: little.map(u64::from),
                ..spec.clone()
            }),
            "machine.memory_bytes"
        );
        assert_eq!(
            field_of(v1::MachineSpec {
                cpu_millis: little,
                ..spec.clone()
            }),
            "machine.cpu_millis"
        );
        assert_eq!(
            field_of(v1::MachineSpec {
                address: "here".into(),
                ..spec.clone()
            }),
            "machine.address"
        );
        assert_eq!(
            field_of(v1::MachineSpec {
                server: "https://a:1".into(),
                ..spec.clone()
            }),
            "machine.join_token"
        );
        let token = "strata_join_x".to_owned();
        assert_eq!(
            field_of(v1::MachineSpec {
                join_token: token.clone(),
                ..spec.clone()
            }),
            "machine.server"
        );
        let server = "https://a:1".to_owned();
        assert_eq!(
            field_of(v1::MachineSpec {
                server,
                join_token: token,
                ..spec
            }),
            "machine.join_token"
        );
    }

    #[test]
    fn a_token_is_not_shown() {
        let join = Join {
            server: "https://a:1".into(),
            token: Secret("strata_join_x".into()),
            node: None,
        };
        assert!(!format!("{join:?}").contains("strata_join_x"));
        let mut unit_spec = NestedNodeSpec::try_from(named("a")).unwrap();
        unit_spec.join = Some(join);
        let shown = v1::MachineSpec::from(&unit_spec);
        assert_eq!(
            (shown.server.as_str(), shown.join_token.as_str()),
            ("https://a:1", "")
        );
    }
}
