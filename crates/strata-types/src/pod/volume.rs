//! What is mounted into a pod: directories of the machine, volumes that the node
//! keeps, volumes of the storage pool, memory.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, Label};

/// Where a volume comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeSource {
    /// A file or directory of the machine.
    #[serde(rename = "folder")]
    Directory(String),
    /// A volume of the node, made when it is first asked for, kept until it
    /// is removed.
    Named(Label),
    /// Memory of so many bytes, gone when the pod stops.
    Memory(u64),
    /// A volume of the storage pool, seen from every node that reaches it. No
    /// node makes it.
    Pool(Label),
}

/// Something mounted into a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Where it comes from.
    pub source: VolumeSource,
    /// Where it is in the pod.
    pub target: String,
    /// Nothing can be changed through it.
    pub read_only: bool,
}

/// Parts of a pod that volumes must not cover.
const TAKEN: [&str; 4] = ["/", "/proc", "/sys", "/dev"];

impl Volume {
    /// Where it is in the pod, without a `/` at the end.
    pub fn place(&self) -> &str {
        match self.target.trim_end_matches('/') {
            "" => "/",
            trimmed => trimmed,
        }
    }

    /// Refuses what cannot be mounted, naming the field.
    pub fn check(&self, field: &str) -> Result<(), Error> {
        check_target(&format!("{field}.target"), &self.target)?;
        match &self.source {
            VolumeSource::Directory(path) => check_path(&format!("{field}.folder"), path),
            VolumeSource::Memory(0..4096) => {
                let why = "is less than 4096 bytes";
                Err(Error::invalid(format!("{field}.memory_bytes"), why))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a place in a pod where nothing can be mounted, naming the field.
pub(super) fn check_target(field: &str, path: &str) -> Result<(), Error> {
    check_path(field, path)?;
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() || TAKEN.contains(&trimmed) {
        return Err(Error::invalid(field, format!("{path} is the pod's own")));
    }
    if trimmed.starts_with("/proc/") || trimmed.starts_with("/sys/") {
        let why = format!("{trimmed} is in a part that the kernel fills");
        return Err(Error::invalid(field, why));
    }
    Ok(())
}

fn check_path(field: &str, path: &str) -> Result<(), Error> {
    let shown: String = path.chars().take(80).collect();
    let why = match path {
        _ if !path.starts_with('/') => "does not begin with /",
        _ if path.len() >= 4096 => "is longer than 4095 bytes",
        _ if path.contains('\0') => "has a NUL character in it",
        _ if path.split('/').any(|part| part == ".." || part == ".") => "has . or .. in it",
        _ if path.contains("//") => "has // in it",
        _ => return Ok(()),
    };
    Err(Error::invalid(field, format!("{shown:?} {why}")))
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            VolumeSource::Directory(path) => write!(f, "{path}:{}", self.target)?,
            VolumeSource::Named(name) => write!(f, "{name}:{}", self.target)?,
            VolumeSource::Memory(bytes) => write!(f, "memory({bytes}):{}", self.target)?,
            VolumeSource::Pool(name) => write!(f, "pool={name}:{}", self.target)?,
        }
        f.write_str(if self.read_only { ":ro" } else { "" })
    }
}
