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

use super::identity::Identities;
use super::program::Program;
use super::spec::NestedNodeSpec;
use super::{DATA, MAIN, NestedNodeRef, PORT, answers, plan, pool, subnets};
use crate::blocking::blocking;
use crate::cells::{Cell, Cells, Executable, LaunchOptions};
use crate::images::{Handover, ImagesConfig};
use crate::network::NodeNetwork;
use crate::node_dir::make_private;
use crate::pool::NodePool;
use crate::units::{Record, UnitKind, clear_dir};

/// What was decided when a machine was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NestedNodeAllocation {
    /// On the bridge of the host node.
    pub(crate) address: Ipv4Addr,
    pub(crate) gateway: Option<Ipv4Addr>,
    /// The addresses of what runs in it.
    pub(crate) subnet: Subnet,
    /// Those of what runs in all machines of this node.
    pub(crate) range: Subnet,
}

/// All that machines are made of.
pub(crate) struct NestedNodeKind {
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
    /// Of the host node: not to be seen inside.
    pub(super) data_dir: PathBuf,
    /// A directory for each, by its id: its disk.
    pub(super) dirs: PathBuf,
    pub(super) program: Program,
    pub(super) place: PathBuf,
    /// For what runs in machines; none where there are no private addresses
    /// left.
    pub(super) range: Option<Subnet>,
    pub(super) subnets: Mutex<HashSet<Subnet>>,
    /// What its PID 1 is given about cgroups.
    pub(super) hierarchies: String,
}

/// A machine as the network knows it.
fn endpoint(unit_spec: &NestedNodeSpec, allocated: &NestedNodeAllocation) -> Endpoint {
    Endpoint {
        name: unit_spec.name.to_string(),
        aliases: Vec::new(),
        address: allocated.address,
        ports: Vec::new(),
        owner: Owner::Machine,
    }
}

/// Where its node answers.
pub(crate) fn node_url(allocated: &NestedNodeAllocation) -> String {
    format!("https://{}:{PORT}", allocated.address)
}

impl UnitKind for NestedNodeKind {
    type Spec = NestedNodeSpec;
    type Allocated = NestedNodeAllocation;

    const NOUN: &'static str = "machine";
    const MAIN: &'static str = MAIN;

    fn cells(&self) -> &Cells {
        &self.cells
    }

    fn endpoint(record: &Record<Self>) -> Option<Endpoint> {
        Some(endpoint(&record.spec, &record.allocated))
    }

    fn clear_all_but(&self, known: &HashSet<&str>) {
        clear_dir(&self.dirs, known);
    }

    fn name(unit_spec: &NestedNodeSpec) -> &Label {
        &unit_spec.name
    }

    /// One that switches itself off stays off.
    fn restart(_: &NestedNodeSpec) -> RestartPolicy {
        RestartPolicy::OnFailure
    }

    async fn prepare(&self, id: &str, unit_spec: &NestedNodeSpec) -> Result<NestedNodeAllocation> {
        self.identities.check(unit_spec)?;
        blocking(|| self.allocate_resources(id, unit_spec))
    }

    async fn release(&self, record: &Record<Self>) -> Result<()> {
        let cell = Self::cell(&record.spec);
        match self.cells.free(&cell, Some(Duration::ZERO)).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let allocated = &record.allocated;
        blocking(|| self.release_resources(&record.id, allocated.address, allocated.subnet));
        Ok(())
    }

    async fn start(&self, record: &Record<Self>) -> Result<Arc<Executable>> {
        let (unit_spec, allocated) = (&record.spec, &record.allocated);
        let cell = self.cells.ensure(plan::cell(unit_spec)).await?;
        blocking(|| {
            self.setup_cell(record, &cell)?;
            let data = self.data(&record.id);
            Handover::new(&self.images, DATA)
                .write(&data)
                .map_err(|error| full_or_internal("hand over the registries", &error))?;
            self.identities.hand_over(unit_spec, allocated, &data)
        })?;
        let joined = self.has_joined(&record.id);
        let executable = plan::main(unit_spec, &self.hierarchies, joined)?;
        let launch_options = LaunchOptions {
            stdio: Stdio::Logged,
            sandboxed: false,
            as_init: true,
            main: false,
            environment: &[],
        };
        let main = cell.start_again(executable, launch_options).await?;
        let target = self.identities.target(unit_spec, allocated, &main)?;
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

    async fn teardown(&self, record: &Record<Self>) -> Result<()> {
        let cell = Self::cell(&record.spec);
        self.cells.halt(&cell, Some(Duration::ZERO)).await?;
        blocking(|| {
            self.network
                .detach(&endpoint(&record.spec, &record.allocated))
        })
    }

    fn monitor(&self, unit: NestedNodeRef, main: Arc<Executable>) {
        let record = unit.record();
        let data = self.data(&record.id);
        let Some(tasks) = unit.tasks() else { return };
        let (pool, name) = (self.pool.clone(), record.spec.name.clone());
        pool::follow(&tasks, pool, name, main.clone());
        self.identities
            .keep(&tasks, &record.spec, &record.allocated, &data, main);
    }
}

impl NestedNodeKind {
    fn dir(&self, id: &str) -> PathBuf {
        self.dirs.join(id)
    }

    /// Its `/var/lib`.
    pub(super) fn disk(&self, id: &str) -> PathBuf {
        self.dir(id).join("lib")
    }

    /// The data directory of its node, as it is seen from here.
    fn data(&self, id: &str) -> PathBuf {
        self.disk(id).join("strata")
    }

    pub(super) fn subnets(&self) -> MutexGuard<'_, HashSet<Subnet>> {
        self.subnets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allocate_resources(
        &self,
        id: &str,
        unit_spec: &NestedNodeSpec,
    ) -> Result<NestedNodeAllocation> {
        let address =
            self.network
                .lease(unit_spec.address)
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
            self.release_resources(id, address, subnet.1);
            return Err(full_or_internal("make the machine's directory", &error));
        }
        Ok(NestedNodeAllocation {
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

    fn release_resources(&self, id: &str, address: Ipv4Addr, subnet: Subnet) {
        self.network.release(address);
        self.subnets().remove(&subnet);
        remove(&self.dir(id));
    }

    /// Gives a new cell its root and its network.
    fn setup_cell(&self, record: &Record<Self>, cell: &Cell) -> Result<()> {
        let init = cell.init()?;
        let (root, mount_ops) = self.build_rootfs(record)?;
        let name = &record.spec.name;
        init.setup_root(&root, &mount_ops)
            .map_err(|error| Error::internal(format!("machine {name}: {error}")))?;
        let namespace = init
            .namespace("net")
            .map_err(|error| Error::unavailable(format!("the machine's init is gone: {error}")))?;
        self.network
            .attach(&namespace, &endpoint(&record.spec, &record.allocated))
    }

    /// Whether its node has ever answered. A machine whose node has not has no
    /// owner: its caller was never notified that it is there.
    pub(crate) fn has_answered(&self, id: &str) -> bool {
        self.dir(id).join("answered").exists()
    }

    /// Whether it has joined its server. What it joined with is used up, so
    /// another in its place could not.
    pub(super) fn has_joined(&self, id: &str) -> bool {
        self.data(id).join("identity").exists()
    }

    /// Remembers that it has.
    pub(crate) fn note_answer(&self, id: &str) -> Result<()> {
        fs::write(self.dir(id).join("answered"), "")
            .map_err(|error| full_or_internal("remember the machine", &error))
    }
}

/// Programs of other users look for their directories there.
fn open_to_all(dir: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))
}

/// Takes away the directory of a machine.
fn remove(dir: &std::path::Path) {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let path = dir.display();
            tracing::error!(%path, %error, "nested node disk not removed; retried at the next start");
        }
        _ => {}
    }
}

fn full_or_internal(what: &str, error: &std::io::Error) -> Error {
    let text = format!("cannot {what}: {error}");
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Error::exhausted(text).with_hint("make room on the disk of the data directory")
        }
        _ => Error::internal(text),
    }
}
