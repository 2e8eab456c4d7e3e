//! What a cluster takes of memory on our side: in the process that serves, and
//! on each machine in the node and the agent. Kubernetes itself is not ours.

use std::fs;
use std::path::Path;

use strata_testkit::Node;

use crate::Result;
use crate::daemon::resident_kb;

/// Of one process, in kilobytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    /// With the pages of the binary that it has touched, which all share.
    pub(crate) resident: u64,
    /// What no file has. Not the private dirty pages: of a binary that was
    /// written a moment ago, all are.
    pub(crate) own: u64,
}

impl Memory {
    pub(crate) fn of(pid: impl std::fmt::Display) -> Result<Self> {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let number = |line: &str| {
            let rest = line.strip_prefix("Anonymous:")?;
            rest.trim().strip_suffix(" kB")?.parse().ok()
        };
        let own = rollup.lines().find_map(number);
        Ok(Self {
            resident: resident_kb(pid)?,
            own: own.ok_or("no anonymous size")?,
        })
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} | {}", megabytes(self.own), megabytes(self.resident))
    }
}

pub(crate) fn megabytes(kilobytes: u64) -> String {
    format!("{:.1} MB", kilobytes as f64 / 1024.0)
}

/// The node and the agent of every machine that has an agent.
pub(crate) async fn on_machines(node: &Node) -> Result<Vec<(String, Memory)>> {
    let mut found = Vec::new();
    for machine in node.machines().await? {
        let pid = machine.process_id.to_string();
        let name = machine.spec.map(|spec| spec.name).unwrap_or_default();
        if let Some(agent) = agent_beside(&pid)? {
            found.push((format!("node of {name}"), Memory::of(&pid)?));
            found.push((format!("agent of {name}"), Memory::of(agent)?));
        }
    }
    Ok(found)
}

/// The agent in the network of this process. Processes come and go meanwhile:
/// what cannot be read is not it.
fn agent_beside(pid: &str) -> Result<Option<String>> {
    let network = |pid: &str| fs::read_link(Path::new("/proc").join(pid).join("ns/net"));
    let own = network(pid)?;
    for entry in fs::read_dir("/proc")?.flatten() {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = words.split(|byte| *byte == 0);
        if !words.any(|word| word == b"cluster-agent") {
            continue;
        }
        let other = entry.file_name().to_string_lossy().into_owned();
        if network(&other).is_ok_and(|it| it == own) {
            return Ok(Some(other));
        }
    }
    Ok(None)
}
