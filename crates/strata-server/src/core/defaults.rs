//! What an instance gets where its specification names no amount. Outside of
//! quotas 0 means "not limited", as the published documents say; inside of a
//! quota it cannot mean that, or an instance that requests nothing gets
//! everything. So where a project has a quota of something, or a default for
//! it, an instance that names none of it gets the default: that is written into
//! its specification, counted, reserved and enforced like any other amount.
//!
//! The record remembers which amounts were defaults, so that the same request
//! again is known to be the same, also after the defaults changed.

use serde::{Deserialize, Serialize};
use strata_types::instance::{InstanceKind, InstanceSpec};
use strata_types::pod::DEFAULT_PIDS;
use strata_types::project::{ProjectDefaults, Quota};
use strata_types::{Error, Result};

use super::record::ProjectSettings;

/// Thousandths of a core, where a project has a quota and names no default.
pub const DEFAULT_CPU: i32 = 500;
/// MB, likewise.
pub const DEFAULT_MEMORY: i32 = 256;
/// GB, likewise.
pub const DEFAULT_DISK: i32 = 4;

/// Which amounts of a specification are defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Defaulted {
    cpu: bool,
    memory: bool,
    disk: bool,
    pids: bool,
}

/// Refuses defaults that no instance could have.
pub(crate) fn check_defaults(defaults: &ProjectDefaults) -> Result<()> {
    let mut spec = InstanceSpec {
        uri: "x".into(),
        pids: defaults.pids,
        ..InstanceSpec::default()
    };
    let own = &mut spec.resources;
    own.cpu = defaults.cpu.unwrap_or(0);
    own.memory = defaults.memory.unwrap_or(0);
    own.disk = defaults.disk.unwrap_or(0);
    spec.check().map_err(|error| {
        let field = error.field().unwrap_or_default();
        let field = field.strip_prefix("resources.").unwrap_or(field);
        let field = format!("defaults.{field}");
        error.in_field(field)
    })
}

impl Defaulted {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The specification as it was requested.
    pub(crate) fn without(self, spec: &InstanceSpec) -> InstanceSpec {
        let mut spec = spec.clone();
        let amounts = &mut spec.resources;
        for (defaulted, amount) in [
            (self.cpu, &mut amounts.cpu),
            (self.memory, &mut amounts.memory),
            (self.disk, &mut amounts.disk),
        ] {
            if defaulted {
                *amount = 0;
            }
        }
        if self.pids {
            spec.pids = None;
        }
        spec
    }

    /// Of a specification that came of one with these: what was a default and
    /// is as it was, is one still.
    pub(crate) fn still(self, before: &InstanceSpec, after: &InstanceSpec) -> Self {
        let (old, new) = (&before.resources, &after.resources);
        Self {
            cpu: self.cpu && old.cpu == new.cpu,
            memory: self.memory && old.memory == new.memory,
            disk: self.disk && old.disk == new.disk,
            pids: self.pids && before.pids == after.pids,
        }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            cpu: self.cpu || other.cpu,
            memory: self.memory || other.memory,
            disk: self.disk || other.disk,
            pids: self.pids || other.pids,
        }
    }

    /// Whether this amount is a default.
    pub(crate) fn is(self, what: &str) -> bool {
        match what {
            "cpu" => self.cpu,
            "memory" => self.memory,
            "disk" => self.disk,
            "pids" => self.pids,
            _ => false,
        }
    }
}

impl ProjectSettings {
    /// Gives a specification what it names no amount of. `limited` is a caller
    /// who is limited to projects: the root of its instances is bounded also
    /// without a quota.
    pub(crate) fn apply_defaults(&self, spec: &mut InstanceSpec, limited: bool) -> Defaulted {
        let (quota, own) = (&self.quota, &self.defaults);
        let mut defaulted = Defaulted::default();
        let amounts = &mut spec.resources;
        for (amount, mark, own, bounded, usual) in [
            (
                &mut amounts.cpu,
                &mut defaulted.cpu,
                own.cpu,
                quota.cpu.is_some(),
                DEFAULT_CPU,
            ),
            (
                &mut amounts.memory,
                &mut defaulted.memory,
                own.memory,
                quota.memory.is_some(),
                DEFAULT_MEMORY,
            ),
            (
                &mut amounts.disk,
                &mut defaulted.disk,
                own.disk,
                quota.disk.is_some() || limited,
                DEFAULT_DISK,
            ),
        ] {
            let default = own.filter(|n| *n > 0).or(bounded.then_some(usual));
            if *amount == 0
                && let Some(default) = default
            {
                *amount = default;
                *mark = true;
            }
        }
        if spec.kind == InstanceKind::Container && spec.pids.is_none() {
            let default = own.pids.or(quota.pids.map(|_| DEFAULT_PIDS));
            defaulted.pids = default.is_some();
            spec.pids = default;
        }
        defaulted
    }
}

/// Volumes of memory are part of what an instance may use of it: the kernel
/// counts them there. In a quota of memory they must fit.
pub(crate) fn check_memory_volumes(quota: &Quota, spec: &InstanceSpec) -> Result<()> {
    let (volumes, memory) = (spec.memory_volumes(), spec.resources.memory_bytes());
    if quota.memory.is_none() || volumes <= memory {
        return Ok(());
    }
    let why = format!(
        "hold {} MB in memory, and the instance may use {} MB of it in all",
        volumes.div_ceil(1_000_000),
        spec.resources.memory
    );
    Err(Error::invalid("volumes", why).with_hint("name more: resources.memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(change: impl FnOnce(&mut Quota)) -> ProjectSettings {
        let mut quota = Quota::default();
        change(&mut quota);
        quota.into()
    }

    #[test]
    fn unset_amounts_get_a_default_only_where_there_is_a_quota() {
        let mut spec = InstanceSpec::default();
        let none = ProjectSettings::default().apply_defaults(&mut spec, false);
        assert!(none.is_none() && spec == InstanceSpec::default());
        let settings = quota(|quota| quota.memory = Some(1000));
        let defaulted = settings.apply_defaults(&mut spec, false);
        assert_eq!(spec.resources.memory, DEFAULT_MEMORY);
        assert_eq!((spec.resources.cpu, spec.pids), (0, None));
        assert_eq!(defaulted.without(&spec), InstanceSpec::default());
    }

    #[test]
    fn named_amounts_stay_and_the_projects_default_comes_first() {
        let mut settings = quota(|quota| quota.pids = Some(100));
        settings.defaults.pids = Some(50);
        settings.defaults.cpu = Some(100);
        let mut spec = InstanceSpec::default();
        settings.apply_defaults(&mut spec, false);
        assert_eq!((spec.pids, spec.resources.cpu), (Some(50), 100));
        spec.pids = Some(70);
        let defaulted = settings.apply_defaults(&mut spec, false);
        assert!(spec.pids == Some(70) && !defaulted.is("pids"));
    }

    #[test]
    fn roots_of_limited_callers_are_bounded_without_a_quota() {
        let mut spec = InstanceSpec::default();
        ProjectSettings::default().apply_defaults(&mut spec, true);
        assert_eq!(spec.resources.disk, DEFAULT_DISK);
    }

    #[test]
    fn volumes_of_memory_must_fit_into_the_memory_of_a_quota() {
        let mut spec = InstanceSpec {
            volumes: vec!["memory=64:/a".into(), "memory=64:/b".into()],
            ..InstanceSpec::default()
        };
        spec.resources.memory = 100;
        let bounded = quota(|quota| quota.memory = Some(1000)).quota;
        assert!(check_memory_volumes(&bounded, &spec).is_err());
        assert!(check_memory_volumes(&Quota::default(), &spec).is_ok());
        spec.resources.memory = 128;
        assert!(check_memory_volumes(&bounded, &spec).is_ok());
    }

    #[test]
    fn defaults_that_no_instance_could_have_are_refused_by_their_field() {
        let memory = Some(1);
        let error = check_defaults(&ProjectDefaults {
            memory,
            ..ProjectDefaults::default()
        });
        assert_eq!(error.unwrap_err().field(), Some("defaults.memory"));
        let pids = Some(1);
        let error = check_defaults(&ProjectDefaults {
            pids,
            ..ProjectDefaults::default()
        });
        assert_eq!(error.unwrap_err().field(), Some("defaults.pids"));
        assert!(check_defaults(&ProjectDefaults::default()).is_ok());
    }
}
