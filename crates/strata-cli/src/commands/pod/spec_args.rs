//! Specification of a pod in flags: parsed here, validated by the node.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use strata_types::CommandLine;
use strata_types::pod::{PortMapping, Rlimit, Sysctl};

use crate::commands::image::image_name;
use crate::complete;
use crate::failure::{Exit, Failure, Result};
use crate::values::{
    Bytes, EnvironmentArg, HttpProbeArg, LabelArg, Millicpus, Span, TmpfsArg, UsersArg, VolumeArg,
    checked, environment_file, label_name,
};
use crate::view::{HealthView, Network, PodLimitsView, PodSpecView, Pull, Restart, SecurityView};

/// Specification of a pod.
#[derive(Args, Debug)]
pub(super) struct PodSpecArgs {
    /// Name, also resolvable by other pods
    #[arg(value_parser = label_name, required_unless_present = "file")]
    name: Option<String>,
    /// Image reference: nginx:1.27, x@sha256:…, oci:PATH, docker-archive:PATH
    #[arg(value_parser = image_name, required_unless_present = "file")]
    #[arg(add = complete::images())]
    image: Option<String>,
    /// Command and arguments, overriding those of the image
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<String>,

    /// Set an environment variable; KEY alone copies yours; repeatable
    #[arg(short, long, value_name = "KEY[=VALUE]")]
    env: Vec<EnvironmentArg>,
    /// File with one environment variable per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    env_file: Vec<PathBuf>,
    /// Publish a port: [ADDRESS:]HOST:CONTAINER[/udp], e.g. 8080:80; repeatable
    #[arg(short, long, value_name = "PORT", value_parser = checked::<PortMapping>)]
    port: Vec<String>,
    /// Mount a volume: /directory:/target, NAME:/target or pool=NAME:/target,
    /// with :ro for read-only. Directories are on the host of the node;
    /// repeatable
    #[arg(short, long, value_name = "VOLUME")]
    volume: Vec<VolumeArg>,
    /// Mount a tmpfs: /target or /target:SIZE [default: 64MiB]
    #[arg(long, value_name = "TARGET")]
    tmpfs: Vec<TmpfsArg>,

    /// CPU limit, e.g. 0.5 or 500m
    #[arg(long, value_name = "N")]
    cpu: Option<Millicpus>,
    /// Memory limit; processes are killed beyond it
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Disk limit of its root file system
    #[arg(long, value_name = "SIZE")]
    disk: Option<Bytes>,
    /// Maximum number of processes and threads
    #[arg(long, value_name = "N")]
    pids: Option<u64>,
    /// CPU weight, 2 to 262144 [default: 1024]
    #[arg(long, value_name = "N", default_value_t, hide_default_value = true)]
    cpu_shares: u64,

    /// User to run as, user[:group], overriding that of the image
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Working directory
    #[arg(long, value_name = "DIRECTORY")]
    workdir: Option<String>,
    /// Entry point, overriding that of the image; split into words like a shell
    /// does
    #[arg(long, value_name = "STRING")]
    entrypoint: Option<String>,
    /// Hostname [default: its name]
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    /// Network: the bridge of the node, the host network, or loopback only
    #[arg(long, value_enum, default_value_t)]
    network: Network,
    /// IP address from the subnet of the node
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,

    /// Add a capability to the default set: NET_ADMIN, or ALL; repeatable
    #[arg(long, value_name = "CAP", value_delimiter = ',')]
    cap_add: Vec<String>,
    /// Drop a capability, or ALL, before others are added; repeatable
    #[arg(long, value_name = "CAP", value_delimiter = ',')]
    cap_drop: Vec<String>,
    /// Disable the seccomp filter
    #[arg(long)]
    any_system_call: bool,
    /// Allow programs to gain privileges, as sudo does
    #[arg(long)]
    privilege_escalation: bool,
    /// Mount the root file system read-only
    #[arg(long)]
    read_only: bool,
    /// Run its program as PID 1, as busybox init requires
    ///
    /// [default: an init that reaps processes and forwards signals]
    #[arg(long)]
    no_init: bool,
    /// User namespace: its own, unprivileged on the host, or that of the host
    ///
    /// The user namespace of the host is for admins only. [default: own; host
    /// with --network host]
    #[arg(long, value_name = "USERS", num_args = 0..=1, require_equals = true, default_missing_value = "own")]
    user_namespace: Option<UsersArg>,
    /// Resource limit per process, e.g. nofile=1024:4096; repeatable
    #[arg(long, value_name = "LIMIT", value_parser = checked::<Rlimit>)]
    ulimit: Vec<String>,
    /// Sysctl of its namespaces, e.g. net.core.somaxconn=1024; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = checked::<Sysctl>)]
    sysctl: Vec<String>,

    // Not a struct of its own: the parser cannot exclude what is nested.
    /// Disable the health check of the image
    #[arg(long, conflicts_with = "probe")]
    no_health: bool,
    /// Health check: command in the container; healthy if it exits with 0
    #[arg(long, value_name = "COMMAND", group = "probe")]
    health_exec: Option<String>,
    /// Health check: HTTP GET to PORT[/path]; healthy on status 200 to 399
    #[arg(long, value_name = "PORT", group = "probe")]
    health_http: Option<HttpProbeArg>,
    /// Health check: TCP port; healthy if it accepts connections
    #[arg(long, value_name = "PORT", group = "probe")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    health_tcp: Option<u16>,
    /// Interval between health checks [default: 10s]
    #[arg(long, value_name = "DURATION", requires = "probe")]
    health_interval: Option<Span>,
    /// Timeout of a health check [default: 5s]
    #[arg(long, value_name = "DURATION", requires = "probe")]
    health_timeout: Option<Span>,
    /// Consecutive failures until it is unhealthy [default: 3]
    #[arg(long, value_name = "N", requires = "probe")]
    health_retries: Option<u32>,
    /// Start period in which failures do not count
    #[arg(long, value_name = "DURATION", requires = "probe")]
    health_start_period: Option<Span>,

    /// Restart policy [default: on-failure]
    #[arg(long, value_enum, value_name = "WHEN")]
    restart: Option<Restart>,
    /// Time between the stop signal and SIGKILL [default: 10s]
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,
    /// Keep standard input open, for `pod attach -i`
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Allocate a terminal
    #[arg(short, long)]
    pub(super) tty: bool,
    /// Label, key=value; repeatable
    #[arg(short, long, value_name = "LABEL")]
    label: Vec<LabelArg>,
    /// Image pull policy
    #[arg(long, value_enum, default_value_t)]
    pull: Pull,
}

impl PodSpecArgs {
    /// The specification; `restart` is the default restart policy.
    pub(super) fn view(self, restart: Restart) -> Result<PodSpecView> {
        let health = self.health()?;
        let (Some(name), Some(image)) = (self.name, self.image) else {
            return Err(Failure::new(Exit::Usage, "no pod specified"));
        };
        let mut environment = Vec::new();
        for file in &self.env_file {
            environment.extend(environment_file(file)?);
        }
        environment.extend(self.env);
        Ok(PodSpecView {
            name,
            image,
            pull: self.pull,
            entrypoint: self
                .entrypoint
                .map_or(Ok(Vec::new()), |e| split_words(&e))?,
            arguments: self.words,
            environment: environment
                .iter()
                .filter_map(EnvironmentArg::of_process)
                .collect(),
            working_directory: self.workdir,
            user: self.user,
            hostname: self.hostname,
            limits: PodLimitsView {
                cpus: self.cpu,
                memory: self.memory,
                disk: self.disk,
                pids: self.pids,
            },
            cpu_shares: self.cpu_shares,
            network: self.network,
            address: self.address,
            ports: self.port,
            volumes: self.volume,
            tmpfs: self.tmpfs,
            security: SecurityView {
                drop_capabilities: self.cap_drop,
                add_capabilities: self.cap_add,
                any_system_call: self.any_system_call,
                privilege_escalation: self.privilege_escalation,
                read_only_root: self.read_only,
                user_namespace: self.user_namespace.map(UsersArg::are_own),
            },
            ulimits: self.ulimit,
            sysctls: self.sysctl,
            health,
            restart: self.restart.unwrap_or(restart),
            stop_grace: self.grace,
            stdin: self.stdin,
            terminal: self.tty,
            no_image_health: self.no_health,
            init: self.no_init.then_some(false),
            labels: self.label.into_iter().map(|l| (l.0, l.1)).collect(),
            ..Default::default()
        })
    }

    fn health(&self) -> Result<Option<HealthView>> {
        let exec = self.health_exec.as_deref().map(split_words).transpose()?;
        if exec.is_none() && self.health_http.is_none() && self.health_tcp.is_none() {
            return Ok(None);
        }
        Ok(Some(HealthView {
            exec: exec.unwrap_or_default(),
            http: self.health_http.clone(),
            tcp: self.health_tcp,
            interval: self.health_interval,
            timeout: self.health_timeout,
            retries: self.health_retries,
            start_period: self.health_start_period,
        }))
    }
}

/// Splits a text into words, as the wire takes them.
fn split_words(text: &str) -> Result<Vec<String>> {
    CommandLine::from_field("command", text)
        .map(Into::into)
        .map_err(|why| Failure::new(Exit::Usage, why.to_string()))
}
