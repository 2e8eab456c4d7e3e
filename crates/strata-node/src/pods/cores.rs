//! What a pod that crashes leaves behind. A core is the memory of a process,
//! with every secret in it, in the clear: so there is none by default. The init
//! of a cell begins with a soft limit that leaves none; what is decided here is
//! how far a pod may raise it.
//!
//! Where `core_pattern` names a file, a core is in the pod's own root, within
//! its disk limit, and a pod may request one by `ulimit -c`. Where it names a
//! program or a socket of the host, a core leaves the pod, and a hostile one
//! feeds a program that runs as root: then only the specification may allow it.

use rustix::process::Resource;
use strata_types::pod::PodSpec;

/// No core. With 0 the kernel still starts the program of a `core_pattern`
/// that begins with `|`, with the whole memory as its input; 1 is refused to
/// programs, and is too little for a file.
const NONE: u64 = 1;

const CORE: u32 = Resource::Core as u32;

/// Where this host has cores put.
pub(super) fn pattern() -> String {
    std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default()
}

/// Resource limits of a pod as the kernel takes them.
pub(super) fn limits(spec: &PodSpec, pattern: &str) -> Vec<(u32, u64, u64)> {
    let named = spec.rlimits.iter().map(|limit| match limit.resource {
        CORE => (CORE, limit.soft.max(NONE), limit.hard.max(NONE)),
        other => (other, limit.soft, limit.hard),
    });
    let mut limits: Vec<_> = named.collect();
    let names_cores = limits.iter().any(|(resource, ..)| *resource == CORE);
    if !names_cores && leaves_the_pod(pattern) {
        limits.push((CORE, NONE, NONE));
    }
    limits
}

/// Whether a core goes to a program or a socket of the host.
fn leaves_the_pod(pattern: &str) -> bool {
    pattern.starts_with(['|', '@'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(limits: &[(u32, u64, u64)]) -> PodSpec {
        let mut spec = PodSpec::new("web".parse().unwrap(), "x");
        let limits = limits.iter().copied();
        spec.rlimits = limits
            .map(|(resource, soft, hard)| strata_types::pod::Rlimit {
                resource,
                soft,
                hard,
            })
            .collect();
        spec
    }

    #[test]
    fn pod_cannot_reach_a_core_program_of_the_host_by_default() {
        let none = [(CORE, 1, 1)];
        for pattern in ["|/usr/lib/systemd/systemd-coredump %P", "@/run/cores.sock"] {
            assert_eq!(limits(&spec(&[]), pattern), none, "{pattern}");
        }
        for pattern in ["core\n", "/var/crash/core.%p", ""] {
            assert!(limits(&spec(&[]), pattern).is_empty(), "{pattern}");
        }
    }

    #[test]
    fn limit_of_the_specification_counts_and_zero_is_none() {
        let named = [(CORE, 4096, u64::MAX), (7, 64, 128)];
        assert_eq!(limits(&spec(&named), "|/bin/x"), named);
        assert_eq!(limits(&spec(&[(CORE, 0, 0)]), "core"), [(CORE, 1, 1)]);
    }
}
