//! `strata.v1.Node`: what a node reports of itself, and its end.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use strata_api::strata::v1;
use strata_types::{Error, Result};
use tonic::{Request, Response, Status};

use super::status;
use crate::Node;
use crate::blocking::blocking;
use crate::nested_nodes::{SPAWNED_CPU, SPAWNED_MEMORY};

pub(super) struct NodeApi {
    node: Node,
}

impl NodeApi {
    pub(super) fn new(node: &Node) -> Self {
        Self { node: node.clone() }
    }

    fn info(node: &Node) -> v1::NodeInfo {
        let system = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        v1::NodeInfo {
            id: node.id.to_string(),
            version: node.config.version.clone(),
            hostname: text(system.nodename()),
            kernel: text(system.release()),
            cpus: cpus(),
            memory_bytes: kilobytes("/proc/meminfo", "MemTotal:")
                .min(told(SPAWNED_MEMORY).unwrap_or(u64::MAX)),
            started_at_ms: node.started_at_ms,
            cgroup_v2: node.cells.is_cgroup_v2(),
            owns_machine: node.config.machine_init.is_some(),
            resident_bytes: kilobytes("/proc/self/status", "VmRSS:"),
            data_dir: node.config.data_dir.display().to_string(),
            process_id: std::process::id().into(),
            program: program(),
            pool: node.pool.id().unwrap_or_default(),
            overlay_encryption: overlay_encryption(node),
        }
    }

    fn power_off(&self) -> Result<()> {
        let init = self.node.config.machine_init.ok_or_else(|| {
            Error::wrong_state("this node does not own its machine, so it cannot switch it off")
        })?;
        tracing::warn!("powering off the host");
        let pid = Pid::from_raw(init.cast_signed())
            .ok_or_else(|| Error::internal("the machine's init has no pid"))?;
        kill_process(pid, Signal::TERM)
            .map_err(|error| Error::internal(format!("cannot notify the host's init: {error}")))
    }
}

/// As people are shown it.
fn overlay_encryption(node: &Node) -> String {
    let told = node.network.overlay_encryption();
    match told.unencrypted_reason.is_empty() {
        true => "wireguard".to_owned(),
        false => format!("none: {}", told.unencrypted_reason),
    }
}

/// What the spawning node declared that this machine has; none where it is a
/// real one.
fn told(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn cpus() -> u32 {
    let there = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let given = told(SPAWNED_CPU).map_or(there, |millis| millis.div_ceil(1000));
    there.min(given) as u32
}

/// A line such as `VmRSS:  1234 kB`, in bytes.
/// The program that this is; nothing when its file is gone.
fn program() -> String {
    let path = std::env::current_exe().ok();
    let path = path.filter(|path| path.exists());
    path.map_or_else(String::new, |path| path.display().to_string())
}

fn kilobytes(file: &str, key: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let number = |line: &str| {
        line.strip_prefix(key)?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()
    };
    text.lines().find_map(number).unwrap_or(0u64) * 1024
}

#[tonic::async_trait]
impl v1::node_server::Node for NodeApi {
    async fn get_info(
        &self,
        _request: Request<v1::GetNodeInfoRequest>,
    ) -> Result<Response<v1::NodeInfo>, Status> {
        Ok(Response::new(blocking(|| Self::info(&self.node))))
    }

    async fn power_off(
        &self,
        _request: Request<v1::PowerOffRequest>,
    ) -> Result<Response<v1::PowerOffResponse>, Status> {
        self.power_off()
            .map(|()| Response::new(v1::PowerOffResponse {}))
            .map_err(status)
    }
}
