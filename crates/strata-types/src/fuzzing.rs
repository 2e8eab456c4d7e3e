//! Names, versions, ports and limits, as callers write them: fuzzed by `fuzz/`.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use crate::cluster::{KubernetesVersion, PodSecurityLevel};
use crate::instance::InstanceId;
use crate::machine::ProviderKind;
use crate::pod::{Alias, Capability, PodName, PortMapping, Rlimit, Sysctl};
use crate::{CellName, CommandLine, CpuSet, ExecutableName, Label, Role};

pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("names", names)];

/// What is read is written as it is read again.
fn comes_back<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(read) = text.parse::<T>() {
        let again = read.to_string().parse::<T>().ok();
        assert_eq!(again, Some(read), "{text:?}");
    }
}

fn names(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    comes_back::<Label>(text);
    comes_back::<CellName>(text);
    comes_back::<ExecutableName>(text);
    comes_back::<PodName>(text);
    comes_back::<Alias>(text);
    comes_back::<InstanceId>(text);
    comes_back::<KubernetesVersion>(text);
    comes_back::<PodSecurityLevel>(text);
    comes_back::<ProviderKind>(text);
    comes_back::<Role>(text);
    comes_back::<PortMapping>(text);
    comes_back::<Capability>(text);
    comes_back::<Rlimit>(text);
    comes_back::<Sysctl>(text);
    if let Ok(set) = CpuSet::try_from(text.to_owned()) {
        let again = CpuSet::try_from(set.to_string());
        assert_eq!(again.ok(), Some(set), "{text:?}");
    }
    let _ = CommandLine::from_field("command", text);
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        super::replay::replay(super::TARGETS);
    }
}
