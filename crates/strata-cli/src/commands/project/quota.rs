//! What a project may have in all, in flags.

use std::str::FromStr;

use clap::Args;
use strata_api::rest::Quota;

use crate::values::{Bytes, Millicpus};

/// A limit, or that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// So much.
    Most(i64),
    /// As much as there is.
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
            let most = i64::try_from(amount).map_err(|_| format!("{text:?} is too much"))?;
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
            Err(_) => Err(format!("{text:?} is no number of instances, nor none")),
        },
    }
}

/// Flatten this into what makes or changes a project.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct QuotaArgs {
    /// All its instances together may have so many cpus, as 8 or 500m
    #[arg(long, value_name = "N", value_parser = cpu)]
    cpu: Option<Limit>,
    /// … so much memory
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<Limit>,
    /// … so much disk
    #[arg(long, value_name = "SIZE", value_parser = disk)]
    disk: Option<Limit>,
    /// There may be so many of them
    #[arg(long, value_name = "N", value_parser = count)]
    instances: Option<Limit>,
}

impl QuotaArgs {
    /// What was said, over what was before.
    pub(super) fn over(self, before: Quota) -> Quota {
        Quota {
            cpu: Limit::over(self.cpu, before.cpu),
            memory: Limit::over(self.memory, before.memory),
            disk: Limit::over(self.disk, before.disk),
            instances: Limit::over(self.instances, before.instances),
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
