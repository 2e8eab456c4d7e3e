//! What a pod is asked to be, as it is printed and as it is written down in
//! files: one shape for both, so that what was printed can be made again.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use strata_api::strata::v1;
use strata_api::strata::v1::health_check::Probe;

use super::text;
use crate::values::{Bytes, HttpProbeArg, Millicpus, Span, TmpfsArg, VolumeArg};

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What a pod is asked to be. What is left out is as the image says, or not
/// limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PodSpecView {
    pub(crate) name: String,
    pub(crate) image: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) pull: Pull,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) entrypoint: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) arguments: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) environment: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) working_directory: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) user: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) hostname: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) limits: PodLimitsView,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) cpu_shares: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) network: Network,
    /// The address it wants; the one it got is in its status.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) address: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) ports: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) volumes: Vec<VolumeArg>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) tmpfs: Vec<TmpfsArg>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) security: SecurityView,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) ulimits: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) sysctls: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) health: Option<HealthView>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) restart: Restart,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) stop_grace: Option<Span>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) stdin: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) terminal: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) no_image_health: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) init: Option<bool>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) labels: BTreeMap<String, String>,
    /// Further names by which others on the node find it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) aliases: Vec<String>,
    /// No wish but an observation: read over.
    #[serde(default, skip_serializing, rename = "status")]
    pub(crate) _status: IgnoredAny,
}

/// Image pull policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pull {
    /// If the node does not have the image.
    #[default]
    Missing,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Network of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Network {
    /// An address on the node's bridge.
    #[default]
    Bridge,
    /// The host network.
    Host,
    /// Loopback only.
    Isolated,
}

/// Restart policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Restart {
    /// Restarted unless it exited with 0.
    #[default]
    OnFailure,
    /// Always restarted.
    Always,
    /// Never restarted.
    Never,
}

impl Restart {
    pub(crate) fn from_wire(restart: v1::RestartPolicy) -> Self {
        match restart {
            v1::RestartPolicy::OnFailure => Self::OnFailure,
            v1::RestartPolicy::Always => Self::Always,
            v1::RestartPolicy::Never => Self::Never,
        }
    }

    pub(crate) fn into_wire(self) -> v1::RestartPolicy {
        match self {
            Self::OnFailure => v1::RestartPolicy::OnFailure,
            Self::Always => v1::RestartPolicy::Always,
            Self::Never => v1::RestartPolicy::Never,
        }
    }
}

/// How much of the machine it may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PodLimitsView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpus: Option<Millicpus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pids: Option<u64>,
}

impl From<v1::PodLimits> for PodLimitsView {
    fn from(limits: v1::PodLimits) -> Self {
        Self {
            cpus: limits.cpu_millis.map(Millicpus),
            memory: limits.memory_bytes.map(Bytes),
            disk: limits.disk_bytes.map(Bytes),
            pids: limits.pids,
        }
    }
}

/// What it may do beyond, or not even.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SecurityView {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) drop_capabilities: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) add_capabilities: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) any_system_call: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) privilege_escalation: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) read_only_root: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) user_namespace: Option<bool>,
}

/// How it is asked whether it works: one of the first three.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HealthView {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) exec: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) http: Option<HttpProbeArg>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) tcp: Option<u16>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) interval: Option<Span>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) timeout: Option<Span>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) retries: Option<u32>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) start_period: Option<Span>,
}

impl HealthView {
    fn from_wire(health: v1::HealthCheck) -> Self {
        let mut view = Self {
            interval: health.interval_ms.map(Span::from_millis),
            timeout: health.timeout_ms.map(Span::from_millis),
            retries: health.retries,
            start_period: health.start_period_ms.map(Span::from_millis),
            ..Default::default()
        };
        match health.probe {
            Some(Probe::Exec(probe)) => view.exec = probe.command,
            Some(Probe::Http(probe)) => view.http = HttpProbeArg::from_wire(&probe),
            Some(Probe::Tcp(probe)) => view.tcp = u16::try_from(probe.port).ok(),
            None => {}
        }
        view
    }

    fn into_wire(self) -> v1::HealthCheck {
        let tcp = self.tcp.map(|port| v1::TcpProbe { port: port.into() });
        let http = self.http.map(HttpProbeArg::into_wire);
        let command = self.exec;
        let exec = (!command.is_empty()).then_some(v1::ExecProbe { command });
        v1::HealthCheck {
            probe: exec
                .map(Probe::Exec)
                .or(http.map(Probe::Http))
                .or(tcp.map(Probe::Tcp)),
            interval_ms: self.interval.map(Span::millis_u32),
            timeout_ms: self.timeout.map(Span::millis_u32),
            retries: self.retries,
            start_period_ms: self.start_period.map(Span::millis_u32),
        }
    }
}

impl From<v1::PodSpec> for PodSpecView {
    fn from(spec: v1::PodSpec) -> Self {
        let pull = match spec.pull() {
            v1::PullPolicy::Missing => Pull::Missing,
            v1::PullPolicy::Always => Pull::Always,
            v1::PullPolicy::Never => Pull::Never,
        };
        let network = match spec.network() {
            v1::PodNetwork::Bridge => Network::Bridge,
            v1::PodNetwork::Host => Network::Host,
            v1::PodNetwork::Isolated => Network::Isolated,
        };
        let restart = Restart::from_wire(spec.restart());
        let security = spec.security.unwrap_or_default();
        Self {
            name: spec.name,
            image: spec.image,
            pull,
            entrypoint: spec.entrypoint,
            arguments: spec.arguments,
            environment: spec.environment,
            working_directory: text(spec.working_directory),
            user: text(spec.user),
            hostname: text(spec.hostname),
            limits: spec.limits.unwrap_or_default().into(),
            cpu_shares: spec.cpu_shares,
            network,
            address: text(spec.address),
            ports: spec.ports,
            volumes: spec
                .volumes
                .iter()
                .filter_map(VolumeArg::from_wire)
                .collect(),
            tmpfs: spec
                .volumes
                .iter()
                .filter_map(TmpfsArg::from_wire)
                .collect(),
            security: SecurityView {
                drop_capabilities: security.drop_capabilities,
                add_capabilities: security.add_capabilities,
                any_system_call: security.any_system_call,
                privilege_escalation: security.privilege_escalation,
                read_only_root: security.read_only_root,
                user_namespace: security.user_namespace,
            },
            ulimits: spec.rlimits,
            sysctls: spec.sysctls,
            health: spec.health.map(HealthView::from_wire),
            restart,
            stop_grace: spec.stop_grace_ms.map(Span::from_millis),
            stdin: spec.stdin,
            terminal: spec.terminal,
            no_image_health: spec.no_image_health,
            init: spec.init,
            labels: spec.labels.into_iter().collect(),
            aliases: spec.aliases,
            _status: IgnoredAny,
        }
    }
}

impl From<PodSpecView> for v1::PodSpec {
    fn from(view: PodSpecView) -> Self {
        let limits = v1::PodLimits {
            cpu_millis: view.limits.cpus.map(|Millicpus(n)| n),
            memory_bytes: view.limits.memory.map(|Bytes(n)| n),
            disk_bytes: view.limits.disk.map(|Bytes(n)| n),
            pids: view.limits.pids,
        };
        let volumes = view.volumes.into_iter().map(VolumeArg::into_wire);
        let tmpfs = view.tmpfs.into_iter().map(TmpfsArg::into_wire);
        Self {
            name: view.name,
            image: view.image,
            pull: match view.pull {
                Pull::Missing => v1::PullPolicy::Missing,
                Pull::Always => v1::PullPolicy::Always,
                Pull::Never => v1::PullPolicy::Never,
            }
            .into(),
            entrypoint: view.entrypoint,
            arguments: view.arguments,
            environment: view.environment,
            working_directory: view.working_directory.unwrap_or_default(),
            user: view.user.unwrap_or_default(),
            hostname: view.hostname.unwrap_or_default(),
            limits: Some(limits),
            cpu_shares: view.cpu_shares,
            network: match view.network {
                Network::Bridge => v1::PodNetwork::Bridge,
                Network::Host => v1::PodNetwork::Host,
                Network::Isolated => v1::PodNetwork::Isolated,
            }
            .into(),
            address: view.address.unwrap_or_default(),
            ports: view.ports,
            volumes: volumes.chain(tmpfs).collect(),
            security: Some(v1::PodSecurity {
                drop_capabilities: view.security.drop_capabilities,
                add_capabilities: view.security.add_capabilities,
                any_system_call: view.security.any_system_call,
                privilege_escalation: view.security.privilege_escalation,
                read_only_root: view.security.read_only_root,
                user_namespace: view.security.user_namespace,
            }),
            rlimits: view.ulimits,
            sysctls: view.sysctls,
            health: view.health.map(HealthView::into_wire),
            restart: view.restart.into_wire().into(),
            stop_grace_ms: view.stop_grace.map(Span::millis_u32),
            stdin: view.stdin,
            terminal: view.terminal,
            no_image_health: view.no_image_health,
            init: view.init,
            labels: view.labels.into_iter().collect(),
            aliases: view.aliases,
            volume_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_spec_can_be_applied_again() {
        let written = "\
name: web
image: nginx:1.27
pull: always
entrypoint: [/bin/sh, -c]
arguments: [exec nginx]
environment: [A=1]
user: '1000'
limits: {cpus: 500m, memory: 64MiB, pids: 100}
network: isolated
ports: ['8080:80']
volumes: ['/srv/www:/www:ro', 'data:/data']
tmpfs: ['/run:1MiB']
security: {drop_capabilities: [ALL], read_only_root: true}
ulimits: ['nofile=1024:4096']
health: {http: 80/health, interval: 5s, retries: 2}
restart: never
stop_grace: 1m30s
labels: {app: shop}
aliases: [web.shop]
status: {state: running, anything: [1, 2]}
";
        let read: PodSpecView = serde_saphyr::from_str(written).unwrap();
        let wire = v1::PodSpec::from(read.clone());
        assert_eq!(wire.limits.unwrap().cpu_millis, Some(500));
        assert_eq!(wire.volumes.len(), 3);
        assert_eq!(wire.stop_grace_ms, Some(90_000));
        let back = PodSpecView::from(wire);
        assert_eq!(back, read);
        for text in [
            serde_saphyr::to_string(&back).unwrap(),
            serde_json::to_string_pretty(&back).unwrap(),
        ] {
            let again: PodSpecView = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(again, read, "{text}");
        }
    }

    #[test]
    fn little_is_enough_and_typos_are_refused() {
        let read: PodSpecView = serde_saphyr::from_str("{name: a, image: b}").unwrap();
        assert_eq!((read.name.as_str(), read.image.as_str()), ("a", "b"));
        let why = serde_saphyr::from_str::<PodSpecView>("{name: a, image: b, port: []}");
        assert!(why.unwrap_err().to_string().contains("port"));
    }
}
