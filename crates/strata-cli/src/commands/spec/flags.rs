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

/// What an instance is.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Container,
    Vm,
}

/// Which of the nodes that fit is taken.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Policy {
    /// The one with the least room left.
    BinPack,
    /// The one with the most room left.
    Spread,
}

/// Flatten this into what makes or changes a specification.
#[derive(Args, Debug, Default)]
pub(crate) struct SpecArgs {
    /// What it is made of: nginx:1.27, x@sha256:…, oci:PATH,
    /// docker-archive:PATH; for a VM a disk image of the node
    #[arg(short, long, value_name = "URI")]
    pub(crate) image: Option<String>,
    /// A container unless told
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    kind: Option<Kind>,
    /// Its command and arguments, instead of the image's
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<String>,
    /// Instead of the image's entry point, split into words as a shell would
    #[arg(long, value_name = "STRING")]
    command: Option<String>,

    /// Kept for it, and no more: so many cpus, as 0.5 or 500m
    #[arg(long, value_name = "N")]
    cpu: Option<Millicpus>,
    /// Kept for it, and no more; counted in MB
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// It may have so many processes and threads at once [default: the
    /// project's, else 4096]
    #[arg(long, value_name = "N")]
    pids: Option<u32>,
    /// Kept for it, and no more; counted in GB
    #[arg(long, value_name = "SIZE")]
    disk: Option<Bytes>,
    /// GPUs, all of one kind: 1, 2:a100
    #[arg(long, value_name = "N[:KIND]")]
    gpus: Option<GpuArg>,

    /// Put into its environment; KEY alone takes your own
    #[arg(short, long, value_name = "KEY[=VALUE]")]
    env: Vec<EnvironmentArg>,
    /// A file with a variable in each line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    env_file: Vec<PathBuf>,
    /// Take out of its environment
    #[arg(long, value_name = "KEY")]
    unset_env: Vec<String>,
    /// Lead a port of its node to one of its own: 8080:80, 53:53/udp. All of
    /// them: those that it had go
    #[arg(short, long, value_name = "PORT", value_parser = checked::<PortMapping>)]
    port: Vec<String>,
    /// Mount NAME:/target, pool=NAME:/target, /folder:/target or
    /// memory=64:/target, with :ro to read only; pool=NAME is a disk of a VM.
    /// All of them
    #[arg(short, long, value_name = "VOLUME")]
    volume: Vec<String>,
    /// Give it a secret of the project: NAME, which is in /run/secrets/NAME,
    /// NAME:/path or VARIABLE=NAME. All of them
    #[arg(long, value_name = "SECRET")]
    secret: Vec<String>,
    /// user[:group] instead of the image's
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The folder it starts in
    #[arg(long, value_name = "FOLDER")]
    workdir: Option<String>,
    /// What cloud-init in a VM reads
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    user_data: Option<PathBuf>,

    /// It works when this exits with 0 in it
    #[arg(long, value_name = "COMMAND", group = "probe")]
    health_exec: Option<String>,
    /// It works when it answers on PORT[/path] with 200 to 399
    #[arg(long, value_name = "PORT", group = "probe")]
    health_http: Option<HttpProbeArg>,
    /// It works when it takes connections on this port
    #[arg(long, value_name = "PORT", group = "probe")]
    health_tcp: Option<u16>,

    /// Whose users it has: its own, unprivileged on the host, or the host's
    ///
    /// The users of the host are for admins. [default: own]
    #[arg(long, value_name = "USERS", num_args = 0..=1, require_equals = true, default_missing_value = "own")]
    user_namespace: Option<UsersArg>,
    /// Let programs gain privileges, as sudo does
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    privilege_escalation: Option<bool>,
    /// Whether an init of Strata's is PID 1, or its own program, as systemd, s6
    /// and busybox init have to be [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    init: Option<bool>,
    /// What to do when it ends by itself; on-failure unless told
    #[arg(long, value_enum, value_name = "WHEN")]
    restart: Option<Restart>,
    /// Between its stop signal and SIGKILL; 10s unless told
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,
    /// key=value, to find it by; key- takes one away
    #[arg(short, long, value_name = "LABEL")]
    label: Vec<LabelChange>,

    /// What its node must be: zone=eu, zone!=eu, 'zone in (a, b)', ssd, !ssd,
    /// node=NAME. All of them
    #[arg(long, value_name = "TEST", help_heading = "Placement")]
    constraint: Vec<String>,
    /// What its node should be, and how much that is worth. All of them
    #[arg(long, value_name = "TEST[:WEIGHT]", help_heading = "Placement")]
    prefer: Vec<PreferArg>,
    /// Evenly with those of the same labels: over node, or a label as zone
    #[arg(long, value_name = "LABEL", help_heading = "Placement")]
    spread: Vec<String>,
    /// Higher goes first
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        help_heading = "Placement"
    )]
    priority: Option<i32>,
    /// May take the place of others of lower priority
    #[arg(long, help_heading = "Placement")]
    preempts: bool,
    /// Which of the nodes that fit is taken; the server's unless told
    #[arg(long, value_enum, value_name = "POLICY", help_heading = "Placement")]
    policy: Option<Policy>,
}

impl SpecArgs {
    /// Puts what was said into `spec`.
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
            spec.command = words("--command", command)?;
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
            Some(command) => words("--health-exec", command)?,
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
        i32::try_from(bytes.0.div_ceil(unit)).map_err(|_| {
            Failure::new(
                Exit::Usage,
                format!("{flag} {bytes} is more than there can be"),
            )
        })
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
fn words(flag: &str, text: &str) -> Result<Vec<String>> {
    CommandLine::from_field(flag, text)
        .map(Into::into)
        .map_err(|why| Failure::new(Exit::Usage, why.to_string()))
}
