//! Capabilities: the pieces that root's power is cut into.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// In the order of their numbers.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// What root has in a pod by default: what ordinary servers need
/// and nothing that reaches out of the pod. No MKNOD: with it, root of a pod
/// could open the machine's disks. No NET_RAW: it makes packets of any sender,
/// and `ping` does without it.
///
/// AUDIT_WRITE is for `sshd`, `su` and `sudo`, which end a session they cannot
/// put on record. In a user namespace the kernel has no audit log to write to.
const DEFAULT: [&str; 12] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability(u8);

impl Capability {
    /// Its bit in a set.
    fn bit(self) -> u64 {
        1 << self.0
    }
}

impl FromStr for Capability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("CAP_").unwrap_or(&upper);
        let at = NAMES.iter().position(|known| *known == name);
        at.map(|n| Self(n as u8)).ok_or_else(|| {
            let text: String = text.chars().take(80).collect();
            format!("{text:?} is not a capability: expected a name such as NET_ADMIN")
        })
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(NAMES[usize::from(self.0)])
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Capabilities(u64);

impl Capabilities {
    /// The default with some taken away, then some added. `ALL` stands for
    /// every capability in either list.
    pub fn from_lists<S: AsRef<str>>(drop: &[S], add: &[S]) -> Result<Self, String> {
        let set = |names: &[S]| {
            names.iter().try_fold(0, |set, name| match name.as_ref() {
                "ALL" | "all" => Ok(Self::all().0),
                name => name.parse::<Capability>().map(|one| set | one.bit()),
            })
        };
        Ok(Self((Self::default().0 & !set(drop)?) | set(add)?))
    }

    /// Every capability there is.
    pub fn all() -> Self {
        Self((1 << NAMES.len()) - 1)
    }

    /// One bit for each, as the kernel numbers them.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Whether a capability is in the set.
    pub fn contains(self, one: Capability) -> bool {
        self.0 & one.bit() != 0
    }

    /// Those in the set, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        (0..NAMES.len() as u8)
            .map(Capability)
            .filter(move |one| self.contains(*one))
    }
}

impl Default for Capabilities {
    fn default() -> Self {
        let bit = |name: &str| {
            NAMES
                .iter()
                .position(|known| *known == name)
                .map_or(0, |n| 1 << n)
        };
        Self(DEFAULT.iter().fold(0, |set, name| set | bit(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_small_and_known() {
        assert_eq!(Capabilities::default().iter().count(), DEFAULT.len());
        // As the kernel prints it in CapBnd.
        assert_eq!(
            format!("{:016x}", Capabilities::default().bits()),
            "00000000a00405fb"
        );
    }

    #[test]
    fn lists_take_away_first_and_then_add() {
        let only = Capabilities::from_lists(&["ALL"], &["cap_net_admin"]).unwrap();
        assert_eq!(
            only.iter().map(|c| c.to_string()).collect::<Vec<_>>(),
            ["NET_ADMIN"]
        );
        let less = Capabilities::from_lists(&["CHOWN"], &[]).unwrap();
        assert_eq!(less.bits(), Capabilities::default().bits() & !1);
        let all = Capabilities::from_lists(&["CHOWN"], &["ALL"]).unwrap();
        assert_eq!(all, Capabilities::all());
        let wrong = Capabilities::from_lists(&["NOPE"], &[]).unwrap_err();
        assert!(wrong.contains("\"NOPE\" is not a capability"), "{wrong}");
    }
}
