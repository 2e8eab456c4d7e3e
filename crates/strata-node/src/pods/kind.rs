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

use super::rootfs::{Furniture, Outfitter};
use super::{MAIN, PodRef, Size, Terminal, files, health, image_volumes, plan, rootfs, users};
use crate::blocking::{aside, blocking};
use crate::cells::{Cell, Cells, Executable, Manner};
use crate::host_path::Pins;
use crate::images::{HeldImage, Images, reference_from_field};
use crate::network::{NodeNetwork, project_of, published};
use crate::units::{Kind, Record, clear_folder};

/// The label by which a server says whose a pod is.
const PROJECT: &str = "strata.dev/project";
/// Users of the machine for pods with users of their own begin here.
const FIRST_ID: u32 = 1 << 30;
/// So many for each.
const IDS: u32 = 1 << 16;
const MOST_ID_MAPS: u32 = 1 << 14;

/// What was decided when a pod was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Made {
    /// Of the manifest.
    pub(crate) image_digest: String,
    /// Unpacked layers, the lowest first.
    pub(crate) layers: Vec<PathBuf>,
    /// How the image wants to be run.
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
    pub(crate) outfitter: Outfitter,
    pub(crate) network: Arc<NodeNetwork>,
    /// Why pods cannot have users of their own here; none where they can.
    pub(crate) lack_of_id_maps: Option<String>,
    /// The first users of those pods that have users of their own.
    pub(crate) id_maps: Mutex<HashSet<u32>>,
    /// Images of pods that are being made, which nobody else speaks for yet.
    pub(crate) held: Mutex<HashMap<String, HeldImage>>,
}

impl Kind for PodKind {
    type Spec = PodSpec;
    type Made = Made;

    const NOUN: &'static str = "pod";
    const MAIN: &'static str = MAIN;

    fn cells(&self) -> &Cells {
        &self.cells
    }

    fn endpoint(record: &Record<Self>) -> Option<Endpoint> {
        endpoint(&record.spec, &record.made)
    }

    fn clear_all_but(&self, known: &HashSet<&str>) {
        let roots = &self.outfitter.roots;
        for id in roots.list().unwrap_or_default() {
            if !known.contains(id.as_str())
                && let Err(error) = roots.remove(&id)
            {
                tracing::error!(%id, %error, "a root that no pod has could not be removed");
            }
        }
        clear_folder(&self.outfitter.files, known);
        self.outfitter.volumes.clear_all_but(known);
    }

    fn name(spec: &PodSpec) -> &Label {
        spec.name.label()
    }

    fn restart(spec: &PodSpec) -> RestartPolicy {
        spec.restart
    }

    async fn make(&self, id: &str, spec: &PodSpec) -> Result<Made> {
        let reference = reference_from_field("pod.image", &spec.image)?;
        // Before an image is fetched in vain.
        blocking(|| self.outfitter.check_pool(spec))?;
        let project = spec.labels.get(PROJECT).map(String::as_str);
        let held = self.images.ensure_for(&reference, spec.pull, project);
        // A pod has its reference in another field than a pull.
        let held = held.await.map_err(|error| match error.field() {
            Some("reference") => error.in_field("pod.image"),
            _ => error,
        })?;
        let mut made = Made {
            image_digest: held.image.digest.to_string(),
            layers: held.image.layers.clone(),
            config: held.image.config.config.clone(),
            address: None,
            id_map: None,
            image_volumes: image_volumes::targets(spec, &held.image.config.config),
        };
        // What cannot be run is told now, not at the start.
        plan::command(spec, &made.config)?;
        let finished = blocking(|| self.make_parts(id, spec, &mut made));
        if let Err(error) = finished {
            self.unmake_parts(id, &made);
            return Err(error);
        }
        self.held().insert(id.to_owned(), held);
        Ok(made)
    }

    fn pins(&self, spec: &PodSpec) -> Pins {
        self.outfitter.pins(spec)
    }

    fn on_known(&self, id: &str) {
        self.held().remove(id);
    }

    async fn unmake(&self, record: &Record<Self>) -> Result<()> {
        let cell = Self::cell(&record.spec);
        match self.cells.free(&cell, Some(Duration::ZERO)).await {
            Err(error) if error.kind() != strata_types::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (id, made) = (record.id.as_str(), &record.made);
        blocking(|| self.unmake_parts(id, made));
        Ok(())
    }

    async fn up(&self, record: &Record<Self>) -> Result<Arc<Executable>> {
        let (spec, made) = (&record.spec, &record.made);
        let endpoint = endpoint(spec, made);
        let ports = match &endpoint {
            Some(endpoint) => Some(self.network.reserve_ports(endpoint)?),
            None => None,
        };
        // The root is made while the cell is, and put in its place while the
        // network is connected.
        let early = made.id_map.is_none().then(|| {
            let (outfitter, record) = (self.outfitter.clone(), record.clone());
            aside(move || outfitter.furniture(&record, None))
        });
        let raised = self.cells.raise(plan::cell(spec, made)).await;
        let furniture = match early {
            Some(early) => Some(early.await?),
            None => None,
        };
        let cell = raised?;
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
        let identity = blocking(|| self.fit_out(record, &cell, furniture));
        // Whatever came of it: nothing goes on behind our back.
        match connecting {
            Some(Ok(connecting)) => connecting.await?,
            Some(Err(error)) => return Err(error),
            None => {}
        }
        let user = identity?;
        let terminal = match spec.terminal {
            true => Some(open_terminal(&cell, made, &user)?),
            false => None,
        };
        let executable = plan::main(spec, made, user)?;
        let secrets = blocking(|| self.outfitter.secrets.environment(spec))?;
        let stdio = match &terminal {
            Some((ours, theirs)) => Stdio::LoggedTerminal(theirs.as_fd(), ours.fd()),
            None if spec.stdin => Stdio::LoggedWithInput,
            None => Stdio::Logged,
        };
        let manner = Manner {
            stdio,
            sandboxed: true,
            as_init: false,
            main: true,
            environment: &secrets,
        };
        let main = cell.start_anew(executable, manner).await;
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

    async fn down(&self, record: &Record<Self>) -> Result<()> {
        let cell = Self::cell(&record.spec);
        self.cells.halt(&cell, Some(Duration::ZERO)).await?;
        if let Some(endpoint) = endpoint(&record.spec, &record.made) {
            blocking(|| self.network.detach(&endpoint))?;
        }
        Ok(())
    }

    fn attend(&self, unit: PodRef, main: Arc<Executable>) {
        health::watch(unit, main);
    }
}

impl PodKind {
    fn make_parts(&self, id: &str, spec: &PodSpec, made: &mut Made) -> Result<()> {
        if spec.network == PodNetwork::Bridge {
            made.address = Some(self.network.lease(spec.address)?);
        }
        if spec.has_own_users() && self.can_have_own_users(spec)? {
            made.id_map = Some(self.take_id_map()?);
        }
        let volumes = &self.outfitter.volumes;
        volumes.take(id, spec.name.as_str(), named(spec))?;
        self.hold_image_volumes(id, spec, made);
        let disk = spec.limits.disk_bytes;
        self.outfitter
            .roots
            .create(id, disk)
            .map_err(|error| rootfs::error(&error, "pod.limits.disk_bytes"))?;
        image_volumes::make(&self.outfitter, id, spec, made)?;
        image_volumes::fill_named(&self.outfitter, id, spec, made)?;
        files::write(
            &self.outfitter.files.join(id),
            spec,
            made,
            self.network.gateway(),
        )
    }

    fn unmake_parts(&self, id: &str, made: &Made) {
        self.held().remove(id);
        if let Some(address) = made.address {
            self.network.release(address);
        }
        if let Some(map) = made.id_map {
            self.id_maps().remove(&map.first);
        }
        if let Err(error) = self.outfitter.roots.remove(id) {
            tracing::error!(%error, "a pod's root could not be removed; the next start tries again");
        }
        self.outfitter.volumes.give_back(id);
        let _ = std::fs::remove_dir_all(self.outfitter.files.join(id));
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<String, HeldImage>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id_maps(&self) -> std::sync::MutexGuard<'_, HashSet<u32>> {
        self.id_maps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a pod from before has that others must not have, or take away.
    pub(super) fn hold(&self, record: &Record<Self>) {
        let map = record.made.id_map;
        self.id_maps().extend(map.map(|map| map.first));
        let (spec, volumes) = (&record.spec, &self.outfitter.volumes);
        volumes.hold(&record.id, spec.name.as_str(), named(spec));
        self.hold_image_volumes(&record.id, spec, &record.made);
    }

    fn hold_image_volumes(&self, id: &str, spec: &PodSpec, made: &Made) {
        let names = image_volumes::names(id, made);
        let names = names.iter().map(String::as_str);
        self.outfitter.volumes.hold(id, spec.name.as_str(), names);
    }

    /// Whether a pod that is to have users of its own gets them. Where the
    /// host cannot, one that leaves it open has the host's, unless it may do
    /// more than pods do by default.
    fn can_have_own_users(&self, spec: &PodSpec) -> Result<bool> {
        let Some(why) = &self.lack_of_id_maps else {
            return Ok(true);
        };
        let security = &spec.security;
        let usual = Capabilities::default();
        let more = security.capabilities.iter().any(|one| !usual.contains(one));
        match security.user_namespace.is_some() || more || security.any_system_call {
            true => Err(Error::wrong_state(format!(
                "pod {} cannot have a user namespace: {why}",
                spec.name
            ))
            .in_field("pod.security.user_namespace")
            .with_hint("an admin may run it with the users of the host")),
            false => Ok(false),
        }
    }

    fn take_id_map(&self) -> Result<IdMap> {
        let mut taken = self.id_maps();
        let first = (0..MOST_ID_MAPS)
            .map(|i| FIRST_ID + i * IDS)
            .find(|first| !taken.contains(first))
            .ok_or_else(|| Error::exhausted("no users of the machine are left for pods"))?;
        taken.insert(first);
        Ok(IdMap { first, count: IDS })
    }

    /// Gives a new cell its root and its sandbox; answers who its processes
    /// are.
    fn fit_out(
        &self,
        record: &Record<Self>,
        cell: &Cell,
        furniture: Option<Furniture>,
    ) -> Result<users::User> {
        let (spec, made) = (&record.spec, &record.made);
        let init = cell.init()?;
        let Furniture { root, mut fittings } = match furniture {
            Some(furniture) => furniture,
            None => {
                let users = init.namespace("user").map_err(gone)?;
                self.outfitter.furniture(record, Some(&users))?
            }
        };
        let wanted = spec.user.as_deref().unwrap_or(&made.config.user);
        let user = users::find(&root, wanted)?;
        fittings.extend(rootfs::groups(spec, cell)?);
        let furnished = match spec.init {
            true => init.furnish(&root, &fittings),
            false => init.furnish_for_init(&root, &fittings),
        };
        furnished.map_err(|error| rootfs::not_furnished(spec, &error))?;
        let capabilities = spec.security.capabilities.bits();
        let filter = match spec.security.any_system_call {
            true => None,
            false => Some(seccomp::Filter::for_capabilities(capabilities)),
        };
        let confinement = Confinement {
            capabilities,
            no_new_privileges: !spec.security.privilege_escalation,
            core_dumps: true,
            rlimits: plan::rlimits(spec),
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

/// A terminal for a pod's own process: our end, which its init keeps, and the
/// process's.
fn open_terminal(cell: &Cell, made: &Made, user: &users::User) -> Result<(Terminal, OwnedFd)> {
    let init = cell.init()?;
    let owner = user.identity.uid.unwrap_or(0);
    let owner = made
        .id_map
        .map_or(owner, |map| map.first.saturating_add(owner));
    blocking(|| {
        let root = init.root().map_err(gone)?;
        Terminal::open(&root, Size::default(), owner)
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
fn endpoint(spec: &PodSpec, made: &Made) -> Option<Endpoint> {
    let address = made.address?;
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
