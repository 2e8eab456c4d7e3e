//! What an instance is to be, in flags. The same flags make one and change
//! one: what is not said stays as it is.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use strata_types::CommandLine;
use strata_types::instance::{
    HealthSpec, InstanceKind, InstanceSpec, PolicyName, Resources, SpreadRule,
};
use strata_types::pod::{PortMapping, RestartPolicy};

use crate::failure::{Exit, Failure, Result};
use crate::values::{
    Bytes, EnvironmentArg, GpuArg, HttpProbeArg, LabelChange, Millicpus, PreferArg, Span, UsersArg,
    checked, environment_file,
};
use crate::view::Restart;

/// Type of an instance.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Container,
    Vm,
}

/// Scoring policy among feasible nodes.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Policy {
    /// The node with the least free capacity.
    BinPack,
    /// The node with the most free capacity.
    Spread,
}

/// Specification flags, flattened into the commands that create or update one.
#[derive(Args, Debug, Default)]
pub(crate) struct SpecArgs {
    /// Image reference: nginx:1.27, x@sha256:…, oci:PATH, docker-archive:PATH;
    /// for a VM a disk image on the node
    #[arg(short, long, value_name = "URI")]
    pub(crate) image: Option<String>,
    /// Type [default: container]
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    kind: Option<Kind>,
    /// Command and arguments, overriding those of the image
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<String>,
    /// Entry point, overriding that of the image; split into words like a shell
    /// does
    #[arg(long, value_name = "STRING")]
    command: Option<String>,

    /// CPU request and limit, e.g. 0.5 or 500m
    #[arg(long, value_name = "N")]
    cpu: Option<Millicpus>,
    /// Memory request and limit, counted in MB
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Maximum number of processes and threads [default: that of the project,
    /// else 4096]
    #[arg(long, value_name = "N")]
    pids: Option<u32>,
    /// Disk request and limit, counted in GB
    #[arg(long, value_name = "SIZE")]
    disk: Option<Bytes>,
    /// GPUs, all of one kind: 1, 2:a100
    #[arg(long, value_name = "N[:KIND]")]
    gpus: Option<GpuArg>,

    /// Set an environment variable; KEY alone copies yours; repeatable
    #[arg(short, long, value_name = "KEY[=VALUE]")]
    env: Vec<EnvironmentArg>,
    /// File with one environment variable per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    env_file: Vec<PathBuf>,
    /// Remove an environment variable; repeatable
    #[arg(long, value_name = "KEY")]
    unset_env: Vec<String>,
    /// Publish a port: HOST:CONTAINER[/udp]. Repeatable; replaces existing
    /// ports on update
    #[arg(short, long, value_name = "PORT", value_parser = checked::<PortMapping>)]
    port: Vec<String>,
    /// Mount a volume: NAME:/target, pool=NAME:/target, /directory:/target or
    /// memory=64:/target, with :ro for read-only; pool=NAME is a disk of a VM.
    /// Repeatable; replaces existing mounts on update
    #[arg(short, long, value_name = "VOLUME")]
    volume: Vec<String>,
    /// Pass a secret of the project: NAME for /run/secrets/NAME, NAME:/path or
    /// VARIABLE=NAME. Repeatable; replaces existing secrets on update
    #[arg(long, value_name = "SECRET")]
    secret: Vec<String>,
    /// User to run as, user[:group], overriding that of the image
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Working directory
    #[arg(long, value_name = "DIRECTORY")]
    workdir: Option<String>,
    /// User data for cloud-init in a VM
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    user_data: Option<PathBuf>,

    /// Health check: command in the container; healthy if it exits with 0
    #[arg(long, value_name = "COMMAND", group = "probe")]
    health_exec: Option<String>,
    /// Health check: HTTP GET to PORT[/path]; healthy on status 200 to 399
    #[arg(long, value_name = "PORT", group = "probe")]
    health_http: Option<HttpProbeArg>,
    /// Health check: TCP port; healthy if it accepts connections
    #[arg(long, value_name = "PORT", group = "probe")]
    health_tcp: Option<u16>,

    /// User namespace: its own, unprivileged on the host, or that of the host
    ///
    /// The user namespace of the host is for admins only. [default: own]
    #[arg(long, value_name = "USERS", num_args = 0..=1, require_equals = true, default_missing_value = "own")]
    user_namespace: Option<UsersArg>,
    /// Allow programs to gain privileges, as sudo does
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    privilege_escalation: Option<bool>,
    /// Whether an init runs as PID 1; false for programs that must be PID 1,
    /// such as busybox init [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    init: Option<bool>,
    /// Restart policy [default: on-failure]
    #[arg(long, value_enum, value_name = "WHEN")]
    restart: Option<Restart>,
    /// Time between the stop signal and SIGKILL [default: 10s]
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,
    /// Label: key=value sets it, key- removes it; repeatable
    #[arg(short, long, value_name = "LABEL")]
    label: Vec<LabelChange>,

    /// Required node selector: zone=eu, zone!=eu, 'zone in (a, b)', ssd, !ssd,
    /// node=NAME. Repeatable; replaces existing ones on update
    #[arg(long, value_name = "TEST", help_heading = "Placement")]
    constraint: Vec<String>,
    /// Preferred node selector and its weight. Repeatable; replaces existing
    /// ones on update
    #[arg(long, value_name = "TEST[:WEIGHT]", help_heading = "Placement")]
    prefer: Vec<PreferArg>,
    /// Spread evenly among instances with the same labels: over node, or a node
    /// label such as zone
    #[arg(long, value_name = "LABEL", help_heading = "Placement")]
    spread: Vec<String>,
    /// Priority; higher is scheduled first
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        help_heading = "Placement"
    )]
    priority: Option<i32>,
    /// Allow preempting instances of lower priority
    #[arg(long, help_heading = "Placement")]
    preempts: bool,
    /// Scoring policy among feasible nodes [default: that of the server]
    #[arg(long, value_enum, value_name = "POLICY", help_heading = "Placement")]
    policy: Option<Policy>,
}

impl SpecArgs {
    /// Applies the given flags to `spec`.
    pub(crate) fn over(self, spec: &mut InstanceSpec) -> Result {
        let health = self.health()?;
        if let Some(image) = self.image {
            spec.uri = image;
        }
        if let Some(kind) = self.kind {
            spec.kind = match kind {
                Kind::Container => InstanceKind::Container,
                Kind::Vm => InstanceKind::Vm,
            };
        }
        some(&mut spec.arguments, self.words);
        if let Some(command) = &self.command {
            spec.command = split_words("--command", command)?;
        }
        amounts(&mut spec.resources, self.cpu, self.memory, self.disk)?;
        spec.pids = self.pids.or(spec.pids);
        let mut environment = Vec::new();
        for file in &self.env_file {
            environment.extend(environment_file(file)?);
        }
        environment.extend(self.env);
        for variable in environment.iter().filter_map(EnvironmentArg::of_process) {
            set(&mut spec.environment, variable);
        }
        spec.environment
            .retain(|variable| !self.unset_env.iter().any(|key| key == key_of(variable)));
        some(&mut spec.ports, self.port);
        some(&mut spec.volumes, self.volume);
        some(&mut spec.secrets, self.secret);
        spec.user = self.user.or(spec.user.take());
        spec.working_directory = self.workdir.or(spec.working_directory.take());
        if let Some(file) = &self.user_data {
            let text = std::fs::read_to_string(file);
            spec.user_data = Some(text.map_err(|why| Failure::file("read", file, &why))?);
        }
        spec.health = health.or(spec.health.take());
        if let Some(users) = self.user_namespace {
            spec.security.user_namespace = Some(users.are_own());
        }
        let may_escalate = &mut spec.security.privilege_escalation;
        *may_escalate = self.privilege_escalation.unwrap_or(*may_escalate);
        spec.init = self.init.or(spec.init);
        if let Some(restart) = self.restart {
            spec.restart = match restart {
                Restart::OnFailure => RestartPolicy::OnFailure,
                Restart::Always => RestartPolicy::Always,
                Restart::Never => RestartPolicy::Never,
            };
        }
        if let Some(grace) = self.grace {
            let seconds = grace.0.as_secs_f64().ceil();
            spec.stop_grace_seconds = Some(seconds.min(f64::from(u32::MAX)) as u32);
        }
        for LabelChange(key, value) in self.label {
            match value {
                Some(value) => drop(spec.labels.insert(key, value)),
                None => drop(spec.labels.remove(&key)),
            }
        }
        let rules = &mut spec.placement;
        some(&mut rules.constraints, self.constraint);
        let preferences = self.prefer.into_iter().map(|prefer| prefer.0).collect();
        some(&mut rules.preferences, preferences);
        some(
            &mut rules.spread,
            self.spread.into_iter().map(spread).collect(),
        );
        rules.gpus = self.gpus.map(|gpus| gpus.0).or(rules.gpus.take());
        rules.priority = self.priority.unwrap_or(rules.priority);
        rules.preempts |= self.preempts;
        if let Some(policy) = self.policy {
            rules.policy = Some(match policy {
                Policy::BinPack => PolicyName::BinPack,
                Policy::Spread => PolicyName::Spread,
            });
        }
        Ok(())
    }

    fn health(&self) -> Result<Option<HealthSpec>> {
        let exec = match &self.health_exec {
            Some(command) => split_words("--health-exec", command)?,
            None => Vec::new(),
        };
        let health = HealthSpec {
            exec,
            http: self.health_http.as_ref().map(ToString::to_string),
            tcp: self.health_tcp,
            ..HealthSpec::default()
        };
        Ok((health != HealthSpec::default()).then_some(health))
    }
}

/// Replaces a list, if there is another.
fn some<T>(list: &mut Vec<T>, other: Vec<T>) {
    if !other.is_empty() {
        *list = other;
    }
}

fn key_of(variable: &str) -> &str {
    variable.split_once('=').map_or(variable, |(key, _)| key)
}

fn set(environment: &mut Vec<String>, variable: String) {
    let same = |other: &&mut String| key_of(other) == key_of(&variable);
    match environment.iter_mut().find(same) {
        Some(other) => *other = variable,
        None => environment.push(variable),
    }
}

fn spread(over: String) -> SpreadRule {
    SpreadRule {
        over,
        of: Default::default(),
        weight: 1,
        max_skew: None,
    }
}

/// In the units of the API, rounded up: what is asked for is not less.
fn amounts(
    resources: &mut Resources,
    cpu: Option<Millicpus>,
    memory: Option<Bytes>,
    disk: Option<Bytes>,
) -> Result {
    let units = |flag: &str, bytes: Bytes, unit: u64| {
        i32::try_from(bytes.0.div_ceil(unit))
            .map_err(|_| Failure::new(Exit::Usage, format!("{flag} {bytes} is too large")))
    };
    if let Some(Millicpus(cpu)) = cpu {
        resources.cpu = i32::try_from(cpu).unwrap_or(i32::MAX);
    }
    if let Some(memory) = memory {
        resources.memory = units("--memory", memory, 1_000_000)?;
    }
    if let Some(disk) = disk {
        resources.disk = units("--disk", disk, 1_000_000_000)?;
    }
    Ok(())
}

/// Splits a text into words.
fn split_words(flag: &str, text: &str) -> Result<Vec<String>> {
    CommandLine::from_field(flag, text)
        .map(Into::into)
        .map_err(|why| Failure::new(Exit::Usage, why.to_string()))
}
