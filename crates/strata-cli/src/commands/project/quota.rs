//! Quota and settings of a project, in flags.

use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use strata_api::rest::{Project, ProjectDefaults, Quota};

use crate::values::{Bytes, Millicpus, label_name};

/// A limit, or that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// An amount.
    Most(i64),
    /// No limit.
    None,
}

impl Limit {
    fn over(said: Option<Self>, before: Option<i64>) -> Option<i64> {
        match said {
            None => before,
            Some(Self::None) => None,
            Some(Self::Most(n)) => Some(n),
        }
    }
}

fn limit<T: FromStr<Err = String>>(text: &str, amount: impl Fn(T) -> u64) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit::None),
        "0" => Ok(Limit::Most(0)),
        text => {
            let amount = amount(text.parse()?);
            let most = i64::try_from(amount).map_err(|_| format!("{text:?} is too large"))?;
            Ok(Limit::Most(most))
        }
    }
}

fn cpu(text: &str) -> Result<Limit, String> {
    limit(text, |cpus: Millicpus| cpus.0.into())
}

fn memory(text: &str) -> Result<Limit, String> {
    limit(text, |size: Bytes| size.0.div_ceil(1_000_000))
}

fn disk(text: &str) -> Result<Limit, String> {
    limit(text, |size: Bytes| size.0.div_ceil(1_000_000_000))
}

fn count(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit::None),
        text => match text.parse::<u32>() {
            Ok(n) => Ok(Limit::Most(n.into())),
            Err(_) => Err(format!("{text:?} is neither a number nor none")),
        },
    }
}

/// Quota flags, flattened into the commands that create or update a project.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct QuotaArgs {
    /// CPU quota, e.g. 8 or 500m
    #[arg(long, value_name = "N", value_parser = cpu)]
    cpu: Option<Limit>,
    /// Memory quota
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<Limit>,
    /// Disk quota
    #[arg(long, value_name = "SIZE", value_parser = disk)]
    disk: Option<Limit>,
    /// Quota of processes and threads
    #[arg(long, value_name = "N", value_parser = count)]
    pids: Option<Limit>,
    /// Quota of instances
    #[arg(long, value_name = "N", value_parser = count)]
    instances: Option<Limit>,
}

impl QuotaArgs {
    /// Merges the given flags into the present settings.
    pub(super) fn over(self, before: Quota) -> Quota {
        Quota {
            cpu: Limit::over(self.cpu, before.cpu),
            memory: Limit::over(self.memory, before.memory),
            disk: Limit::over(self.disk, before.disk),
            pids: Limit::over(self.pids, before.pids),
            instances: Limit::over(self.instances, before.instances),
        }
    }
}

fn narrow<T: TryFrom<i64>>(said: Option<Limit>, before: Option<T>) -> Option<T> {
    match said {
        None => before,
        Some(Limit::None | Limit::Most(0)) => None,
        Some(Limit::Most(n)) => T::try_from(n).ok(),
    }
}

/// Settings of a project that only admins may change.
#[derive(Args, Clone, Debug)]
pub(super) struct RuleArgs {
    /// Default CPU of instances; none removes it
    #[arg(long, value_name = "N", value_parser = cpu)]
    default_cpu: Option<Limit>,
    /// Memory quota
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    default_memory: Option<Limit>,
    /// Disk quota
    #[arg(long, value_name = "SIZE", value_parser = disk)]
    default_disk: Option<Limit>,
    /// Quota of processes and threads
    #[arg(long, value_name = "N", value_parser = count)]
    default_pids: Option<Limit>,
    /// Allow instances of this project to connect and resolve names; repeatable
    #[arg(long, value_name = "PROJECT", value_parser = label_name)]
    allow_from: Vec<String>,
    /// Withdraw that permission; repeatable
    #[arg(long, value_name = "PROJECT", value_parser = label_name)]
    deny_from: Vec<String>,
    /// Whether callers limited to the project may publish ports below 1024 and
    /// ports that Strata itself uses
    #[arg(long, value_name = "true|false")]
    privileged_ports: Option<bool>,
}

/// What an admin says of a project, as REST has it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Settings {
    pub(super) quota: Quota,
    pub(super) defaults: ProjectDefaults,
    pub(super) allow_from: Vec<String>,
    pub(super) privileged_ports: bool,
}

impl From<&Project> for Settings {
    fn from(project: &Project) -> Self {
        Self {
            quota: project.quota,
            defaults: project.defaults,
            allow_from: project.allow_from.clone(),
            privileged_ports: project.privileged_ports,
        }
    }
}

impl RuleArgs {
    /// Merges the given flags into the present settings.
    pub(super) fn over(&self, quota: QuotaArgs, before: Settings) -> Settings {
        let mut allow_from = before.allow_from;
        allow_from.retain(|one| !self.deny_from.contains(one));
        allow_from.extend(self.allow_from.iter().cloned());
        allow_from.sort();
        allow_from.dedup();
        let own = before.defaults;
        Settings {
            quota: quota.over(before.quota),
            defaults: ProjectDefaults {
                cpu: narrow(self.default_cpu, own.cpu),
                memory: narrow(self.default_memory, own.memory),
                disk: narrow(self.default_disk, own.disk),
                pids: narrow(self.default_pids, own.pids),
            },
            allow_from,
            privileged_ports: self.privileged_ports.unwrap_or(before.privileged_ports),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_in_the_units_of_the_api_and_can_go() {
        assert_eq!(cpu("1.5"), Ok(Limit::Most(1500)));
        assert_eq!(memory("64GB"), Ok(Limit::Most(64_000)));
        assert_eq!(disk("1TB"), Ok(Limit::Most(1000)));
        assert_eq!(count("0"), Ok(Limit::Most(0)));
        for read in [cpu, memory, disk, count] {
            assert_eq!(read("none"), Ok(Limit::None));
            assert_eq!(read("0"), Ok(Limit::Most(0)));
            assert!(read("lots").is_err());
        }
    }
}
