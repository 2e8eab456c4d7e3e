//! Specification of an instance. Manifests, the REST API and stored records
//! share this form.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::volume::volume;
use super::{InstanceKind, PlacementRules, Resources};
use crate::image::Reference;
use crate::pod::{
    Capabilities, DEFAULT_PIDS, HealthCheck, PodLimits, PodName, PodSecret, PodSecurity, PodSpec,
    PortMapping, Probe, RestartPolicy, Volume, VolumeSource,
};
use crate::{EnvironmentVariable, Error};

/// What `pids` can be: a shell needs a few, and no kernel numbers more.
const PIDS: std::ops::RangeInclusive<u32> = 16..=4_194_304;

/// Specification of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InstanceSpec {
    /// Type. Default: container.
    #[serde(rename = "type")]
    pub kind: InstanceKind,
    /// Image reference, `oci:PATH[:TAG]`, `docker-archive:PATH`, or for a
    /// virtual machine a disk image on the node.
    pub uri: String,
    /// Environment variables, `KEY=VALUE`; at most 100.
    pub environment: Vec<String>,
    /// Resource limits, which are also reserved.
    pub resources: Resources,
    /// Maximum number of processes and threads, 16 to 4194304. Default: that of
    /// the project, else 4096.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 16, maximum = 4_194_304))]
    pub pids: Option<u32>,
    /// Published ports, `HOST:CONTAINER[/udp]`, e.g. `8080:80` or `53:53/udp`;
    /// at most 100.
    pub ports: Vec<String>,
    /// Overrides the entry point of the image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Overrides the command of the image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Overrides the user of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Overrides the working directory of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// Volume mounts: `data:/var/lib/x`, `/srv/www:/www:ro`, `memory=64:/tmp`,
    /// `pool=data:/var/lib/x`; for a virtual machine `pool=data`, a disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// Secrets of the project to pass: `db` for the file `/run/secrets/db`,
    /// `db:/etc/app/password` for another file, or `DB_PASSWORD=db` for an
    /// environment variable. At most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Whether an init that reaps processes and forwards signals runs as PID 1.
    /// Disable it for images whose program must be PID 1, such as busybox init
    /// or s6; systemd does not run. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<bool>,
    /// Security settings.
    #[serde(skip_serializing_if = "SecuritySpec::is_default")]
    pub security: SecuritySpec,
    /// Health check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthSpec>,
    /// Restart policy.
    pub restart: RestartPolicy,
    /// Seconds between SIGTERM and SIGKILL. Default: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_grace_seconds: Option<u32>,
    /// Labels, for selectors and affinity rules.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Placement rules.
    pub placement: PlacementRules,
    /// User data for cloud-init in a virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
}

/// Security settings of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SecuritySpec {
    /// Capabilities to add to the default set.
    pub add_capabilities: Vec<String>,
    /// Capabilities to drop from the default set; `ALL` drops every one.
    pub drop_capabilities: Vec<String>,
    /// Whether the root file system is read-only.
    pub read_only_root: bool,
    /// Whether programs may gain privileges by exec, as `sudo` does. Default:
    /// false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub privilege_escalation: bool,
    /// Whether it runs in its own user namespace, in which root is an
    /// unprivileged user of the host. Default: true. Only admins may disable
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_namespace: Option<bool>,
}

impl SecuritySpec {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Health check of an instance: one of three probes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HealthSpec {
    /// A command in the instance; healthy if it exits with 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exec: Vec<String>,
    /// HTTP probe `PORT/PATH`, e.g. `80/healthz`; healthy on status 200 to 399.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// TCP port; healthy if it accepts a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<u16>,
    /// Seconds between probes. Default: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u32>,
    /// Timeout of a probe in seconds. Default: 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// Consecutive failures after which it is unhealthy. Default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
}

impl HealthSpec {
    fn check(&self) -> Result<HealthCheck, Error> {
        let probe = match (self.exec.as_slice(), &self.http, self.tcp) {
            ([], None, Some(port)) => Probe::Tcp { port },
            ([], Some(http), None) => {
                let (port, path) = http.split_once('/').unwrap_or((http, ""));
                let port = port.parse().map_err(|_| {
                    Error::invalid("health.http", "is no PORT/PATH such as 80/healthz")
                })?;
                let path = format!("/{path}");
                Probe::Http { port, path }
            }
            ([_, ..], None, None) => Probe::Exec(self.exec.clone()),
            _ => {
                let why = "needs one of exec, http and tcp";
                return Err(Error::invalid("health", why));
            }
        };
        let mut check = HealthCheck::with(probe);
        let seconds = |n: u32| Duration::from_secs(n.into());
        check.interval = self.interval_seconds.map_or(check.interval, seconds);
        check.timeout = self.timeout_seconds.map_or(check.timeout, seconds);
        check.retries = self.retries.unwrap_or(check.retries);
        check.check("health")?;
        Ok(check)
    }
}

impl InstanceSpec {
    /// The most variables and ports.
    pub const MAX_ENTRIES: usize = 100;
    const LONGEST_TEXT: usize = 64 * 1024;

    /// Refuses what no node could run, naming the field.
    pub fn check(&self) -> Result<(), Error> {
        if self.uri.is_empty() {
            return Err(Error::invalid("uri", "must not be empty"));
        }
        if self.uri.len() > 4096 || self.uri.contains(char::is_control) {
            let why = "must be shorter than 4097 bytes, without control characters";
            return Err(Error::invalid("uri", why));
        }
        self.check_uri()?;
        self.check_sizes()?;
        self.resources.check("resources")?;
        self.check_pids()?;
        self.placement.check("placement")?;
        let name = PodName::from_field("name", "x")?;
        match self.kind {
            InstanceKind::Container => self.pod(name, None).map(drop),
            InstanceKind::Vm => self.check_vm(),
        }
    }

    fn check_pids(&self) -> Result<(), Error> {
        match self.pids {
            Some(pids) if !PIDS.contains(&pids) => {
                let why = format!("is {pids}; {} to {} are allowed", PIDS.start(), PIDS.end());
                Err(Error::invalid("pids", why))
            }
            _ => Ok(()),
        }
    }

    /// Processes and threads that it may have at once. A virtual machine has
    /// those of its own kernel.
    pub fn max_pids(&self) -> u32 {
        match self.kind {
            InstanceKind::Container => self.pids.unwrap_or(DEFAULT_PIDS),
            InstanceKind::Vm => 0,
        }
    }

    /// Bytes of memory that its volumes hold.
    pub fn memory_volumes(&self) -> u64 {
        let size = |volume: Volume| match volume.source {
            VolumeSource::Memory(bytes) => bytes,
            _ => 0,
        };
        let volumes = self.mounts().unwrap_or_default();
        volumes.into_iter().map(size).fold(0, u64::saturating_add)
    }

    fn check_sizes(&self) -> Result<(), Error> {
        let counts = [
            ("environment", self.environment.len()),
            ("ports", self.ports.len()),
            ("volumes", self.volumes.len()),
            ("secrets", self.secrets.len()),
            // The server adds a few of its own.
            ("labels", self.labels.len() + 5),
            ("command", self.command.len()),
            ("arguments", self.arguments.len()),
        ];
        if let Some((field, n)) = counts.into_iter().find(|(_, n)| *n > Self::MAX_ENTRIES) {
            let why = format!("has {n} entries; {} is the most", Self::MAX_ENTRIES);
            return Err(Error::invalid(field, why));
        }
        let texts = [&self.environment, &self.command, &self.arguments];
        let size: usize = texts.into_iter().flatten().map(String::len).sum();
        let labels: usize = self.labels.iter().map(|(k, v)| k.len() + v.len()).sum();
        let data = self.user_data.as_ref().map_or(0, String::len);
        for (field, size) in [
            ("environment", size),
            ("labels", labels),
            ("userData", data),
        ] {
            if size > Self::LONGEST_TEXT {
                let why = format!("is {size} bytes; {} is the most", Self::LONGEST_TEXT);
                return Err(Error::invalid(field, why));
            }
        }
        for (key, value) in &self.labels {
            let bad = key.is_empty() || key.len() > 128 || value.len() > 256;
            if bad || key.contains(char::is_control) || value.contains(char::is_control) {
                let key: String = key.chars().take(80).collect();
                let why = format!("{key:?} must be 1 to 128 characters, its value at most 256");
                return Err(Error::invalid("labels", why));
            }
        }
        Ok(())
    }

    /// Refuses what names no image anywhere; whether there is such an image is
    /// for the node to find. The disk of a virtual machine is a path.
    fn check_uri(&self) -> Result<(), Error> {
        if self.kind == InstanceKind::Vm {
            return Ok(());
        }
        let path = match self.uri.parse::<Reference>()? {
            Reference::Registry(_) => return Ok(()),
            Reference::Layout { path, .. } | Reference::Archive { path } => path,
        };
        match path.has_root() {
            true => Ok(()),
            false => Err(Error::invalid("uri", "must have a path that begins with /")),
        }
    }

    fn check_vm(&self) -> Result<(), Error> {
        self.port_mappings()?;
        self.pool_disks()?;
        let misplaced = [
            ("environment", !self.environment.is_empty()),
            ("command", !self.command.is_empty()),
            ("arguments", !self.arguments.is_empty()),
            ("health", self.health.is_some()),
            ("user", self.user.is_some()),
            ("pids", self.pids.is_some()),
            ("secrets", !self.secrets.is_empty()),
            ("workingDirectory", self.working_directory.is_some()),
            ("init", self.init.is_some()),
            ("security", !self.security.is_default()),
        ];
        match misplaced.into_iter().find(|(_, given)| *given) {
            Some((field, _)) => Err(Error::invalid(field, "is nothing that a VM has")
                .with_hint("hand it over by userData, which cloud-init reads")),
            None if !self.uri.starts_with('/') => {
                let why = "must be a disk image of the node, with a path that begins with /";
                Err(Error::invalid("uri", why))
            }
            None => Ok(()),
        }
    }

    /// The ports, read.
    pub fn port_mappings(&self) -> Result<Vec<PortMapping>, Error> {
        let mut ports: Vec<PortMapping> = Vec::with_capacity(self.ports.len());
        for (i, text) in self.ports.iter().enumerate() {
            let port: PortMapping = text
                .parse()
                .map_err(|why: String| Error::invalid(format!("ports[{i}]"), why))?;
            if ports.iter().any(|other| other.collides_with(&port)) {
                let why = format!("publishes {}/{} twice", port.host_port, port.protocol);
                return Err(Error::invalid(format!("ports[{i}]"), why));
            }
            ports.push(port);
        }
        Ok(ports)
    }

    /// The volumes, read.
    pub fn mounts(&self) -> Result<Vec<Volume>, Error> {
        let volumes = self.volumes.iter().enumerate();
        volumes
            .map(|(i, text)| volume(&format!("volumes[{i}]"), text))
            .collect()
    }

    /// The secrets, read.
    pub fn given_secrets(&self) -> Result<Vec<PodSecret>, Error> {
        let secrets = self.secrets.iter().enumerate();
        secrets
            .map(|(i, text)| PodSecret::parse(&format!("secrets[{i}]"), text))
            .collect()
    }

    /// Whether it reaches into the machine it runs on, which operators may not
    /// ask for.
    pub fn reaches_the_machine(&self) -> bool {
        let own_disk = ["oci:", "docker-archive:", "/"];
        self.has_host_access() || own_disk.iter().any(|start| self.uri.starts_with(start))
    }

    /// Whether there is something in it that viewers are not shown.
    pub fn has_values(&self) -> bool {
        !self.environment.is_empty() || self.user_data.is_some()
    }

    /// Whether what runs of it has more of its host than an operator may give
    /// it: what it has of its image alone is no access to the host.
    pub fn has_host_access(&self) -> bool {
        let dir = |volume: Volume| matches!(volume.source, VolumeSource::Directory(_));
        let dirs = self.mounts().is_ok_and(|all| all.into_iter().any(dir));
        dirs || !self.security.add_capabilities.is_empty()
            || self.security.user_namespace == Some(false)
    }

    /// Between the stop signal and SIGKILL.
    pub fn stop_grace(&self) -> Duration {
        self.stop_grace_seconds
            .map_or_else(crate::ExecutableSpec::default_grace, |seconds| {
                Duration::from_secs(seconds.into())
            })
    }

    /// The pod of that name that a node makes of it.
    pub fn pod(&self, name: PodName, address: Option<Ipv4Addr>) -> Result<PodSpec, Error> {
        let some = |words: &[String]| (!words.is_empty()).then(|| words.to_vec());
        let limit = |n: u64| (n > 0).then_some(n);
        let mut pod = PodSpec::new(name, &*self.uri);
        pod.entrypoint = some(&self.command);
        pod.arguments = some(&self.arguments);
        pod.environment = variables(&self.environment)?;
        pod.working_directory.clone_from(&self.working_directory);
        pod.user.clone_from(&self.user);
        pod.limits = PodLimits {
            cpu_millis: u32::try_from(self.resources.cpu).ok().filter(|n| *n > 0),
            memory_bytes: limit(self.resources.memory_bytes()),
            disk_bytes: limit(self.resources.disk_bytes()),
            pids: Some(self.max_pids().into()),
        };
        pod.address = address;
        pod.ports = self.port_mappings()?;
        pod.volumes = self.mounts()?;
        pod.secrets = self.given_secrets()?;
        pod.security = PodSecurity {
            capabilities: capabilities(&self.security)?,
            read_only_root: self.security.read_only_root,
            privilege_escalation: self.security.privilege_escalation,
            user_namespace: self.security.user_namespace,
            ..PodSecurity::default()
        };
        pod.health = self.health.as_ref().map(HealthSpec::check).transpose()?;
        pod.init = self.init.unwrap_or(PodSpec::default_init());
        pod.restart = self.restart;
        pod.stop_grace = self.stop_grace();
        pod.labels.clone_from(&self.labels);
        // Fields of a pod have other names there; people see ours.
        pod.check().map_err(without_pod)?;
        Ok(pod)
    }
}

fn without_pod(error: Error) -> Error {
    match error.field().and_then(|field| field.strip_prefix("pod.")) {
        Some(field) => {
            let field = field.to_owned();
            error.in_field(field)
        }
        None => error,
    }
}

fn variables(texts: &[String]) -> Result<Vec<EnvironmentVariable>, Error> {
    let read = |(i, text): (usize, &String)| {
        EnvironmentVariable::try_from(text.clone())
            .map_err(|why| why.in_field(format!("environment[{i}]")))
    };
    texts.iter().enumerate().map(read).collect()
}

fn capabilities(security: &SecuritySpec) -> Result<Capabilities, Error> {
    let (drop, add) = (&security.drop_capabilities, &security.add_capabilities);
    Capabilities::from_lists(drop, add)
        .map_err(|why| Error::invalid("security.addCapabilities", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_image_name_is_refused_by_its_field() {
        let check = |uri: &str| {
            let uri = uri.to_owned();
            let spec = InstanceSpec {
                uri,
                ..InstanceSpec::default()
            };
            spec.check()
        };
        for bad in [
            "::::",
            "https://x",
            "UPPER/Case",
            "$(id)",
            "x@sha256:zz",
            "a b",
            "oci:relative",
            "docker-archive:",
            "nginx:",
        ] {
            let refused = check(bad).unwrap_err();
            assert_eq!(refused.field(), Some("uri"), "{bad}: {refused}");
        }
        for good in [
            "nginx",
            "docker.io/library/nginx:1.27",
            "registry:5000/x",
            "oci:/srv/images/web:v1",
            "docker-archive:/srv/web.tar",
        ] {
            check(good).unwrap();
        }
    }

    fn pod(text: &str) -> Result<PodSpec, Error> {
        let spec: InstanceSpec = serde_json::from_str(text).unwrap();
        spec.check()?;
        spec.pod("x".parse().unwrap(), None)
    }

    #[test]
    fn init_and_privileges_of_an_instance_are_those_of_its_pod() {
        let plain = pod(r#"{"uri": "web"}"#).unwrap();
        assert!(plain.init && !plain.security.privilege_escalation);
        let asked = r#"{"uri": "web", "init": false, "security": {"privilegeEscalation": true}}"#;
        let asked = pod(asked).unwrap();
        assert!(!asked.init && asked.security.privilege_escalation);
        let vm = pod(r#"{"type": "VM", "uri": "/disk.qcow2", "init": false}"#).unwrap_err();
        assert_eq!(vm.field(), Some("init"));
        // Nothing of the host is reached by it: operators may ask for it.
        let escalating = r#"{"uri": "web", "security": {"privilegeEscalation": true}}"#;
        let spec: InstanceSpec = serde_json::from_str(escalating).unwrap();
        assert!(!spec.reaches_the_machine());
    }

    #[test]
    fn pods_of_before_have_an_init() {
        let old: PodSpec = serde_json::from_str(r#"{"name": "web", "image": "x"}"#).unwrap();
        assert!(old.init);
    }
}
