//! How a machine is made, started, stopped and removed.

use std::collections::HashSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_cell::Stdio;
use strata_network::{Endpoint, Owner, Subnet};
use strata_types::pod::RestartPolicy;
use strata_types::{Error, ErrorKind, Label, Result};

use super::ask::MachineAsk;
use super::identity::Identities;
use super::program::Program;
use super::{DATA, MAIN, MachineRef, PORT, answers, plan, pool, subnets};
use crate::blocking::blocking;
use crate::cells::{Cell, Cells, Executable, Manner};
use crate::folder::make_private;
use crate::images::{Handover, ImagesConfig};
use crate::network::NodeNetwork;
use crate::pool::NodePool;
use crate::units::{Kind, Record, clear_folder};

/// What was decided when a machine was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Made {
    /// On the bridge of the node around.
    pub(crate) address: Ipv4Addr,
    pub(crate) gateway: Option<Ipv4Addr>,
    /// The addresses of what runs in it.
    pub(crate) subnet: Subnet,
    /// Those of what runs in all machines of this node.
    pub(crate) range: Subnet,
}

/// All that machines are made of.
pub(crate) struct MachineKind {
    pub(crate) cells: Cells,
    pub(super) network: Arc<NodeNetwork>,
    /// The storage pool, which its machines reach too.
    pub(super) pool: Arc<NodePool>,
    /// The versions of Kubernetes that its machines find.
    pub(super) kubernetes: Option<PathBuf>,
    pub(super) identities: Identities,
    /// How the host's node deals with images: nested ones pull from the same
    /// registries.
    pub(super) images: ImagesConfig,
    /// Of the node around: not to be seen inside.
    pub(super) data_dir: PathBuf,
    /// A folder for each, by its id: its disk.
    pub(super) folders: PathBuf,
    pub(super) program: Program,
    /// Empty.
    pub(super) place: PathBuf,
    /// For what runs in machines; none where there are no private addresses
    /// left.
    pub(super) range: Option<Subnet>,
    pub(super) subnets: Mutex<HashSet<Subnet>>,
    /// What its PID 1 is told of cgroups.
    pub(super) hierarchies: String,
}

/// A machine as the network knows it.
fn endpoint(ask: &MachineAsk, made: &Made) -> Endpoint {
    Endpoint {
        name: ask.name.to_string(),
        aliases: Vec::new(),
        address: made.address,
        ports: Vec::new(),
        owner: Owner::Machine,
    }
}

/// Where its node answers.
pub(crate) fn node_url(made: &Made) -> String {
    format!("https://{}:{PORT}", made.address)
}

impl Kind for MachineKind {
    type Spec = MachineAsk;
    type Made = Made;

    const NOUN: &'static str = "machine";
    const MAIN: &'static str = MAIN;

    fn cells(&self) -> &Cells {
        &self.cells
    }

    fn endpoint(record: &Record<Self>) -> Option<Endpoint> {
        Some(endpoint(&record.spec, &record.made))
    }

    fn clear_all_but(&self, known: &HashSet<&str>) {
        clear_folder(&self.folders, known);
    }

    fn name(ask: &MachineAsk) -> &Label {
        &ask.name
    }

    /// One that switches itself off stays off.
    fn restart(_: &MachineAsk) -> RestartPolicy {
        RestartPolicy::OnFailure
    }

    async fn make(&self, id: &str, ask: &MachineAsk) -> Result<Made> {
        self.identities.check(ask)?;
        blocking(|| self.make_parts(id, ask))
    }

    async fn unmake(&self, record: &Record<Self>) -> Result<()> {
        let cell = Self::cell(&record.spec);
        match self.cells.free(&cell, Some(Duration::ZERO)).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let made = &record.made;
        blocking(|| self.unmake_parts(&record.id, made.address, made.subnet));
        Ok(())
    }

    async fn up(&self, record: &Record<Self>) -> Result<Arc<Executable>> {
        let (ask, made) = (&record.spec, &record.made);
        let cell = self.cells.raise(plan::cell(ask)).await?;
        blocking(|| {
            self.fit_out(record, &cell)?;
            let data = self.data(&record.id);
            Handover::new(&self.images, DATA)
                .write(&data)
                .map_err(|error| full_or_internal("hand over the registries", &error))?;
            self.identities.hand_over(ask, made, &data)
        })?;
        let joined = self.has_joined(&record.id);
        let executable = plan::main(ask, &self.hierarchies, joined)?;
        let manner = Manner {
            stdio: Stdio::Logged,
            sandboxed: false,
            as_init: true,
            main: false,
            environment: &[],
        };
        let main = cell.start_anew(executable, manner).await?;
        let target = self.identities.target(ask, made, &main)?;
        answers::wait(&target, &main).await?;
        Ok(main)
    }

    async fn stop(
        &self,
        record: &Record<Self>,
        main: &Arc<Executable>,
        grace: Option<Duration>,
    ) -> Result<Option<String>> {
        let cell = self.cells.find("name", &Self::cell(&record.spec))?;
        cell.stop_run(main, grace).await.map(|()| None)
    }

    async fn down(&self, record: &Record<Self>) -> Result<()> {
        let cell = Self::cell(&record.spec);
        self.cells.halt(&cell, Some(Duration::ZERO)).await?;
        blocking(|| self.network.detach(&endpoint(&record.spec, &record.made)))
    }

    fn attend(&self, unit: MachineRef, main: Arc<Executable>) {
        let record = unit.record();
        let data = self.data(&record.id);
        pool::follow(self.pool.clone(), record.spec.name.clone(), main.clone());
        self.identities
            .keep(&record.spec, &record.made, &data, main);
    }
}

impl MachineKind {
    fn folder(&self, id: &str) -> PathBuf {
        self.folders.join(id)
    }

    /// Its `/var/lib`.
    pub(super) fn disk(&self, id: &str) -> PathBuf {
        self.folder(id).join("lib")
    }

    /// The data folder of its node, as it is seen from here.
    fn data(&self, id: &str) -> PathBuf {
        self.disk(id).join("strata")
    }

    pub(super) fn subnets(&self) -> MutexGuard<'_, HashSet<Subnet>> {
        self.subnets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_parts(&self, id: &str, ask: &MachineAsk) -> Result<Made> {
        let address = self
            .network
            .lease(ask.address)
            .map_err(|error| match error.field() {
                Some("pod.address") => error.in_field("machine.address"),
                _ => error,
            })?;
        let subnet = match self.take_subnet(id) {
            Ok(subnet) => subnet,
            Err(error) => {
                self.network.release(address);
                return Err(error);
            }
        };
        let data = self.data(id);
        if let Err(error) = make_private(&data).and_then(|()| open_to_all(&self.disk(id))) {
            self.unmake_parts(id, address, subnet.1);
            return Err(full_or_internal("make the machine's folder", &error));
        }
        Ok(Made {
            address,
            gateway: self.network.gateway(),
            range: subnet.0,
            subnet: subnet.1,
        })
    }

    fn take_subnet(&self, id: &str) -> Result<(Subnet, Subnet)> {
        let exhausted = || {
            Error::exhausted("no private addresses are left for what runs in the machine")
                .with_hint("destroy machines that are not needed, or give the node a smaller range")
        };
        let range = self.range.ok_or_else(exhausted)?;
        let mut taken = self.subnets();
        let subnet = subnets::choose(range, &taken, id).ok_or_else(exhausted)?;
        taken.insert(subnet);
        Ok((range, subnet))
    }

    fn unmake_parts(&self, id: &str, address: Ipv4Addr, subnet: Subnet) {
        self.network.release(address);
        self.subnets().remove(&subnet);
        remove(&self.folder(id));
    }

    /// Gives a new cell its root and its network.
    fn fit_out(&self, record: &Record<Self>, cell: &Cell) -> Result<()> {
        let init = cell.init()?;
        let (root, fittings) = self.furniture(record)?;
        let name = &record.spec.name;
        init.furnish(&root, &fittings)
            .map_err(|error| Error::internal(format!("machine {name}: {error}")))?;
        let namespace = init
            .namespace("net")
            .map_err(|error| Error::unavailable(format!("the machine's init is gone: {error}")))?;
        self.network
            .attach(&namespace, &endpoint(&record.spec, &record.made))
    }

    /// Whether its node has ever answered. A machine that has not is nobody's:
    /// whoever asked for it was never told that it is there.
    pub(crate) fn has_answered(&self, id: &str) -> bool {
        self.folder(id).join("answered").exists()
    }

    /// Whether it has joined its server. What it joined with is used up, so
    /// another in its place could not.
    pub(super) fn has_joined(&self, id: &str) -> bool {
        self.data(id).join("identity").exists()
    }

    /// Remembers that it has.
    pub(crate) fn note_answer(&self, id: &str) -> Result<()> {
        fs::write(self.folder(id).join("answered"), "")
            .map_err(|error| full_or_internal("remember the machine", &error))
    }
}

/// Programs of other users look for their folders there.
fn open_to_all(folder: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}

/// Takes away the folder of a machine.
fn remove(folder: &std::path::Path) {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!(%error, "a machine's disk could not be removed; the next start tries again");
        }
        _ => {}
    }
}

fn full_or_internal(what: &str, error: &std::io::Error) -> Error {
    let text = format!("cannot {what}: {error}");
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Error::exhausted(text).with_hint("make room on the disk of the data folder")
        }
        _ => Error::internal(text),
    }
}
