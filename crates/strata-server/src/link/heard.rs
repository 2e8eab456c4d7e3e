//! What nodes say, as the core takes it: checked and bounded.

use std::collections::BTreeMap;
use std::net::IpAddr;

use strata_api::strata::v1::{self, Hello, InstanceReport};
use strata_types::pod::PodState;
use strata_types::{Error, Result};

use crate::core::{Report, Seen, Told};

/// What a node tells of itself.
pub(super) fn seen(hello: Hello, remote: Option<IpAddr>) -> Result<Seen> {
    let capacity = hello
        .capacity
        .ok_or_else(|| Error::invalid("hello.capacity", "is missing"))?;
    let address = match hello.address.as_str() {
        // From this very machine: no other node could send anything there.
        "" if remote.is_none_or(|ip| ip.is_loopback()) => None,
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
    Ok(Seen {
        address,
        version: Some(hello.version.chars().take(64).collect()),
        labels: Some(labels.collect()),
        capacity: Some((capacity.cpu, capacity.memory, capacity.disk)),
        gpus: Some(gpus),
        runs_vms: Some(hello.runs_vms),
        pool: Some(pool(&hello.pool)),
        follows: Some(true),
        fails: None,
    })
}

/// The id of the pool that a node says it reaches; what is no id is none.
pub(super) fn pool(told: &str) -> String {
    let is_id = told.len() <= 128 && told.chars().all(|c| c.is_ascii_graphic());
    if is_id {
        told.to_owned()
    } else {
        String::new()
    }
}

/// What a node tells of an instance.
pub(super) fn report(told: &InstanceReport) -> Result<Report> {
    let state = match told.state() {
        v1::PodState::Unspecified => Told::Gone,
        state => {
            let known = |pod: &&PodState| v1::PodState::from(**pod) == state;
            let found = PodState::ALL.iter().find(known);
            let found = found.ok_or_else(|| Error::invalid("report.state", "is unknown"))?;
            Told::Pod(*found)
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
        told: state,
        reason,
        address: told.address.parse().ok(),
        restarts: Some(told.restarts),
        exit_code: told.exit_code,
        healthy,
    })
}
