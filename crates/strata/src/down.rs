//! `strata down`: ends the daemon of a data directory and removes all that its
//! run made on this machine, found by the name of the run. Works without the
//! daemon too, and after a crash.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use strata_cell::{Cgroups, HostPaths};
use strata_cli::{Exit, Failure, Global, Result};
use strata_client::Endpoints;

use crate::args::DownArguments;
use crate::config::DATA_DIR;
use crate::daemon::unexpected;
use crate::identity::client_dir;
use crate::lock;

/// Timeout of a daemon to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn run(global: &Global, arguments: &DownArguments) -> Result {
    let data_dir = global.data_dir.clone().unwrap_or_else(|| DATA_DIR.into());
    let arguments = DownArguments { ..*arguments };
    tokio::task::spawn_blocking(move || down(&data_dir, &arguments))
        .await
        .map_err(unexpected)?
}

fn down(data_dir: &Path, arguments: &DownArguments) -> Result {
    let plan = Plan::of(data_dir)?;
    if arguments.dry_run {
        plan.tell(arguments.purge);
        return Ok(());
    }
    let keeps = arguments.purge && plan.has_data();
    if !arguments.yes && (plan.has_workloads() || keeps) {
        confirm(&plan, keeps)?;
    }
    if let Some(pid) = plan.daemon {
        end_daemon(pid)?;
    }
    // No daemon starts here while things go.
    let _lock = lock::take(data_dir)?;
    if let Some(cgroups) = &plan.cgroups {
        cgroups.remove_all().map_err(unexpected)?;
    }
    if let Some(run) = &plan.run {
        let directory = data_dir.join("node/network");
        strata_node::remove_network(run, &directory).map_err(unexpected)?;
    }
    strata_node::remove_secrets(&data_dir.join("node/secrets")).map_err(unexpected)?;
    strata_storage::remove(&crate::config::pool_dir(data_dir)).map_err(unexpected)?;
    for path in plan.leftovers(arguments.purge) {
        remove(&path)?;
    }
    Ok(())
}

/// What there is to remove.
struct Plan {
    data_dir: PathBuf,
    daemon: Option<i32>,
    /// None where no node has run.
    run: Option<String>,
    cgroups: Option<Cgroups>,
    cells: Vec<String>,
    /// Pods, virtual machines and machines, as `pod web`; they go with all
    /// they have written.
    units: Vec<String>,
    /// Wherever it is configured to be.
    socket: Option<PathBuf>,
}

impl Plan {
    fn of(data_dir: &Path) -> Result<Self> {
        let run = fs::read_to_string(data_dir.join("node/run")).ok();
        if run.is_none() && !data_dir.join("lock").exists() {
            return Err(Failure::new(
                Exit::Refused,
                format!("no daemon has run on {}", data_dir.display()),
            )
            .hint("pass the data directory of the daemon: --data-dir DIR"));
        }
        let run = run.map(|run| run.trim().to_owned());
        let detect = |run: &String| Cgroups::detect(&HostPaths::default(), run);
        let cgroups = run.as_ref().map(detect).transpose().map_err(unexpected)?;
        let endpoints = Endpoints::read(&client_dir(data_dir)).ok().flatten();
        Ok(Self {
            data_dir: data_dir.to_owned(),
            daemon: lock::holder(data_dir),
            run,
            units: units(&data_dir.join("node")),
            cells: cgroups.as_ref().map(Cgroups::outermost).unwrap_or_default(),
            cgroups,
            socket: endpoints.and_then(|endpoints| endpoints.node_socket),
        })
    }

    fn has_workloads(&self) -> bool {
        !self.cells.is_empty() || !self.units.is_empty()
    }

    /// Volumes, or backups that are nowhere else.
    fn has_data(&self) -> bool {
        let there = |name: &str| self.data_dir.join(name).exists();
        there("pool/pool.json") || there("backup/repository")
    }

    /// Paths that go with the run; with `purge`, everything.
    fn leftovers(&self, purge: bool) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.socket.iter().cloned().collect();
        if purge {
            paths.push(self.data_dir.clone());
            return paths;
        }
        let node = self.data_dir.join("node");
        paths.extend([
            node.join("cells"),
            node.join("assignments"),
            node.join("_pods"),
            node.join("_machines"),
            node.join("_vms"),
            node.join("network"),
            node.join("keeper"),
            node.join("freed"),
            node.join("secrets"),
            self.data_dir.join("node.sock"),
            Endpoints::path(&client_dir(&self.data_dir)),
        ]);
        paths
    }

    #[allow(clippy::print_stdout)]
    fn tell(&self, purge: bool) {
        if let Some(pid) = self.daemon {
            println!("would stop the daemon, pid {pid}");
        }
        for cell in &self.cells {
            println!("would free cell {cell} and everything in it");
        }
        for unit in &self.units {
            println!("would destroy {unit} and its data");
        }
        for path in self.leftovers(purge).iter().filter(|path| path.exists()) {
            println!("would remove {}", path.display());
        }
    }
}

/// What has a record, by its kind and name.
fn units(node: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (directory, noun) in [("_pods", "pod"), ("_vms", "vm"), ("_machines", "machine")] {
        let records = fs::read_dir(node.join(directory).join("records"));
        for entry in records.into_iter().flatten().flatten() {
            let name = entry.file_name();
            if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".json")) {
                found.push(format!("{noun} {name}"));
            }
        }
    }
    found.sort();
    found
}

/// Prompts on a terminal; elsewhere the call itself is the answer.
#[allow(clippy::print_stderr)]
fn confirm(plan: &Plan, data_goes: bool) -> Result {
    use std::io::IsTerminal as _;
    if !std::io::stdin().is_terminal() {
        return Ok(());
    }
    for unit in &plan.units {
        eprintln!("{unit} will be destroyed with its data");
    }
    if data_goes {
        eprintln!(
            "the volumes of the storage pool and the backups in the data directory will be deleted"
        );
    }
    eprint!(
        "free {} cells, and destroy {} pods and machines? [y/N] ",
        plan.cells.len(),
        plan.units.len()
    );
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(unexpected)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Exit::Refused, "nothing was removed")),
    }
}

fn end_daemon(pid: i32) -> Result {
    let Some(pid) = Pid::from_raw(pid) else {
        return Ok(());
    };
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
        return Ok(());
    };
    let _ = pidfd_send_signal(&pidfd, Signal::TERM);
    if !gone_within(&pidfd, STOP_TIMEOUT)? {
        let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        gone_within(&pidfd, STOP_TIMEOUT)?;
    }
    Ok(())
}

fn gone_within(pidfd: &std::os::fd::OwnedFd, max_wait: Duration) -> Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec {
        tv_sec: max_wait.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    let ready = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout));
    ready.map(|n| n > 0).map_err(unexpected)
}

fn remove(path: &Path) -> Result {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        // The data directory may be a mount point: then it stays, empty.
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => Ok(()),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::new(
            Exit::Unexpected,
            format!("cannot remove {}: {error}", path.display()),
        )),
        _ => Ok(()),
    }
}
