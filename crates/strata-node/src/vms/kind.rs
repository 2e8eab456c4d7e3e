//! How a virtual machine is made, started, stopped and removed.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_cell::log::{Channel, LogReader, Read};
use strata_cell::{Fitting, Stdio};
use strata_network::Endpoint;
use strata_types::pod::RestartPolicy;
use strata_types::{Error, ErrorKind, Label, Result};
use strata_vm::{Disk, Host, Qmp, VmFolder};
use tokio::sync::OnceCell;

use super::ask::VmAsk;
use super::{MAIN, VmRef, disks, launch};
use crate::blocking::blocking;
use crate::cells::{Cells, Executable, Manner};
use crate::folder::make_private;
use crate::network::{NodeNetwork, published};
use crate::pool::NodePool;
use crate::units::{Kind, Record, clear_folder};

/// How long QEMU may take until it answers.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// How long it may take to end once it has hung up.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// What was decided when a machine was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Made {
    /// On the node's bridge.
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) gateway: Option<Ipv4Addr>,
    pub(crate) prefix: u8,
    /// What it boots from.
    pub(crate) disk: Option<Disk>,
    pub(crate) disks: Vec<Disk>,
}

/// All that virtual machines are made of.
pub(crate) struct VmKind {
    pub(crate) cells: Cells,
    pub(crate) network: Arc<NodeNetwork>,
    pub(crate) pool: Arc<NodePool>,
    /// A folder for each, by its id: disks and sockets.
    pub(crate) folders: PathBuf,
    /// What QEMU can do here, found out when it is first needed.
    pub(crate) host: OnceCell<Host>,
    /// Machines whose console somebody has: QEMU serves one at a time, and
    /// lets the next one wait without a word.
    pub(crate) consoles: Mutex<HashSet<String>>,
}

/// A machine as the network knows it; none without a card.
pub(crate) fn endpoint(ask: &VmAsk, made: &Made) -> Option<Endpoint> {
    Some(Endpoint {
        name: ask.name.to_string(),
        aliases: Vec::new(),
        address: made.address?,
        ports: ask.ports.iter().map(published).collect(),
    })
}

impl Kind for VmKind {
    type Spec = VmAsk;
    type Made = Made;

    const NOUN: &'static str = "vm";
    const MAIN: &'static str = MAIN;

    fn cells(&self) -> &Cells {
        &self.cells
    }

    fn endpoint(record: &Record<Self>) -> Option<Endpoint> {
        endpoint(&record.spec, &record.made)
    }

    fn clear_all_but(&self, known: &HashSet<&str>) {
        clear_folder(&self.folders, known);
    }

    fn name(ask: &VmAsk) -> &Label {
        ask.name.label()
    }

    fn restart(ask: &VmAsk) -> RestartPolicy {
        ask.restart
    }

    async fn make(&self, id: &str, ask: &VmAsk) -> Result<Made> {
        blocking(|| self.pool_fittings(ask))?;
        let folder = self.folder(id)?;
        let mut made = Made {
            address: None,
            gateway: None,
            prefix: 24,
            disk: None,
            disks: Vec::new(),
        };
        let parts = blocking(|| self.make_parts(&folder, id, ask, &mut made));
        let told = match parts {
            // What QEMU cannot be told is said now, not at the start.
            Ok(()) => self.launch(ask, &made, &folder).await.map(drop),
            Err(error) => Err(error),
        };
        match told {
            Ok(()) => Ok(made),
            Err(error) => {
                blocking(|| self.unmake_parts(id, &made));
                Err(error)
            }
        }
    }

    async fn unmake(&self, record: &Record<Self>) -> Result<()> {
        let cell = Self::cell(&record.spec);
        match self.cells.free(&cell, Some(Duration::ZERO)).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        blocking(|| self.unmake_parts(&record.id, &record.made));
        Ok(())
    }

    async fn up(&self, record: &Record<Self>) -> Result<Arc<Executable>> {
        let (ask, made) = (&record.spec, &record.made);
        let folder = self.folder(&record.id)?;
        let launch = self.launch(ask, made, &folder).await?;
        let pool = blocking(|| self.pool_fittings(ask))?;
        for socket in [folder.qmp(), folder.console()] {
            let _ = std::fs::remove_file(socket);
        }
        let cell = self.cells.raise(launch::cell(ask, &launch)).await?;
        let init = cell.init()?;
        let qemu = self.host().await?.qemu.clone();
        blocking(|| launch::fit_out(&init, folder.path(), &qemu, &ask.files(), pool))?;
        let tap = match endpoint(ask, made) {
            Some(endpoint) => Some(blocking(|| self.network.attach_tap(&endpoint))?),
            None => None,
        };
        let stdio = match &tap {
            Some(tap) => Stdio::LoggedWithFile(std::os::fd::AsFd::as_fd(tap)),
            None => Stdio::Logged,
        };
        let executable = launch::executable(ask, launch)?;
        let manner = Manner {
            stdio,
            sandboxed: true,
            as_init: false,
        };
        let main = cell.start_anew(executable, manner).await?;
        drop(tap);
        let socket = folder.qmp();
        let silent = tokio::select! {
            answers = Qmp::connect(&socket, ANSWERS_WITHIN) => match answers {
                Ok(_) => return Ok(main),
                Err(error) => Error::unavailable(strata_types::chain(&error)),
            },
            _ = main.ended() => Error::unavailable("QEMU ended"),
        };
        // It hangs up a moment before it ends, and what it said tells more.
        match tokio::time::timeout(ENDS_WITHIN, main.ended()).await {
            Ok(view) => {
                let how = view
                    .ending
                    .map(|ending| ending.to_string())
                    .unwrap_or_default();
                Err(ended_at_once(ask, &how, &last_words(&main)))
            }
            Err(_) => Err(silent),
        }
    }

    async fn stop(
        &self,
        record: &Record<Self>,
        main: &Arc<Executable>,
        grace: Option<Duration>,
    ) -> Result<()> {
        let grace = grace.unwrap_or(record.spec.stop_grace);
        let folder = self.folder(&record.id)?;
        if !main.view().is_over() && !grace.is_zero() {
            let asked = async {
                let qmp = Qmp::connect(&folder.qmp(), Duration::from_secs(2)).await?;
                strata_vm::shut_down(&qmp, grace).await
            };
            if let Err(error) = asked.await {
                tracing::warn!(vm = %record.spec.name, %error, "it cannot be asked to switch off");
            }
        }
        let cell = self.cells.find("name", &Self::cell(&record.spec))?;
        cell.stop_run(main, Some(Duration::from_secs(1))).await
    }

    async fn down(&self, record: &Record<Self>) -> Result<()> {
        let cell = Self::cell(&record.spec);
        self.cells.halt(&cell, Some(Duration::ZERO)).await?;
        if let Some(endpoint) = endpoint(&record.spec, &record.made) {
            blocking(|| self.network.detach(&endpoint))?;
        }
        Ok(())
    }

    fn attend(&self, _unit: VmRef, _main: Arc<Executable>) {}
}

/// The console of a machine, until this is dropped.
pub(crate) struct Console {
    kind: Arc<VmKind>,
    id: String,
}

impl Console {
    /// Takes a console; none when somebody has it.
    pub(crate) fn take(kind: &Arc<VmKind>, id: &str) -> Option<Self> {
        let mut taken = kind.consoles.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert(id.to_owned()).then(|| Self {
            kind: kind.clone(),
            id: id.to_owned(),
        })
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let taken = self.kind.consoles.lock();
        taken
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.id);
    }
}

impl VmKind {
    /// The folder of a machine.
    pub(crate) fn folder(&self, id: &str) -> Result<VmFolder> {
        VmFolder::new(self.folders.join(id))
    }

    /// What QEMU can do here.
    async fn host(&self) -> Result<&Host> {
        let find_out = || async {
            let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
            let probing = tokio::task::spawn_blocking(move || strata_vm::probe(&path));
            let host = probing
                .await
                .map_err(|error| Error::internal(error.to_string()))?;
            let host = host.map_err(|error| {
                Error::wrong_state(strata_types::chain(&error))
                    .with_hint("install qemu-system-x86; `strata doctor` tells what is missing")
            })?;
            tracing::info!(qemu = %host.qemu.display(), kvm = ?host.kvm, "found out what QEMU can do");
            Ok(host)
        };
        self.host.get_or_try_init(find_out).await
    }

    async fn launch(
        &self,
        ask: &VmAsk,
        made: &Made,
        folder: &VmFolder,
    ) -> Result<strata_vm::Launch> {
        let host = self.host().await?;
        let in_vm = |error: Error| match error.field().map(|field| format!("vm.{field}")) {
            Some(field) => error.in_field(field),
            None => error,
        };
        strata_vm::command(&launch::spec(ask, made)?, host, folder).map_err(in_vm)
    }

    /// Whether KVM is used for what is asked for, as far as that is known.
    pub(crate) fn uses_kvm(&self, accel: strata_vm::Accel) -> Option<bool> {
        let host = self.host.get()?;
        let works = matches!(host.kvm, strata_vm::Kvm::Works);
        Some(works && accel != strata_vm::Accel::Tcg)
    }

    /// The volumes of the pool that a machine has, to be put where QEMU finds
    /// them.
    fn pool_fittings(&self, ask: &VmAsk) -> Result<Vec<Fitting>> {
        let fitting = |(i, name, read_only): (usize, &Label, bool)| {
            let field = format!("vm.disks[{i}].pool");
            let disk = self.pool.disk(name, &field)?;
            launch::pool_disk(&disk, name, read_only)
        };
        ask.pool_disks().map(fitting).collect()
    }

    fn make_parts(&self, folder: &VmFolder, id: &str, ask: &VmAsk, made: &mut Made) -> Result<()> {
        make_private(folder.path()).map_err(|error| {
            Error::internal(format!("cannot make the machine's folder: {error}"))
        })?;
        if ask.network {
            made.address = Some(self.network.lease(ask.address)?);
            (made.gateway, made.prefix) = self.network.gateway_and_prefix();
        }
        (made.disk, made.disks) = disks::make(folder, id, ask)?;
        Ok(())
    }

    fn unmake_parts(&self, id: &str, made: &Made) {
        if let Some(address) = made.address {
            self.network.release(address);
        }
        if let Err(error) = std::fs::remove_dir_all(self.folders.join(id))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::error!(%error, "a machine's folder could not be removed; the next start tries again");
        }
    }
}

/// Why QEMU did not stay. It locks what it opens, and so sees to it that one
/// machine at a time writes to a disk, wherever in the host they run; the lock
/// goes with its process.
fn ended_at_once(ask: &VmAsk, how: &str, words: &str) -> Error {
    if words.contains("\" lock") && ask.pool_disks().next().is_some() {
        let why =
            format!("another virtual machine has a disk of the pool that this one has: {words}");
        return Error::wrong_state(why).with_hint("stop the other one first");
    }
    Error::wrong_state(format!("QEMU ended at once ({how}): {words}"))
}

/// What QEMU said last.
fn last_words(main: &Executable) -> String {
    blocking(|| {
        let mut lines = Vec::new();
        if let Ok(mut reader) = LogReader::from_start(&main.folder, Channel::Stderr) {
            while let Ok(Read::Some) = reader.read(&mut lines) {}
            reader.finish(&mut lines);
        }
        let texts = lines.iter().rev().take(3).rev();
        let texts: Vec<_> = texts
            .map(|line| String::from_utf8_lossy(&line.line))
            .collect();
        texts.join("; ")
    })
}
