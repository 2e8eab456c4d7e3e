//! How a pod is made, started, stopped and removed.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_cell::{Confinement, Stdio, seccomp};
use strata_image::RunConfig;
use strata_network::{Endpoint, Owner};
use strata_types::pod::{Capabilities, PodNetwork, PodSpec, RestartPolicy, VolumeSource};
use strata_types::{Error, IdMap, Label, Result};

use super::rootfs::{Rootfs, RootfsBuilder};
use super::{
    MAIN, PodRef, Terminal, TerminalSize, cores, declared_volumes, files, health, image_volumes,
    plan, rootfs, users,
};
use crate::blocking::{aside, blocking};
use crate::cells::{Cell, Cells, Executable, LaunchOptions};
use crate::host_path::Pins;
use crate::images::{HeldImage, Images, reference_from_field};
use crate::network::{NodeNetwork, project_of, published};
use crate::units::{Record, UnitKind, clear_dir};

/// The label by which a server marks the owner of a pod.
const PROJECT: &str = "strata.dev/project";
/// Users of the machine for pods with users of their own begin here.
const FIRST_ID: u32 = 1 << 30;
/// So many for each.
const IDS: u32 = 1 << 16;
const MAX_ID_MAPS: u32 = 1 << 14;

/// What was decided when a pod was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PodAllocation {
    pub(crate) image_digest: String,
    /// Unpacked layers, the lowest first.
    pub(crate) layers: Vec<PathBuf>,
    /// The run configuration of the image.
    pub(crate) config: RunConfig,
    /// On the node's bridge.
    pub(crate) address: Option<Ipv4Addr>,
    /// Where it has users of its own.
    #[serde(default)]
    pub(crate) id_map: Option<IdMap>,
    /// Where its image has it have volumes.
    #[serde(default)]
    pub(crate) image_volumes: Vec<String>,
}

/// All that pods are made of.
pub(crate) struct PodKind {
    pub(crate) cells: Cells,
    pub(crate) images: Images,
    pub(crate) rootfs_builder: RootfsBuilder,
    pub(crate) network: Arc<NodeNetwork>,
    /// Why pods cannot have users of their own here; none where they can.
    pub(crate) lack_of_id_maps: Option<String>,
    /// Whether they have the host's then.
    pub(crate) allow_host_users: bool,
    /// The first users of those pods that have users of their own.
    pub(crate) id_maps: Mutex<HashSet<u32>>,
    /// Images of pods that are being created, which no other record holds yet.
    pub(crate) held: Mutex<HashMap<String, HeldImage>>,
}

impl UnitKind for PodKind {
    type Spec = PodSpec;
    type Allocated = PodAllocation;

    const NOUN: &'static str = "pod";
    const MAIN: &'static str = MAIN;

    fn cells(&self) -> &Cells {
        &self.cells
    }

    fn endpoint(record: &Record<Self>) -> Option<Endpoint> {
        endpoint(&record.spec, &record.allocated)
    }

    fn clear_all_but(&self, known: &HashSet<&str>) {
        let roots = &self.rootfs_builder.roots;
        for id in roots.list().unwrap_or_default() {
            if !known.contains(id.as_str())
                && let Err(error) = roots.remove(&id)
            {
                tracing::error!(%id, %error, "orphaned root not removed");
            }
        }
        clear_dir(&self.rootfs_builder.files, known);
        self.rootfs_builder.volumes.clear_all_but(known);
    }

    fn name(spec: &PodSpec) -> &Label {
        spec.name.label()
    }

    fn restart(spec: &PodSpec) -> RestartPolicy {
        spec.restart
    }

    async fn prepare(&self, id: &str, spec: &PodSpec) -> Result<PodAllocation> {
        let reference = reference_from_field("pod.image", &spec.image)?;
        // Before an image is fetched in vain.
        blocking(|| self.rootfs_builder.check_pool(spec))?;
        let project = spec.labels.get(PROJECT).map(String::as_str);
        let held = self.images.ensure_for(&reference, spec.pull, project);
        // A pod has its reference in another field than a pull.
        let held = held.await.map_err(|error| match error.field() {
            Some("reference") => error.in_field("pod.image"),
            _ => error,
        })?;
        let mut allocated = PodAllocation {
            image_digest: held.image.digest.to_string(),
            layers: held.image.layers.clone(),
            config: held.image.config.config.clone(),
            address: None,
            id_map: None,
            image_volumes: declared_volumes::targets(spec, &held.image.config.config),
        };
        // What cannot be run is reported now, not at the start.
        plan::command(spec, &allocated.config)?;
        let finished = blocking(|| self.allocate_resources(id, spec, &mut allocated));
        if let Err(error) = finished {
            self.release_resources(id, &allocated);
            return Err(error);
        }
        self.held().insert(id.to_owned(), held);
        Ok(allocated)
    }

    fn pins(&self, spec: &PodSpec) -> Pins {
        self.rootfs_builder.pins(spec)
    }

    fn on_known(&self, id: &str) {
        self.held().remove(id);
    }

    async fn release(&self, record: &Record<Self>) -> Result<()> {
        let cell = Self::cell(&record.spec);
        match self.cells.free(&cell, Some(Duration::ZERO)).await {
            Err(error) if error.kind() != strata_types::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (id, allocated) = (record.id.as_str(), &record.allocated);
        blocking(|| self.release_resources(id, allocated));
        Ok(())
    }

    async fn start(&self, record: &Record<Self>) -> Result<Arc<Executable>> {
        let (spec, allocated) = (&record.spec, &record.allocated);
        let endpoint = endpoint(spec, allocated);
        let ports = match &endpoint {
            Some(endpoint) => Some(self.network.reserve_ports(endpoint)?),
            None => None,
        };
        // The root is made while the cell is, and put in its place while the
        // network is connected.
        let early = allocated.id_map.is_none().then(|| {
            let (rootfs_builder, record) = (self.rootfs_builder.clone(), record.clone());
            aside(move || rootfs_builder.build_rootfs(&record, None))
        });
        let ensured = self.cells.ensure(plan::cell(spec, allocated)).await;
        let build_rootfs = match early {
            Some(early) => Some(early.await?),
            None => None,
        };
        let cell = ensured?;
        let mut connecting = endpoint.map(|endpoint| self.connect(&cell, endpoint));
        // A setting of the interface needs the interface.
        if spec
            .sysctls
            .iter()
            .any(|sysctl| sysctl.name().contains(".eth0."))
            && let Some(connecting) = connecting.take()
        {
            connecting?.await?;
        }
        let identity = blocking(|| self.setup_cell(record, &cell, build_rootfs));
        // Whatever came of it: nothing goes on behind our back.
        match connecting {
            Some(Ok(connecting)) => connecting.await?,
            Some(Err(error)) => return Err(error),
            None => {}
        }
        let user = identity?;
        let terminal = match spec.terminal {
            true => Some(open_terminal(&cell, allocated, &user)?),
            false => None,
        };
        let executable = plan::main(spec, allocated, user)?;
        let secrets = blocking(|| self.rootfs_builder.secrets.environment(spec))?;
        let stdio = match &terminal {
            Some((ours, theirs)) => Stdio::LoggedTerminal(theirs.as_fd(), ours.fd()),
            None if spec.stdin => Stdio::LoggedWithInput,
            None => Stdio::Logged,
        };
        let launch_options = LaunchOptions {
            stdio,
            sandboxed: true,
            as_init: false,
            main: true,
            environment: &secrets,
        };
        let main = cell.start_again(executable, launch_options).await;
        drop(ports);
        main.map_err(in_pod)
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
        if let Some(endpoint) = endpoint(&record.spec, &record.allocated) {
            blocking(|| self.network.detach(&endpoint))?;
        }
        Ok(())
    }

    fn monitor(&self, unit: PodRef, main: Arc<Executable>) {
        health::watch(unit, main);
    }
}

impl PodKind {
    fn allocate_resources(
        &self,
        id: &str,
        spec: &PodSpec,
        allocated: &mut PodAllocation,
    ) -> Result<()> {
        if spec.network == PodNetwork::Bridge {
            allocated.address = Some(self.network.lease(spec.address)?);
        }
        if spec.has_own_users()
            && has_own_users(spec, self.lack_of_id_maps.as_deref(), self.allow_host_users)?
        {
            allocated.id_map = Some(self.take_id_map()?);
        }
        let volumes = &self.rootfs_builder.volumes;
        volumes.take(id, spec.name.as_str(), named(spec), spec.new_volume_size())?;
        self.hold_image_volumes(id, spec, allocated);
        let disk = spec.limits.disk_bytes;
        self.rootfs_builder
            .roots
            .create(id, disk)
            .map_err(|error| rootfs::error(&error, "pod.limits.disk_bytes"))?;
        image_volumes::make(&self.rootfs_builder, id, spec, allocated)?;
        image_volumes::fill_named(&self.rootfs_builder, id, spec, allocated)?;
        files::write(
            &self.rootfs_builder.files.join(id),
            spec,
            allocated,
            self.network.gateway(),
        )
    }

    fn release_resources(&self, id: &str, allocated: &PodAllocation) {
        self.held().remove(id);
        if let Some(address) = allocated.address {
            self.network.release(address);
        }
        if let Some(map) = allocated.id_map {
            self.id_maps().remove(&map.first);
        }
        if let Err(error) = self.rootfs_builder.roots.remove(id) {
            tracing::error!(pod = id, %error, "pod root not removed; retried at the next start");
        }
        self.rootfs_builder.volumes.give_back(id);
        let _ = std::fs::remove_dir_all(self.rootfs_builder.files.join(id));
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<String, HeldImage>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id_maps(&self) -> std::sync::MutexGuard<'_, HashSet<u32>> {
        self.id_maps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a pod from before has that others must not have, or take away.
    pub(super) fn hold(&self, record: &Record<Self>) {
        let map = record.allocated.id_map;
        self.id_maps().extend(map.map(|map| map.first));
        let (spec, volumes) = (&record.spec, &self.rootfs_builder.volumes);
        volumes.hold(&record.id, spec.name.as_str(), named(spec));
        self.hold_image_volumes(&record.id, spec, &record.allocated);
    }

    fn hold_image_volumes(&self, id: &str, spec: &PodSpec, allocated: &PodAllocation) {
        let names = image_volumes::names(id, allocated);
        let names = names.iter().map(String::as_str);
        self.rootfs_builder
            .volumes
            .hold(id, spec.name.as_str(), names);
    }

    fn take_id_map(&self) -> Result<IdMap> {
        let mut taken = self.id_maps();
        let first = (0..MAX_ID_MAPS)
            .map(|i| FIRST_ID + i * IDS)
            .find(|first| !taken.contains(first))
            .ok_or_else(|| Error::exhausted("no users of the machine are left for pods"))?;
        taken.insert(first);
        Ok(IdMap { first, count: IDS })
    }

    /// Gives a new cell its root and its sandbox; returns the user of its
    /// processes.
    fn setup_cell(
        &self,
        record: &Record<Self>,
        cell: &Cell,
        build_rootfs: Option<Rootfs>,
    ) -> Result<users::User> {
        let (spec, allocated) = (&record.spec, &record.allocated);
        let init = cell.init()?;
        let Rootfs {
            root,
            mut mount_ops,
        } = match build_rootfs {
            Some(build_rootfs) => build_rootfs,
            None => {
                let users = init.namespace("user").map_err(gone)?;
                self.rootfs_builder.build_rootfs(record, Some(&users))?
            }
        };
        let wanted = spec.user.as_deref().unwrap_or(&allocated.config.user);
        let user = users::find(&root, wanted)?;
        mount_ops.extend(rootfs::groups(spec, cell)?);
        let set_up = match spec.init {
            true => init.setup_root(&root, &mount_ops),
            false => init.setup_root_for_init(&root, &mount_ops),
        };
        set_up.map_err(|error| rootfs::rootfs_error(spec, &error))?;
        let capabilities = spec.security.capabilities.bits();
        let filter = match (spec.security.any_system_call, spec.init) {
            (true, _) => None,
            (false, true) => Some(seccomp::Filter::for_capabilities(capabilities)),
            (false, false) => Some(seccomp::Filter::for_own_init(capabilities)),
        };
        let confinement = Confinement {
            capabilities,
            no_new_privileges: !spec.security.privilege_escalation,
            rlimits: cores::limits(spec, &cores::pattern()),
            filter,
        };
        init.confine(&confinement)
            .map_err(|error| Error::internal(format!("pod {}: {error}", spec.name)))?;
        Ok(user)
    }

    /// Connects a cell, aside.
    fn connect(
        &self,
        cell: &Cell,
        endpoint: Endpoint,
    ) -> Result<impl Future<Output = Result<()>> + use<>> {
        let namespace = cell.init()?.namespace("net").map_err(gone)?;
        let network = self.network.clone();
        Ok(aside(move || network.attach(&namespace, &endpoint)))
    }
}

/// Whether a pod that is to have users of its own gets them. Where the host
/// cannot, one that leaves it open has the host's if the node's configuration
/// allows that, unless it may do more than pods do by default.
fn has_own_users(spec: &PodSpec, lack: Option<&str>, allow_host_users: bool) -> Result<bool> {
    let Some(why) = lack else {
        return Ok(true);
    };
    let security = &spec.security;
    let usual = Capabilities::default();
    let more = security.capabilities.iter().any(|one| !usual.contains(one));
    let asks = security.user_namespace.is_some() || more || security.any_system_call;
    if allow_host_users && !asks {
        return Ok(false);
    }
    let hint = match asks {
        true => "an admin may run it with the users of the host",
        false => {
            "keep the data directory on ext4, xfs or btrfs, or set allow_host_users of [node] in \
             the node's configuration; an admin may run it with the users of the host"
        }
    };
    let why = format!("pod {} cannot have a user namespace: {why}", spec.name);
    Err(Error::wrong_state(why)
        .in_field("pod.security.user_namespace")
        .with_hint(hint))
}

/// A terminal for a pod's own process: our end, which its init keeps, and the
/// process's.
fn open_terminal(
    cell: &Cell,
    allocated: &PodAllocation,
    user: &users::User,
) -> Result<(Terminal, OwnedFd)> {
    let init = cell.init()?;
    let owner = user.identity.uid.unwrap_or(0);
    let owner = allocated
        .id_map
        .map_or(owner, |map| map.first.saturating_add(owner));
    blocking(|| {
        let root = init.root().map_err(gone)?;
        Terminal::open(&root, TerminalSize::default(), owner)
    })
}

/// Takes the error whole, as `map_err` gives it.
#[allow(clippy::needless_pass_by_value)]
fn gone(error: std::io::Error) -> Error {
    Error::unavailable(format!("the pod's init is gone: {error}"))
}

/// The volumes of the node that a pod has.
fn named(spec: &PodSpec) -> impl Iterator<Item = &str> {
    spec.volumes
        .iter()
        .filter_map(|volume| match &volume.source {
            VolumeSource::Named(name) => Some(name.as_str()),
            _ => None,
        })
}

/// A pod as the network knows it; none when it is not on the bridge.
fn endpoint(spec: &PodSpec, allocated: &PodAllocation) -> Option<Endpoint> {
    let address = allocated.address?;
    Some(Endpoint {
        name: spec.name.to_string(),
        aliases: spec.aliases.iter().map(ToString::to_string).collect(),
        address,
        ports: spec.ports.iter().map(published).collect(),
        owner: project_of(&spec.labels).map_or(Owner::Node, Owner::Project),
    })
}

/// What is wrong with an executable, as what is wrong with a pod.
pub(super) fn in_pod(error: Error) -> Error {
    let field = match error.field() {
        Some("executable.command") => "pod.entrypoint",
        Some("executable.options.working_directory") => "pod.working_directory",
        Some("executable.rlimits") => "pod.rlimits",
        _ => return error,
    };
    error.in_field(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_without_users_of_its_own_is_refused_unless_the_node_allows_it() {
        let mut spec = PodSpec::new("web".parse().unwrap(), "x");
        let lack = Some("the data directory is on ramfs");
        assert!(has_own_users(&spec, None, false).unwrap());
        let refused = has_own_users(&spec, lack, false).unwrap_err();
        assert!(refused.to_string().contains("ramfs"), "{refused}");
        let hint = refused.hint().unwrap_or_default();
        assert!(hint.contains("allow_host_users"), "{hint}");
        assert!(!has_own_users(&spec, lack, true).unwrap());
        // What asks for more than the default never has the host's users.
        spec.security.any_system_call = true;
        assert!(has_own_users(&spec, lack, true).is_err());
        spec.security.any_system_call = false;
        spec.security.user_namespace = Some(true);
        assert!(has_own_users(&spec, lack, true).is_err());
    }
}
