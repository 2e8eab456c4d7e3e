//! Pods: one container each, what it is asked to be, which state it is in.
//!
//! ```text
//!                  ┌────────────────────────────┐
//!                  ▼                            │ back-off ends
//!   Created ──▶ Starting ──▶ Running ──▶ Waiting ┘   (restart policy)
//!      ▲           │  ▲         │ │         │
//!      │           │  └─Start─┐ │ └─its end─┼──▶ Exited
//!      │           └──fails──▶│ │ Stop      │
//!      │                 Failed▼ ▼          ▼
//!      └────────────────────  Stopping ──▶ Stopped ──Destroy──▶ (none)
//! ```

mod alias;
mod capability;
mod health;
mod port;
mod rlimit;
mod secret;
mod state;
mod sysctl;
mod volume;

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use alias::Alias;
pub use capability::{Capabilities, Capability};
pub use health::{HealthCheck, Probe};
pub use port::{PortMapping, Protocol};
pub use rlimit::Rlimit;
pub use secret::{PodSecret, SecretTarget};
pub use state::PodState;
pub use sysctl::Sysctl;
pub use volume::{Volume, VolumeSource};

pub use crate::restart::{Backoff, RestartPolicy};
use crate::{CpuShares, EnvironmentVariable, Error, Label};

/// The name of a pod on its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodName(Label);

impl PodName {
    /// The text of the name.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The name as a label.
    pub fn label(&self) -> &Label {
        &self.0
    }

    /// Reads a name from the field `field` of a request.
    pub fn from_field(field: &str, text: &str) -> Result<Self, Error> {
        Label::from_field(field, text).map(Self)
    }
}

impl FromStr for PodName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::from_field("name", text)
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// When an image is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullPolicy {
    /// When the node does not have it.
    #[default]
    Missing,
    /// Each time a pod is made of it; what is here already is not sent again.
    Always,
    /// Not at all.
    Never,
}

/// How a pod is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PodNetwork {
    /// An address on the node's bridge.
    #[default]
    Bridge,
    /// The machine's own network.
    Host,
    /// A loopback alone.
    Isolated,
}

/// Processes and threads that a pod may have at once where its limits name
/// none: plenty for a server, and too few to take the host's.
pub const DEFAULT_PIDS: u32 = 4096;

/// What a pod may use at most. What is `None` is not limited, but for `pids`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodLimits {
    /// Thousandths of a cpu.
    pub cpu_millis: Option<u32>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Bytes that it may write to its own root.
    pub disk_bytes: Option<u64>,
    /// Processes and threads. Default: [`DEFAULT_PIDS`].
    pub pids: Option<u64>,
}

/// What a pod may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodSecurity {
    /// The capabilities root has in it.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// Every system call, not only the harmless ones.
    #[serde(default)]
    pub any_system_call: bool,
    /// Programs may gain privileges by exec, as `sudo` does.
    #[serde(default)]
    pub privilege_escalation: bool,
    /// Its root cannot be changed.
    #[serde(default)]
    pub read_only_root: bool,
    /// Whether it has a user namespace of its own, in which its root is an
    /// unprivileged user of the host. Default: it has, unless it has the
    /// host's network.
    #[serde(default)]
    pub user_namespace: Option<bool>,
}

/// What a pod is asked to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodSpec {
    /// Its name on the node, which others on the node find it by.
    pub name: PodName,
    /// A reference, `oci:PATH[:TAG]` or `docker-archive:PATH`.
    pub image: String,
    /// When the image is fetched.
    #[serde(default)]
    pub pull: PullPolicy,
    /// Instead of the image's entry point.
    #[serde(default)]
    pub entrypoint: Option<Vec<String>>,
    /// Instead of the image's command; what the entry point gets.
    #[serde(default)]
    pub arguments: Option<Vec<String>>,
    /// On top of the image's variables.
    #[serde(default)]
    pub environment: Vec<EnvironmentVariable>,
    /// Instead of the image's directory.
    #[serde(default)]
    pub working_directory: Option<String>,
    /// Instead of the image's user: `user[:group]`, names or numbers.
    #[serde(default)]
    pub user: Option<String>,
    /// Instead of the pod's name.
    #[serde(default)]
    pub hostname: Option<Label>,
    /// What it may use at most.
    #[serde(default)]
    pub limits: PodLimits,
    /// Its weight when cpus are short.
    #[serde(default)]
    pub cpu_shares: CpuShares,
    /// How it is connected.
    #[serde(default)]
    pub network: PodNetwork,
    /// The address it wants; any when none is given.
    #[serde(default)]
    pub address: Option<Ipv4Addr>,
    /// Ports of the machine that lead to it.
    #[serde(default)]
    pub ports: Vec<PortMapping>,
    /// What is mounted into it.
    #[serde(default)]
    pub volumes: Vec<Volume>,
    /// Secrets it is given. Their values are kept elsewhere.
    #[serde(default)]
    pub secrets: Vec<PodSecret>,
    /// What it may do.
    #[serde(default)]
    pub security: PodSecurity,
    /// Resource limits of its processes.
    #[serde(default)]
    pub rlimits: Vec<Rlimit>,
    /// Kernel settings of its namespaces.
    #[serde(default)]
    pub sysctls: Vec<Sysctl>,
    /// How it is found out whether it works.
    #[serde(default)]
    pub health: Option<HealthCheck>,
    /// What happens when it ends.
    #[serde(default)]
    pub restart: RestartPolicy,
    /// Between the stop signal and SIGKILL.
    #[serde(default = "crate::ExecutableSpec::default_grace")]
    pub stop_grace: Duration,
    /// Standard input stays open for those who attach.
    #[serde(default)]
    pub stdin: bool,
    /// Its process has a terminal.
    #[serde(default)]
    pub terminal: bool,
    /// The image's own health check is not used.
    #[serde(default)]
    pub no_image_health: bool,
    /// Whether an init runs as PID 1 that reaps and passes signals on. Without
    /// it the pod's program is PID 1, as busybox init and s6 have to be.
    /// systemd does not run so (decision 36). Default: true.
    #[serde(default = "PodSpec::default_init")]
    pub init: bool,
    /// For people and for selecting.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Further names by which others on the node find it.
    #[serde(default)]
    pub aliases: Vec<Alias>,
    /// Bytes of all volumes of the node together that are created for it, in
    /// equal parts. Those that are there keep the size they have.
    #[serde(default)]
    pub volume_bytes: Option<u64>,
}

impl PodSpec {
    /// The most ports, volumes, rlimits, sysctls and labels, of each.
    pub const MAX_ENTRIES: usize = 100;

    /// A pod with nothing but a name and an image.
    pub fn new(name: PodName, image: impl Into<String>) -> Self {
        Self {
            name,
            image: image.into(),
            pull: PullPolicy::default(),
            entrypoint: None,
            arguments: None,
            environment: Vec::new(),
            working_directory: None,
            user: None,
            hostname: None,
            limits: PodLimits::default(),
            cpu_shares: CpuShares::default(),
            network: PodNetwork::default(),
            address: None,
            ports: Vec::new(),
            volumes: Vec::new(),
            secrets: Vec::new(),
            security: PodSecurity::default(),
            rlimits: Vec::new(),
            sysctls: Vec::new(),
            health: None,
            restart: RestartPolicy::default(),
            stop_grace: crate::ExecutableSpec::default_grace(),
            stdin: false,
            terminal: false,
            no_image_health: false,
            init: Self::default_init(),
            labels: BTreeMap::new(),
            aliases: Vec::new(),
            volume_bytes: None,
        }
    }

    /// The size of a volume of the node that is created for it.
    pub fn new_volume_size(&self) -> Option<u64> {
        let named = |volume: &&Volume| matches!(volume.source, VolumeSource::Named(_));
        let count = self.volumes.iter().filter(named).count();
        let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
        self.volume_bytes.map(|bytes| bytes / count)
    }

    /// What `init` is where nothing is said of it.
    pub const fn default_init() -> bool {
        true
    }

    /// Refuses what contradicts itself, naming the field.
    pub fn check(&self) -> Result<(), Error> {
        self.check_counts()?;
        self.check_network()?;
        self.check_limits()?;
        self.check_security()?;
        for (i, volume) in self.volumes.iter().enumerate() {
            volume.check(&format!("pod.volumes[{i}]"))?;
            if self.volumes[..i]
                .iter()
                .any(|other| other.place() == volume.place())
            {
                let field = format!("pod.volumes[{i}].target");
                let why = format!("{:?} has a volume already", volume.target);
                return Err(Error::invalid(field, why));
            }
        }
        self.check_secrets()?;
        match &self.working_directory {
            Some(dir) if !dir.starts_with('/') => Err(Error::invalid(
                "pod.working_directory",
                format!("{dir:?} does not begin with /"),
            )),
            _ => Ok(()),
        }
    }

    /// Every secret has a place of its own.
    fn check_secrets(&self) -> Result<(), Error> {
        for (i, secret) in self.secrets.iter().enumerate() {
            let field = format!("pod.secrets[{i}]");
            secret.check(&field)?;
            let taken = self.secrets[..i]
                .iter()
                .any(|it| it.target == secret.target);
            let covered = |path| self.volumes.iter().any(|volume| volume.place() == path);
            if taken || secret.path().is_some_and(covered) {
                let why = "has the same place as another secret or a volume";
                return Err(Error::invalid(field, why));
            }
        }
        Ok(())
    }

    /// Whether it has a user namespace of its own: as asked for, and unless
    /// that is left open, wherever the network allows it.
    pub fn has_own_users(&self) -> bool {
        let default = self.network != PodNetwork::Host;
        self.security.user_namespace.unwrap_or(default)
    }

    fn check_counts(&self) -> Result<(), Error> {
        let counts = [
            ("environment", self.environment.len()),
            ("ports", self.ports.len()),
            ("volumes", self.volumes.len()),
            ("secrets", self.secrets.len()),
            ("rlimits", self.rlimits.len()),
            ("sysctls", self.sysctls.len()),
            ("labels", self.labels.len()),
            ("aliases", self.aliases.len()),
        ];
        match counts.into_iter().find(|(_, n)| *n > Self::MAX_ENTRIES) {
            Some((field, n)) => Err(Error::invalid(
                format!("pod.{field}"),
                format!("has {n} entries; {} is the most", Self::MAX_ENTRIES),
            )),
            None => Ok(()),
        }
    }

    fn check_network(&self) -> Result<(), Error> {
        let on_bridge = self.network == PodNetwork::Bridge;
        if !on_bridge && !self.ports.is_empty() {
            let why = "can be published only for a pod on the bridge";
            return Err(Error::invalid("pod.ports", why));
        }
        if !on_bridge && self.address.is_some() {
            let why = "can be had only by a pod on the bridge";
            return Err(Error::invalid("pod.address", why));
        }
        if self.network == PodNetwork::Host && self.has_own_users() {
            let why = "does not go with the machine's own network";
            return Err(Error::invalid("pod.security.user_namespace", why));
        }
        if self.network == PodNetwork::Host
            && let Some(net) = self.sysctls.iter().find(|s| s.name().starts_with("net."))
        {
            let why = format!("{:?} would change the machine's own network", net.name());
            return Err(Error::invalid("pod.sysctls", why));
        }
        let asks_from_outside = |check: &HealthCheck| !matches!(check.probe, Probe::Exec(_));
        if self.network == PodNetwork::Isolated
            && self.health.as_ref().is_some_and(asks_from_outside)
        {
            let why = "cannot reach a pod with a loopback alone; a command inside can";
            return Err(Error::invalid("pod.health", why));
        }
        for (i, port) in self.ports.iter().enumerate() {
            if self.ports[..i]
                .iter()
                .any(|other| other.collides_with(port))
            {
                let why = format!("publishes {}/{} twice", port.host_port, port.protocol);
                return Err(Error::invalid(format!("pod.ports[{i}]"), why));
            }
        }
        Ok(())
    }

    /// The pod's init has directories of the machine open. Whoever may look into
    /// other processes may look into those; users of the pod's own have no
    /// right to what is in them.
    fn check_security(&self) -> Result<(), Error> {
        let security = &self.security;
        let has = |name: &str| {
            let capability = name.parse::<Capability>();
            capability.is_ok_and(|one| security.capabilities.contains(one))
        };
        if has("SYS_PTRACE") && !has("SYS_ADMIN") && !self.has_own_users() {
            let why = "SYS_PTRACE reaches into the pod's init, and through it out of the pod";
            return Err(Error::invalid("pod.security.capabilities", why)
                .with_hint("add it together with a user namespace"));
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), Error> {
        /// Below this not even an init fits.
        const MIN_MEMORY: u64 = 4 << 20;
        const MIN_DISK: u64 = 1 << 20;
        let limits = &self.limits;
        let refuse =
            |field: &str, why: String| Err(Error::invalid(format!("pod.limits.{field}"), why));
        match (
            limits.cpu_millis,
            limits.memory_bytes,
            limits.disk_bytes,
            limits.pids,
        ) {
            (Some(n @ 0..=9), ..) => refuse("cpu_millis", format!("is {n}; 10 is the least")),
            (_, Some(n), ..) if n < MIN_MEMORY => {
                refuse("memory_bytes", format!("is {n}; {MIN_MEMORY} is the least"))
            }
            (_, _, Some(n), _) if n < MIN_DISK => {
                refuse("disk_bytes", format!("is {n}; {MIN_DISK} is the least"))
            }
            (.., Some(n @ 0..=1)) => refuse("pids", format!("is {n}; 2 is the least")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
