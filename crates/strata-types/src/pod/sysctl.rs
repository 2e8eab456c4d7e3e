//! Kernel settings that belong to a pod's own namespaces.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Settings outside `net.` that are a namespace's own.
const IPC: [&str; 8] = [
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
];

/// A setting and its value: `net.ipv4.ip_unprivileged_port_start=0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sysctl {
    name: String,
    value: String,
}

impl Sysctl {
    /// The setting, parts joined by dots.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn value(&self) -> &str {
        &self.value
    }
}

impl FromStr for Sysctl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown: String = text.chars().take(80).collect();
        let bad =
            || format!("{shown:?} is not a setting: expected one such as net.core.somaxconn=1024");
        let (name, value) = text.split_once('=').ok_or_else(bad)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let is_name = !name.is_empty()
            && name.len() <= 200
            && name.bytes().all(plain)
            && !name.split('.').any(str::is_empty);
        if !is_name || value.len() > 1000 || value.contains('\0') {
            return Err(bad());
        }
        let own = name.starts_with("net.") || name.starts_with("fs.mqueue.") || IPC.contains(&name);
        if !own {
            return Err(format!(
                "{name:?} is the machine's; a pod has net.*, fs.mqueue.* and kernel.{{msg*,sem,shm*}} of its own"
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl TryFrom<String> for Sysctl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Sysctl> for String {
    fn from(sysctl: Sysctl) -> Self {
        sysctl.to_string()
    }
}

impl fmt::Display for Sysctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_namespaces_are_taken() {
        for good in [
            "net.core.somaxconn=1024",
            "kernel.shmmax=1",
            "fs.mqueue.msg_max=10",
        ] {
            assert_eq!(good.parse::<Sysctl>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "net.x",
            "kernel.panic=1",
            "vm.swappiness=1",
            "net/../kernel=1",
            "net..x=1",
        ] {
            assert!(bad.parse::<Sysctl>().is_err(), "{bad:?}");
        }
    }
}
