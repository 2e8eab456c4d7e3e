//! How a virtual machine is made, started, stopped and removed.

use std::collections::{BTreeMap, HashSet};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_cell::Stdio;
use strata_cell::log::{Channel, LogReader, Read};
use strata_network::Endpoint;
use strata_rootfs::Owner;
use strata_types::pod::RestartPolicy;
use strata_types::{Error, ErrorKind, Label, Result};
use strata_vm::{Disk, Host, Launch, ProgramFiles, ProgramId, Qmp, Stopped, VmDir};
use tokio::sync::OnceCell;

use super::handover::Files;
use super::root::Root;
use super::spec::VmUnitSpec;
use super::uids::Uids;
use super::{MAIN, VmRef, disks, launch, root};
use crate::blocking::blocking;
use crate::cells::{Cells, Executable, LaunchOptions};
use crate::host_path::Pins;
use crate::images::Images;
use crate::network::{NodeNetwork, TAG_LABEL, aliases_of, project_of, published};
use crate::node_dir::make_private;
use crate::pool::NodePool;
use crate::units::{Record, UnitKind, clear_dir};

/// How long QEMU may take until it answers.
const QMP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take to end once it has hung up.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// What was decided when a machine was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct VmAllocation {
    /// On the node's bridge.
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) gateway: Option<Ipv4Addr>,
    pub(crate) prefix: u8,
    /// What it boots from.
    pub(crate) disk: Option<Disk>,
    pub(crate) disks: Vec<Disk>,
    /// The user that QEMU runs as, and its group; none in records from before
    /// machines had users of their own, until they are found again.
    #[serde(default)]
    pub(crate) uid: Option<u32>,
    /// Paths of the host that it is made from.
    #[serde(default)]
    pub(crate) pins: Pins,
}

/// All that virtual machines are made of.
pub(crate) struct VmKind {
    pub(crate) cells: Cells,
    pub(crate) network: Arc<NodeNetwork>,
    pub(crate) pool: Arc<NodePool>,
    /// Which directories of the host operators may name files of.
    pub(crate) images: Images,
    /// A directory for each, by its id: disks and sockets.
    pub(crate) dirs: PathBuf,
    pub(crate) uids: Uids,
    /// The files of QEMU's program, and which program they are of.
    pub(crate) program: Mutex<Option<(ProgramId, Arc<ProgramFiles>)>>,
    /// What QEMU can do here, found out when it is first needed.
    pub(crate) host: OnceCell<Host>,
    /// Machines whose console is in use: QEMU serves one client at a time, and
    /// leaves the next one waiting without an error.
    pub(crate) consoles: Mutex<HashSet<String>>,
}

/// A machine as the network knows it; none without a NIC.
pub(crate) fn endpoint(unit_spec: &VmUnitSpec, allocated: &VmAllocation) -> Option<Endpoint> {
    Some(Endpoint {
        name: unit_spec.name.to_string(),
        aliases: aliases_of(&unit_spec.labels),
        address: allocated.address?,
        ports: unit_spec.ports.iter().map(published).collect(),
        owner: owner_of(&unit_spec.labels),
    })
}

/// Who a machine belongs to in the network. One with the tag of a machine
/// provider may be a node itself; its tag counts only where no server placed
/// the machine, for labels of instances are set by callers.
fn owner_of(labels: &BTreeMap<String, String>) -> strata_network::Owner {
    match project_of(labels) {
        Some(project) => strata_network::Owner::Project(project),
        None if labels.contains_key(TAG_LABEL) => strata_network::Owner::Machine,
        None => strata_network::Owner::Node,
    }
}

impl UnitKind for VmKind {
    type Spec = VmUnitSpec;
    type Allocated = VmAllocation;

    const NOUN: &'static str = "vm";
    const MAIN: &'static str = MAIN;

    fn cells(&self) -> &Cells {
        &self.cells
    }

    fn endpoint(record: &Record<Self>) -> Option<Endpoint> {
        endpoint(&record.spec, &record.allocated)
    }

    fn adopt(&self, records: &mut [Record<Self>]) -> Vec<usize> {
        adopt(&self.uids, records)
    }

    fn clear_all_but(&self, known: &HashSet<&str>) {
        clear_dir(&self.dirs, known);
    }

    fn name(unit_spec: &VmUnitSpec) -> &Label {
        unit_spec.name.label()
    }

    fn restart(unit_spec: &VmUnitSpec) -> RestartPolicy {
        unit_spec.restart
    }

    async fn prepare(&self, id: &str, unit_spec: &VmUnitSpec) -> Result<VmAllocation> {
        blocking(|| self.check_pool(unit_spec))?;
        let dir = self.dir(id)?;
        let mut allocated = VmAllocation {
            address: None,
            gateway: None,
            prefix: 24,
            disk: None,
            disks: Vec::new(),
            uid: None,
            pins: blocking(|| Pins::new(unit_spec.files(), self.allowed())),
        };
        let parts = blocking(|| self.allocate_resources(&dir, id, unit_spec, &mut allocated));
        let told = match parts {
            // What QEMU cannot be given is reported now, not at the start.
            Ok(()) => self.launch(unit_spec, &allocated).await.map(drop),
            Err(error) => Err(error),
        };
        match told {
            Ok(()) => Ok(allocated),
            Err(error) => {
                blocking(|| self.release_resources(id, &allocated));
                Err(error)
            }
        }
    }

    async fn release(&self, record: &Record<Self>) -> Result<()> {
        let cell = Self::cell(&record.spec);
        match self.cells.free(&cell, Some(Duration::ZERO)).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        blocking(|| self.release_resources(&record.id, &record.allocated));
        Ok(())
    }

    async fn start(&self, record: &Record<Self>) -> Result<Arc<Executable>> {
        let (unit_spec, allocated) = (&record.spec, &record.allocated);
        let dir = self.dir(&record.id)?;
        let launch = self.launch(unit_spec, allocated).await?;
        let user = user(allocated)?;
        let qemu = self.host().await?.qemu.clone();
        let program = blocking(|| self.program(&qemu))?;
        let files = Files {
            unit_spec,
            allocated,
            dir: &dir,
            pool: &self.pool,
            allowed: self.allowed(),
        };
        let boot = blocking(|| files.boot(user))?;
        let cell = self.cells.ensure(launch::cell(unit_spec, &launch)).await?;
        let init = cell.init()?;
        let root = Root {
            user,
            kvm: launch.kvm,
            program: &program,
            boot,
        };
        blocking(|| root::set_up(&init, root))?;
        let handed = blocking(|| self.hand_over(&files, &launch))?;
        let executable = launch::executable(unit_spec, &launch, &program, user)?;
        let launch_options = LaunchOptions {
            stdio: Stdio::LoggedWithFile(handed.as_fd()),
            sandboxed: true,
            as_init: false,
            main: false,
            environment: &[],
        };
        let main = cell.start_again(executable, launch_options).await?;
        drop(handed);
        let socket = dir.qmp();
        let silent = tokio::select! {
            answers = Qmp::connect(&socket, QMP_TIMEOUT) => match answers {
                Ok(_) => return Ok(main),
                Err(error) => Error::unavailable(strata_types::chain(&error)),
            },
            _ = main.ended() => Error::unavailable("QEMU ended"),
        };
        // It hangs up a moment before it ends, and its output explains more.
        match tokio::time::timeout(EXIT_TIMEOUT, main.ended()).await {
            Ok(view) => {
                let how = view
                    .ending
                    .map(|ending| ending.to_string())
                    .unwrap_or_default();
                Err(ended_at_once(unit_spec, &how, &log_tail(&main)))
            }
            Err(_) => Err(silent),
        }
    }

    async fn stop(
        &self,
        record: &Record<Self>,
        main: &Arc<Executable>,
        grace: Option<Duration>,
    ) -> Result<Option<String>> {
        let grace = grace.unwrap_or(record.spec.stop_grace);
        let dir = self.dir(&record.id)?;
        let mut how = None;
        if !main.view().is_over() && !grace.is_zero() {
            let asked = async {
                let qmp = Qmp::connect(&dir.qmp(), Duration::from_secs(2)).await?;
                strata_vm::shut_down(&qmp, grace).await
            };
            match asked.await {
                Ok(Stopped::ByItself) => {}
                Ok(Stopped::Pulled) => how = Some(forced_off(grace)),
                Err(error) => {
                    tracing::warn!(vm = %record.spec.name, %error, "ACPI shutdown request failed");
                }
            }
        }
        let cell = self.cells.find("name", &Self::cell(&record.spec))?;
        cell.stop_run(main, Some(Duration::from_secs(1))).await?;
        Ok(how)
    }

    async fn teardown(&self, record: &Record<Self>) -> Result<()> {
        let cell = Self::cell(&record.spec);
        self.cells.halt(&cell, Some(Duration::ZERO)).await?;
        if let Some(endpoint) = endpoint(&record.spec, &record.allocated) {
            blocking(|| self.network.detach(&endpoint))?;
        }
        Ok(())
    }

    fn monitor(&self, _unit: VmRef, _main: Arc<Executable>) {}
}

/// QEMU ends in order also where its guest did not.
fn forced_off(grace: Duration) -> String {
    let within = grace.as_secs_f64();
    format!("forced off: it did not switch itself off within {within} s")
}

/// The console of a machine, until this is dropped.
pub(crate) struct Console {
    kind: Arc<VmKind>,
    id: String,
}

impl Console {
    /// Takes a console; none when it is in use.
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
    /// The directory of a machine.
    pub(crate) fn dir(&self, id: &str) -> Result<VmDir> {
        VmDir::new(self.dirs.join(id))
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
                    .with_hint("install qemu-system-x86; `strata doctor` shows what is missing")
            })?;
            tracing::info!(qemu = %host.qemu.display(), kvm = ?host.kvm, "QEMU probed");
            if strata_cell::landlock_version().is_none() {
                tracing::warn!(
                    "this kernel has no Landlock: QEMU is confined by its user, its root and its system call filter alone"
                );
            }
            Ok(host)
        };
        self.host.get_or_try_init(find_out).await
    }

    /// Directories of the host whose content operators may name.
    fn allowed(&self) -> &[PathBuf] {
        &self.images.config().local_dirs
    }

    /// The files of QEMU's program, looked up again when that was replaced.
    fn program(&self, qemu: &Path) -> Result<Arc<ProgramFiles>> {
        let failed = |why: String| Error::wrong_state(format!("{}: {why}", qemu.display()));
        let id = ProgramId::of(qemu).map_err(|error| failed(error.to_string()))?;
        let mut known = self.program.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |path: &PathBuf| path.exists();
        match &*known {
            Some((of, files)) if *of == id && files.libraries.iter().all(is_there) => {
                Ok(files.clone())
            }
            _ => {
                let files = ProgramFiles::find(qemu)
                    .map_err(|error| failed(strata_types::chain(&error)))?;
                let files = Arc::new(files);
                *known = Some((id, files.clone()));
                Ok(files)
            }
        }
    }

    /// What the jail finds as its standard input: all files that QEMU expects.
    fn hand_over(&self, files: &Files<'_>, launch: &Launch) -> Result<OwnedFd> {
        let tap = match endpoint(files.unit_spec, files.allocated) {
            Some(endpoint) => Some(self.network.attach_tap(&endpoint)?),
            None => None,
        };
        let open = |what| files.open(what, tap.as_ref());
        let opened = launch.inherits.iter().map(open);
        let opened = opened.collect::<Result<Vec<OwnedFd>>>()?;
        let borrowed: Vec<_> = opened.iter().map(|file| file.as_fd()).collect();
        strata_cell::hand_over(&borrowed)
            .map_err(|error| Error::internal(format!("QEMU cannot be handed its files: {error}")))
    }

    async fn launch(&self, unit_spec: &VmUnitSpec, allocated: &VmAllocation) -> Result<Launch> {
        let host = self.host().await?;
        let in_vm = |error: Error| match error.field().map(|field| format!("vm.{field}")) {
            Some(field) => error.in_field(field),
            None => error,
        };
        strata_vm::command(&launch::spec(unit_spec, allocated)?, host).map_err(in_vm)
    }

    /// Whether KVM is used for this specification, as far as that is known.
    pub(crate) fn uses_kvm(&self, accel: strata_vm::Accel) -> Option<bool> {
        let host = self.host.get()?;
        let works = matches!(host.kvm, strata_vm::Kvm::Works);
        Some(works && accel != strata_vm::Accel::Tcg)
    }

    /// Refuses a machine whose volumes of the pool are not there.
    fn check_pool(&self, unit_spec: &VmUnitSpec) -> Result<()> {
        for (i, name, _) in unit_spec.pool_disks() {
            self.pool.disk(name, &format!("vm.disks[{i}].pool"))?;
        }
        Ok(())
    }

    fn allocate_resources(
        &self,
        dir: &VmDir,
        id: &str,
        unit_spec: &VmUnitSpec,
        allocated: &mut VmAllocation,
    ) -> Result<()> {
        make_private(dir.path()).map_err(|error| {
            Error::internal(format!("cannot make the machine's directory: {error}"))
        })?;
        if unit_spec.network {
            allocated.address = Some(self.network.lease(unit_spec.address)?);
            (allocated.gateway, allocated.prefix) = self.network.gateway_and_prefix();
        }
        allocated.uid = Some(self.uids.allocate(id)?);
        let images = disks::Images {
            pins: &allocated.pins,
            allowed: self.allowed(),
        };
        (allocated.disk, allocated.disks) = disks::make(dir, id, unit_spec, &images)?;
        Ok(())
    }

    fn release_resources(&self, id: &str, allocated: &VmAllocation) {
        if let Some(address) = allocated.address {
            self.network.release(address);
        }
        if let Some(uid) = allocated.uid {
            self.uids.release(uid);
        }
        if let Err(error) = std::fs::remove_dir_all(self.dirs.join(id))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::error!(vm = id, %error, "VM directory not removed; retried at the next start");
        }
    }
}

/// Takes note of the users that machines have, and gives one to each that has
/// none or the same as another. Answers which records changed.
fn adopt(uids: &Uids, records: &mut [Record<VmKind>]) -> Vec<usize> {
    let mut without = Vec::new();
    for (i, record) in records.iter_mut().enumerate() {
        if !record.allocated.uid.is_some_and(|uid| uids.take(uid)) {
            without.push(i);
        }
    }
    without.retain(|i| {
        let record = &mut records[*i];
        match uids.allocate(&record.id) {
            Ok(uid) => {
                record.allocated.uid = Some(uid);
                true
            }
            Err(error) => {
                tracing::error!(vm = %record.spec.name, %error, "VM has no own user");
                false
            }
        }
    });
    without
}

/// The user that QEMU runs as.
fn user(allocated: &VmAllocation) -> Result<Owner> {
    let uid = allocated
        .uid
        .ok_or_else(|| Error::internal("a virtual machine has no user of its own"))?;
    Ok(Owner { uid, gid: uid })
}

/// Why QEMU did not stay. It locks what it opens, and so ensures that one
/// machine at a time writes to a disk, wherever in the host they run; the lock
/// goes with its process.
fn ended_at_once(unit_spec: &VmUnitSpec, how: &str, words: &str) -> Error {
    if words.contains("\" lock") && unit_spec.pool_disks().next().is_some() {
        let why =
            format!("another virtual machine has a disk of the pool that this one has: {words}");
        return Error::wrong_state(why).with_hint("stop the other one first");
    }
    Error::wrong_state(format!("QEMU ended at once ({how}): {words}"))
}

/// The last output of QEMU.
fn log_tail(main: &Executable) -> String {
    blocking(|| {
        let mut lines = Vec::new();
        if let Ok(mut reader) = LogReader::from_start(&main.dir, Channel::Stderr) {
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

#[cfg(test)]
mod tests {
    use strata_network::Owner;

    use super::*;

    #[test]
    fn machine_of_a_provider_alone_is_a_node_in_the_network() {
        let owner = |labels: &[(&str, &str)]| {
            let labels = labels.iter();
            owner_of(
                &labels
                    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                    .collect(),
            )
        };
        let project = ("strata.dev/project", "shop");
        assert_eq!(owner(&[]), Owner::Node);
        assert_eq!(owner(&[("app", "web")]), Owner::Node);
        assert_eq!(owner(&[(TAG_LABEL, "m1")]), Owner::Machine);
        assert_eq!(owner(&[project]), Owner::Project("shop".into()));
        // Labels of instances are of callers.
        let placed = owner(&[project, (TAG_LABEL, "m1")]);
        assert_eq!(placed, Owner::Project("shop".into()));
    }
}
