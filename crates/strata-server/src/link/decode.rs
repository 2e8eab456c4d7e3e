//! Messages of nodes, as the core takes them: checked and bounded.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use strata_api::strata::v1::{self, Hello, InstanceReport};
use strata_types::pod::PodState;
use strata_types::{Error, Result};

use crate::core::{NodeFacts, OverlayEncryption, Report, ReportedState};

/// The length of a public key.
const WIREGUARD_KEY_BYTES: usize = 32;

/// What a node reports itself.
pub(super) fn node_facts(hello: Hello, remote: Option<IpAddr>) -> Result<NodeFacts> {
    let capacity = hello
        .capacity
        .ok_or_else(|| Error::invalid("hello.capacity", "is missing"))?;
    let beside_server = hello.address.is_empty() && remote.is_none_or(|ip| ip.is_loopback());
    let address = match hello.address.as_str() {
        // From this very host: no other node could send anything there. Each
        // reaches it where it reaches this server.
        "" if beside_server => None,
        "" => remote.map(|ip| ip.to_string()),
        given => {
            let parsed: IpAddr = given
                .parse()
                .map_err(|_| Error::invalid("hello.address", "is no IP address"))?;
            Some(parsed.to_string())
        }
    };
    if hello.labels.len() > 100 || hello.gpus.len() > 100 {
        return Err(Error::invalid("hello", "has more than 100 labels or GPUs"));
    }
    let labels = hello
        .labels
        .into_iter()
        .filter(|(key, value)| !key.is_empty() && key.len() <= 128 && value.len() <= 256);
    let gpus: BTreeMap<String, u32> = hello
        .gpus
        .into_iter()
        .map(|gpus| (gpus.kind.chars().take(128).collect(), gpus.count))
        .collect();
    Ok(NodeFacts {
        address,
        address_proven: None,
        beside_server: Some(beside_server),
        version: Some(hello.version.chars().take(64).collect()),
        labels: Some(labels.collect()),
        label_trust: None,
        capacity: Some((capacity.cpu, capacity.memory, capacity.disk)),
        gpus: Some(gpus),
        runs_vms: Some(hello.runs_vms),
        pool: Some(pool(&hello.pool)),
        overlay: Some(overlay(hello.overlay_encryption)),
        follows: Some(true),
        holds_leases: Some(hello.holds_leases),
        lease_ms: None,
        witness_port: Some(u16::try_from(hello.witness_port).unwrap_or(0)),
        served_at: None,
        reported: None,
    })
}

/// How a node encrypts the overlay. What is no key is none.
fn overlay(told: Option<v1::OverlayEncryption>) -> OverlayEncryption {
    let Some(told) = told else {
        return OverlayEncryption::default();
    };
    let port = u16::try_from(told.wireguard_port).unwrap_or(0);
    let is_key = told.wireguard_key.len() == WIREGUARD_KEY_BYTES
        && told.wireguard_key.iter().any(|byte| *byte != 0);
    if is_key && port != 0 {
        return OverlayEncryption {
            key: STANDARD.encode(&told.wireguard_key),
            port,
            unencrypted_reason: String::new(),
        };
    }
    let plain = told.unencrypted_reason.chars().filter(|c| !c.is_control());
    let reason: String = plain.take(200).collect();
    OverlayEncryption {
        unencrypted_reason: match reason.is_empty() {
            true => "its key is not valid".to_owned(),
            false => reason,
        },
        ..OverlayEncryption::default()
    }
}

/// The id of the pool that a node reports to reach; what is no id is none.
pub(super) fn pool(told: &str) -> String {
    let is_id = told.len() <= 128 && told.chars().all(|c| c.is_ascii_graphic());
    if is_id {
        told.to_owned()
    } else {
        String::new()
    }
}

/// What a node reports an instance.
pub(super) fn report(told: &InstanceReport) -> Result<Report> {
    let state = match told.state() {
        v1::PodState::Unspecified => ReportedState::Gone,
        state => {
            let known = |pod: &&PodState| v1::PodState::from(**pod) == state;
            let found = PodState::ALL.iter().find(known);
            let found = found.ok_or_else(|| Error::invalid("report.state", "is unknown"))?;
            ReportedState::Pod(*found)
        }
    };
    let healthy = match told.health() {
        v1::PodHealth::Healthy => Some(true),
        v1::PodHealth::Unhealthy => Some(false),
        v1::PodHealth::Unspecified | v1::PodHealth::Starting => None,
    };
    let reason = match told.out_of_memory {
        true if told.reason.is_empty() => "out of memory".to_owned(),
        _ => told.reason.clone(),
    };
    Ok(Report {
        id: told.id.parse()?,
        generation: Some(told.generation),
        epoch: told.epoch,
        told: state,
        reason,
        address: told.address.parse().ok(),
        restarts: Some(told.restarts),
        exit_code: told.exit_code,
        healthy,
        given_up_at_start: told.given_up_at_start,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;

    /// A field of a message on the wire: mostly texts and messages.
    fn field() -> impl Strategy<Value = Vec<u8>> {
        let text = (1_u8..16, prop::collection::vec(any::<u8>(), 0..40));
        let text = text.prop_map(|(number, bytes)| {
            let length = u8::try_from(bytes.len()).unwrap();
            [&[number << 3 | 2, length][..], &bytes].concat()
        });
        let number = (1_u8..16, 0_u8..128).prop_map(|(number, value)| vec![number << 3, value]);
        prop_oneof![text, number, prop::collection::vec(any::<u8>(), 0..8)]
    }

    proptest! {
        #[test]
        fn whatever_a_node_sends_is_refused_or_within_bounds(
            fields in prop::collection::vec(field(), 0..24),
        ) {
            let bytes = fields.concat();
            if let Ok(hello) = Hello::decode(&*bytes)
                && let Ok(facts) = node_facts(hello, None)
            {
                let labels = facts.labels.unwrap_or_default();
                prop_assert!(labels.len() <= 100);
                prop_assert!(labels.iter().all(|(k, v)| k.len() <= 128 && v.len() <= 256));
                prop_assert!(facts.version.unwrap_or_default().chars().count() <= 64);
                prop_assert!(facts.pool.unwrap_or_default().len() <= 128);
                let address = facts.address.unwrap_or_default();
                prop_assert!(address.is_empty() || address.parse::<IpAddr>().is_ok());
                let overlay = facts.overlay.unwrap_or_default();
                prop_assert!(overlay.key.is_empty() || overlay.port != 0);
                prop_assert!(overlay.unencrypted_reason.chars().count() <= 200);
            }
            if let Ok(told) = InstanceReport::decode(&*bytes) {
                let _ = report(&told);
            }
        }
    }
}
