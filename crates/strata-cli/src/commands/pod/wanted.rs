//! What a pod is to be, said in flags. Everything is read here and checked
//! by the node.

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

/// What the pod is to be.
#[derive(Args, Debug)]
pub(super) struct Wanted {
    /// Its name, for people and for other pods
    #[arg(value_parser = label_name, required_unless_present = "file")]
    name: Option<String>,
    /// What it is made of: nginx:1.27, x@sha256:…, oci:PATH, docker-archive:PATH
    #[arg(value_parser = image_name, required_unless_present = "file")]
    #[arg(add = complete::images())]
    image: Option<String>,
    /// Its command and arguments, instead of the image's
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<String>,

    /// Put into its environment; KEY alone takes your own
    #[arg(short, long, value_name = "KEY[=VALUE]")]
    env: Vec<EnvironmentArg>,
    /// A file with a variable in each line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    env_file: Vec<PathBuf>,
    /// Lead a port of the machine to one of the pod: 8080:80,
    /// 127.0.0.1:53:53/udp
    #[arg(short, long, value_name = "PORT", value_parser = checked::<PortMapping>)]
    port: Vec<String>,
    /// Mount /folder:/target, NAME:/target or pool=NAME:/target, with :ro to
    /// read only. Folders are those of the node's machine
    #[arg(short, long, value_name = "VOLUME")]
    volume: Vec<VolumeArg>,
    /// Mount memory: /target or /target:SIZE; 64MiB unless told
    #[arg(long, value_name = "TARGET")]
    tmpfs: Vec<TmpfsArg>,

    /// At most so many cpus' worth of time: 0.5 or 500m
    #[arg(long, value_name = "N")]
    cpu: Option<Millicpus>,
    /// Killed beyond this
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// What it may write to its own root
    #[arg(long, value_name = "SIZE")]
    disk: Option<Bytes>,
    /// At most so many processes and threads
    #[arg(long, value_name = "N")]
    pids: Option<u64>,
    /// Its weight when cpus are short, 2 to 262144; 1024 unless told
    #[arg(long, value_name = "N", default_value_t, hide_default_value = true)]
    cpu_shares: u64,

    /// user[:group] instead of the image's
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The folder it starts in
    #[arg(long, value_name = "FOLDER")]
    workdir: Option<String>,
    /// Instead of the image's entry point, split into words as a shell would
    #[arg(long, value_name = "STRING")]
    entrypoint: Option<String>,
    /// What it calls itself; its name unless told
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    /// The node's bridge, the machine's own network, or a loopback alone
    #[arg(long, value_enum, default_value_t)]
    network: Network,
    /// The address it wants from the node's subnet
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,

    /// Give a capability beyond the usual: NET_ADMIN, or ALL
    #[arg(long, value_name = "CAP", value_delimiter = ',')]
    cap_add: Vec<String>,
    /// Take a capability away, or ALL, before others are added
    #[arg(long, value_name = "CAP", value_delimiter = ',')]
    cap_drop: Vec<String>,
    /// Do not filter system calls
    #[arg(long)]
    any_system_call: bool,
    /// Let programs gain privileges, as sudo does
    #[arg(long)]
    privilege_escalation: bool,
    /// Nothing of its root can be changed
    #[arg(long)]
    read_only: bool,
    /// Make its program PID 1, as systemd, s6 and busybox init have to be
    ///
    /// [default: an init of Strata's, which reaps and passes signals on]
    #[arg(long)]
    no_init: bool,
    /// Whose users it has: its own, unprivileged on the host, or the host's
    ///
    /// The users of the host are for admins. [default: own, and host with
    /// --network host]
    #[arg(long, value_name = "USERS", num_args = 0..=1, require_equals = true, default_missing_value = "own")]
    user_namespace: Option<UsersArg>,
    /// A limit of each process: nofile=1024:4096
    #[arg(long, value_name = "LIMIT", value_parser = checked::<Rlimit>)]
    ulimit: Vec<String>,
    /// A setting of its own kernel namespaces: net.core.somaxconn=1024
    #[arg(long, value_name = "KEY=VALUE", value_parser = checked::<Sysctl>)]
    sysctl: Vec<String>,

    // Not a struct of its own: the parser cannot exclude what is nested.
    /// Do not use the image's own health check
    #[arg(long, conflicts_with = "probe")]
    no_health: bool,
    /// It works when this exits with 0 in it
    #[arg(long, value_name = "COMMAND", group = "probe")]
    health_exec: Option<String>,
    /// It works when it answers on PORT[/path] with 200 to 399
    #[arg(long, value_name = "PORT", group = "probe")]
    health_http: Option<HttpProbeArg>,
    /// It works when it takes connections on this port
    #[arg(long, value_name = "PORT", group = "probe")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    health_tcp: Option<u16>,
    /// Between two questions; 10s unless told
    #[arg(long, value_name = "DURATION", requires = "probe")]
    health_interval: Option<Span>,
    /// How long an answer may take; 5s unless told
    #[arg(long, value_name = "DURATION", requires = "probe")]
    health_timeout: Option<Span>,
    /// So many failures in a row make it unhealthy; 3 unless told
    #[arg(long, value_name = "N", requires = "probe")]
    health_retries: Option<u32>,
    /// Failures do not count for so long after its start
    #[arg(long, value_name = "DURATION", requires = "probe")]
    health_start_period: Option<Span>,

    /// What to do when it ends by itself; on-failure unless told
    #[arg(long, value_enum, value_name = "WHEN")]
    restart: Option<Restart>,
    /// Between its stop signal and SIGKILL; 10s unless told
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,
    /// Keep its input open, for `pod attach -i`
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Give it a terminal
    #[arg(short, long)]
    pub(super) tty: bool,
    /// key=value, to find it by; can be repeated
    #[arg(short, long, value_name = "LABEL")]
    label: Vec<LabelArg>,
    /// When to fetch the image
    #[arg(long, value_enum, default_value_t)]
    pull: Pull,
}

impl Wanted {
    /// The pod that was described; `restart` where nothing was said of it.
    pub(super) fn view(self, restart: Restart) -> Result<PodSpecView> {
        let health = self.health()?;
        let (Some(name), Some(image)) = (self.name, self.image) else {
            return Err(Failure::new(Exit::Usage, "no pod was named"));
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
            entrypoint: self.entrypoint.map_or(Ok(Vec::new()), |e| words(&e))?,
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
        let exec = self.health_exec.as_deref().map(words).transpose()?;
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
fn words(text: &str) -> Result<Vec<String>> {
    CommandLine::from_field("command", text)
        .map(Into::into)
        .map_err(|why| Failure::new(Exit::Usage, why.to_string()))
}
