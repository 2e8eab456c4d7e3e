//! Pods: `strata.v1.PodSpec` to and from what is kept.

mod health;
mod security;
mod volume;

use strata_types::pod::{
    PodLimits, PodName, PodNetwork, PodSpec, PodState, PullPolicy, RestartPolicy,
};
use strata_types::{CpuShares, EnvironmentVariable, Error, ExecutableSpec};

use crate::convert::grace_from_field;
use crate::strata::v1;

/// The longest label key or value.
const MAX_LABEL: usize = 256;
const MAX_REFERENCE: usize = 4096;

impl TryFrom<v1::PodSpec> for PodSpec {
    type Error = Error;

    fn try_from(pod: v1::PodSpec) -> Result<Self, Error> {
        if pod.image.is_empty() || pod.image.len() > MAX_REFERENCE {
            return Err(
                Error::invalid("pod.image", "must have 1 to 4096 characters")
                    .with_hint("a reference, oci:PATH or docker-archive:PATH"),
            );
        }
        let spec = Self {
            name: PodName::from_field("pod.name", &pod.name)?,
            pull: pull(pod.pull)?,
            entrypoint: words("pod.entrypoint", pod.entrypoint)?,
            arguments: words("pod.arguments", pod.arguments)?,
            environment: environment("pod.environment", pod.environment)?,
            working_directory: text("pod.working_directory", pod.working_directory)?,
            user: text("pod.user", pod.user)?,
            hostname: hostname(&pod.hostname)?,
            limits: pod.limits.unwrap_or_default().into(),
            cpu_shares: CpuShares::from_field("pod.cpu_shares", pod.cpu_shares)?,
            network: network(pod.network)?,
            address: address("pod.address", &pod.address)?,
            ports: parse_all("pod.ports", &pod.ports)?,
            volumes: volume::from_wire(pod.volumes)?,
            // They come with an assignment.
            secrets: Vec::new(),
            security: security::from_wire(&pod.security.unwrap_or_default())?,
            rlimits: parse_all("pod.rlimits", &pod.rlimits)?,
            sysctls: parse_all("pod.sysctls", &pod.sysctls)?,
            health: pod.health.map(health::from_wire).transpose()?,
            restart: restart("pod.restart", pod.restart)?,
            stop_grace: match pod.stop_grace_ms {
                Some(ms) => grace_from_field("pod.stop_grace_ms", ms)?,
                None => ExecutableSpec::default_grace(),
            },
            stdin: pod.stdin,
            terminal: pod.terminal,
            no_image_health: pod.no_image_health,
            init: pod.init.unwrap_or(PodSpec::default_init()),
            labels: pod.labels.into_iter().collect(),
            aliases: parse_all("pod.aliases", &pod.aliases)?,
            volume_bytes: pod.volume_bytes,
            image: pod.image,
        };
        check_labels("pod.labels", &spec.labels)?;
        spec.check()?;
        Ok(spec)
    }
}

impl From<&PodSpec> for v1::PodSpec {
    fn from(spec: &PodSpec) -> Self {
        Self {
            name: spec.name.to_string(),
            image: spec.image.clone(),
            pull: match spec.pull {
                PullPolicy::Missing => v1::PullPolicy::Missing,
                PullPolicy::Always => v1::PullPolicy::Always,
                PullPolicy::Never => v1::PullPolicy::Never,
            }
            .into(),
            entrypoint: spec.entrypoint.clone().unwrap_or_default(),
            arguments: spec.arguments.clone().unwrap_or_default(),
            environment: spec
                .environment
                .iter()
                .map(|v| v.as_str().to_owned())
                .collect(),
            working_directory: spec.working_directory.clone().unwrap_or_default(),
            user: spec.user.clone().unwrap_or_default(),
            hostname: spec
                .hostname
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            limits: Some((&spec.limits).into()),
            cpu_shares: spec.cpu_shares.get(),
            network: match spec.network {
                PodNetwork::Bridge => v1::PodNetwork::Bridge,
                PodNetwork::Host => v1::PodNetwork::Host,
                PodNetwork::Isolated => v1::PodNetwork::Isolated,
            }
            .into(),
            address: spec.address.map(|a| a.to_string()).unwrap_or_default(),
            ports: spec.ports.iter().map(ToString::to_string).collect(),
            volumes: volume::to_wire(&spec.volumes),
            security: Some(security::to_wire(&spec.security)),
            rlimits: spec.rlimits.iter().map(ToString::to_string).collect(),
            sysctls: spec.sysctls.iter().map(ToString::to_string).collect(),
            health: spec.health.as_ref().map(health::to_wire),
            restart: restart_to_wire(spec.restart).into(),
            stop_grace_ms: u32::try_from(spec.stop_grace.as_millis()).ok(),
            stdin: spec.stdin,
            terminal: spec.terminal,
            no_image_health: spec.no_image_health,
            init: (spec.init != PodSpec::default_init()).then_some(spec.init),
            labels: spec.labels.clone().into_iter().collect(),
            aliases: spec.aliases.iter().map(ToString::to_string).collect(),
            volume_bytes: spec.volume_bytes,
        }
    }
}

impl From<v1::PodLimits> for PodLimits {
    fn from(limits: v1::PodLimits) -> Self {
        Self {
            cpu_millis: limits.cpu_millis,
            memory_bytes: limits.memory_bytes,
            disk_bytes: limits.disk_bytes,
            pids: limits.pids,
        }
    }
}

impl From<&PodLimits> for v1::PodLimits {
    fn from(limits: &PodLimits) -> Self {
        Self {
            cpu_millis: limits.cpu_millis,
            memory_bytes: limits.memory_bytes,
            disk_bytes: limits.disk_bytes,
            pids: limits.pids,
        }
    }
}

impl From<PodState> for v1::PodState {
    fn from(state: PodState) -> Self {
        match state {
            PodState::Created => Self::Created,
            PodState::Starting => Self::Starting,
            PodState::Running => Self::Running,
            PodState::Stopping => Self::Stopping,
            PodState::Stopped => Self::Stopped,
            PodState::Waiting => Self::Waiting,
            PodState::Exited => Self::Exited,
            PodState::Failed => Self::Failed,
            PodState::Destroying => Self::Destroying,
        }
    }
}

/// Reads a restart policy from the field `field`.
pub fn restart(field: &str, number: i32) -> Result<RestartPolicy, Error> {
    match v1::RestartPolicy::try_from(number) {
        Ok(v1::RestartPolicy::OnFailure) => Ok(RestartPolicy::OnFailure),
        Ok(v1::RestartPolicy::Always) => Ok(RestartPolicy::Always),
        Ok(v1::RestartPolicy::Never) => Ok(RestartPolicy::Never),
        Err(_) => Err(unknown(field, number)),
    }
}

/// A restart policy on the wire.
pub fn restart_to_wire(policy: RestartPolicy) -> v1::RestartPolicy {
    match policy {
        RestartPolicy::OnFailure => v1::RestartPolicy::OnFailure,
        RestartPolicy::Always => v1::RestartPolicy::Always,
        RestartPolicy::Never => v1::RestartPolicy::Never,
    }
}

fn pull(number: i32) -> Result<PullPolicy, Error> {
    match v1::PullPolicy::try_from(number) {
        Ok(v1::PullPolicy::Missing) => Ok(PullPolicy::Missing),
        Ok(v1::PullPolicy::Always) => Ok(PullPolicy::Always),
        Ok(v1::PullPolicy::Never) => Ok(PullPolicy::Never),
        Err(_) => Err(unknown("pod.pull", number)),
    }
}

fn network(number: i32) -> Result<PodNetwork, Error> {
    match v1::PodNetwork::try_from(number) {
        Ok(v1::PodNetwork::Bridge) => Ok(PodNetwork::Bridge),
        Ok(v1::PodNetwork::Host) => Ok(PodNetwork::Host),
        Ok(v1::PodNetwork::Isolated) => Ok(PodNetwork::Isolated),
        Err(_) => Err(unknown("pod.network", number)),
    }
}

fn unknown(field: &str, number: i32) -> Error {
    Error::invalid(field, format!("{number} is not a known value"))
}

/// A list that is empty when it is not given.
fn words(field: &str, words: Vec<String>) -> Result<Option<Vec<String>>, Error> {
    if words.iter().any(|word| word.contains('\0')) {
        return Err(Error::invalid(field, "has a NUL character in it"));
    }
    if words.first().is_some_and(String::is_empty) && field == "pod.entrypoint" {
        return Err(Error::invalid(
            field,
            "its first word, the program, is empty",
        ));
    }
    Ok((!words.is_empty()).then_some(words))
}

/// Reads variables from the field `field`.
pub fn environment(field: &str, list: Vec<String>) -> Result<Vec<EnvironmentVariable>, Error> {
    if list.len() > EnvironmentVariable::MAX_COUNT {
        let why = format!("has {} entries; the maximum is 100", list.len());
        return Err(Error::invalid(field, why));
    }
    let read = |(i, text): (usize, String)| {
        EnvironmentVariable::try_from(text).map_err(|why| why.in_field(format!("{field}[{i}]")))
    };
    list.into_iter().enumerate().map(read).collect()
}

fn text(field: &str, text: String) -> Result<Option<String>, Error> {
    if text.contains('\0') || text.len() >= 4096 {
        return Err(Error::invalid(
            field,
            "is longer than 4095 bytes or has a NUL in it",
        ));
    }
    Ok((!text.is_empty()).then_some(text))
}

fn hostname(text: &str) -> Result<Option<strata_types::Label>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let label = text.parse::<strata_types::Label>();
    label
        .map(Some)
        .map_err(|why| Error::invalid("pod.hostname", why.to_string()))
}

/// Reads an address from the field `field`; none when it is empty.
pub fn address(field: &str, text: &str) -> Result<Option<std::net::Ipv4Addr>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let shown: String = text.chars().take(40).collect();
    let bad = |_: std::net::AddrParseError| {
        Error::invalid(field, format!("{shown:?} is not an IPv4 address"))
    };
    text.parse().map(Some).map_err(bad)
}

/// Reads a list of texts from the field `field`.
pub fn parse_all<T>(field: &str, list: &[String]) -> Result<Vec<T>, Error>
where
    T: std::str::FromStr<Err = String>,
{
    if list.len() > PodSpec::MAX_ENTRIES {
        let why = format!(
            "has {} entries; the maximum is {}",
            list.len(),
            PodSpec::MAX_ENTRIES
        );
        return Err(Error::invalid(field, why));
    }
    let read = |(i, text): (usize, &String)| {
        text.parse()
            .map_err(|why| Error::invalid(format!("{field}[{i}]"), why))
    };
    list.iter().enumerate().map(read).collect()
}

/// Refuses labels that nobody could read.
pub fn check_labels(
    field: &str,
    labels: &std::collections::BTreeMap<String, String>,
) -> Result<(), Error> {
    let bad = |text: &str| text.len() > MAX_LABEL || text.chars().any(char::is_control);
    match labels
        .iter()
        .find(|(key, value)| key.is_empty() || bad(key) || bad(value))
    {
        Some(_) => Err(Error::invalid(
            field,
            "keys must have 1 to 256 bytes and values at most as many, without control characters",
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
