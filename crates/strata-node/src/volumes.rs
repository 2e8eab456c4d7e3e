//! Volumes that the node keeps for pods: created on request, at the latest for
//! the first pod that has it, and kept until a caller removes them.
//!
//! Which pod has which volume is known here from the moment a pod is created
//! until all of it is gone, so that no volume is removed under a pod, nor a pod
//! attached to one that is being removed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use strata_rootfs::{BindOptions, RootError, Volumes};
use strata_types::{Error, Label, Result};

/// To count what is in all volumes; what is not counted by then is not
/// reported.
const COUNTING: Duration = Duration::from_secs(2);

/// One lock for each volume that is being filled.
type FillLocks = HashMap<String, Arc<Mutex<()>>>;

/// All volumes of a node.
pub(crate) struct NodeVolumes {
    store: Volumes,
    uses: Mutex<VolumeUses>,
    fills: Mutex<FillLocks>,
}

#[derive(Default)]
struct VolumeUses {
    /// The names of pods by their ids, for each volume.
    pods: HashMap<String, BTreeMap<String, String>>,
    /// Volumes on their way out.
    going: HashSet<String>,
}

/// A volume as it is.
pub(crate) struct VolumeView {
    pub(crate) name: String,
    pub(crate) size: Option<u64>,
    /// None when it was too much to count.
    pub(crate) used: Option<u64>,
    pub(crate) created: SystemTime,
    pub(crate) used_by: Vec<String>,
}

impl NodeVolumes {
    /// The volumes in a directory.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let store = Volumes::open(dir).map_err(|error| {
            let why = strata_types::chain(&error);
            Error::internal(format!("cannot open the node's volumes: {why}"))
        })?;
        Ok(Self {
            store,
            uses: Mutex::default(),
            fills: Mutex::default(),
        })
    }

    fn fills(&self) -> MutexGuard<'_, FillLocks> {
        self.fills.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn uses(&self) -> MutexGuard<'_, VolumeUses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a volume. The same again is fine.
    pub(crate) fn create(&self, name: &Label, size: Option<u64>) -> Result<VolumeView> {
        if self.uses().going.contains(name.as_str()) {
            return Err(going(name.as_str()));
        }
        self.store
            .create(name.as_str(), size)
            .map_err(|error| public(&error, name.as_str()))?;
        self.get(name.as_str())
    }

    /// Takes volumes for a new pod; makes those that are not there, with this
    /// size.
    pub(crate) fn take<'a>(
        &self,
        id: &str,
        pod: &str,
        names: impl Iterator<Item = &'a str>,
        size: Option<u64>,
    ) -> Result<()> {
        for name in names {
            {
                let mut uses = self.uses();
                if uses.going.contains(name) {
                    return Err(going(name));
                }
                uses.add(name, id, pod);
            }
            self.ensure(name, size)?;
        }
        Ok(())
    }

    /// The same for a pod from before.
    pub(crate) fn hold<'a>(&self, id: &str, pod: &str, names: impl Iterator<Item = &'a str>) {
        let mut uses = self.uses();
        for name in names {
            uses.add(name, id, pod);
        }
    }

    /// A pod is gone, and with it the volumes that its image declared.
    pub(crate) fn give_back(&self, id: &str) {
        let mut own = Vec::new();
        self.uses().pods.retain(|name, pods| {
            pods.remove(id);
            if owner(name) == Some(id) {
                own.push(name.clone());
            }
            !pods.is_empty()
        });
        own.iter().for_each(|name| self.clear(name));
    }

    /// Removes what images of pods other than these declared.
    pub(crate) fn clear_all_but(&self, known: &HashSet<&str>) {
        for name in self.store.list().unwrap_or_default() {
            if owner(&name).is_some_and(|id| !known.contains(id)) {
                self.clear(&name);
            }
        }
    }

    fn clear(&self, name: &str) {
        if let Err(error) = self.store.remove(name) {
            tracing::error!(name, %error, "volume of a removed pod not deleted");
        }
    }

    /// Fills a volume for a pod that was given it by [`Self::take`], unless
    /// there is something in it, or other pods may be about to put something
    /// there. Other callers wait meanwhile.
    pub(crate) fn fill(
        &self,
        id: &str,
        name: &str,
        copy: impl FnOnce(&OwnedFd) -> std::result::Result<(), RootError>,
    ) -> Result<()> {
        let lock = self.fills().entry(name.to_owned()).or_default().clone();
        let filled = {
            let _alone = lock.lock().unwrap_or_else(PoisonError::into_inner);
            let uses = self.uses();
            let mut pods = uses.pods.get(name).into_iter().flat_map(BTreeMap::keys);
            let unused = pods.all(|pod| pod == id);
            drop(uses);
            self.store.fill(name, unused, copy)
        };
        let mut fills = self.fills();
        // Ours and the map's: no other task waits for it.
        if Arc::strong_count(&lock) <= 2 {
            fills.remove(name);
        }
        filled.map_err(|error| public(&error, name))
    }

    /// A new volume that a pod's image declares; see [`of_image`].
    pub(crate) fn make_of_image(&self, name: &str, size: Option<u64>) -> Result<()> {
        self.store
            .create(name, size)
            .map_err(|error| public(&error, name))
    }

    fn ensure(&self, name: &str, size: Option<u64>) -> Result<()> {
        if self.store.contains(name) {
            return Ok(());
        }
        match self.store.create(name, size) {
            // Another caller was faster, and set the size.
            Ok(()) | Err(RootError::OtherLimit { .. }) => Ok(()),
            Err(error) => Err(public(&error, name)),
        }
    }

    /// A volume, to be mounted into a pod that has it. One that was lost is
    /// made again, with this size.
    pub(crate) fn mount(
        &self,
        name: &str,
        size: Option<u64>,
        options: BindOptions<'_>,
    ) -> Result<OwnedFd> {
        self.ensure(name, size)?;
        self.store
            .mount(name, options)
            .map_err(|error| public(&error, name))
    }

    /// A volume as it is.
    pub(crate) fn get(&self, name: &str) -> Result<VolumeView> {
        if !self.store.contains(name) {
            return Err(unknown(name));
        }
        self.view(name, true)
    }

    /// Every volume in the order of their names.
    pub(crate) fn list(&self) -> Result<Vec<VolumeView>> {
        let mut names = self.store.list().map_err(|error| public(&error, ""))?;
        names.sort();
        let begun = Instant::now();
        let view = |name: String| self.view(&name, begun.elapsed() < COUNTING);
        // One that goes meanwhile is none.
        Ok(names.into_iter().flat_map(view).collect())
    }

    fn view(&self, name: &str, count: bool) -> Result<VolumeView> {
        let failed = |error: RootError| public(&error, name);
        let size = self.store.size(name).map_err(failed)?;
        let used = match count || size.is_some() {
            true => Some(self.store.usage(name).map_err(failed)?),
            false => None,
        };
        let uses = self.uses();
        let pods = uses.pods.get(name).into_iter().flat_map(BTreeMap::values);
        let mut used_by: Vec<String> = pods.cloned().collect();
        used_by.sort();
        Ok(VolumeView {
            name: name.to_owned(),
            size,
            used: used.filter(|used| !used.at_least).map(|used| used.bytes),
            created: self.store.created(name).map_err(failed)?,
            used_by,
        })
    }

    /// Takes a volume away that no pod has.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        {
            let mut uses = self.uses();
            if let Some(pods) = uses.pods.get(name) {
                let pods: Vec<&str> = pods.values().map(String::as_str).collect();
                let pods = pods.join(", ");
                return Err(
                    Error::wrong_state(format!("volume {name:?} is in use by {pods}"))
                        .with_hint("destroy what uses it first"),
                );
            }
            if uses.going.contains(name) {
                return Err(going(name));
            }
            if !self.store.contains(name) {
                return Err(unknown(name));
            }
            uses.going.insert(name.to_owned());
        }
        let removed = self.store.remove(name);
        self.uses().going.remove(name);
        removed.map_err(|error| public(&error, name))
    }
}

/// The name of the volume that a pod's image declares, by its place in the list
/// of those. No volume that people name has a dot in its name.
pub(crate) fn of_image(id: &str, index: usize) -> String {
    format!("pod.{id}.{index}")
}

/// The pod that such a volume goes with.
fn owner(name: &str) -> Option<&str> {
    let (id, _) = name.strip_prefix("pod.")?.rsplit_once('.')?;
    Some(id)
}

impl VolumeUses {
    fn add(&mut self, volume: &str, id: &str, pod: &str) {
        let pods = self.pods.entry(volume.to_owned()).or_default();
        pods.insert(id.to_owned(), pod.to_owned());
    }
}

fn unknown(name: &str) -> Error {
    let name: String = name.chars().take(80).collect();
    Error::not_found(format!("there is no volume {name:?}")).in_field("name")
}

fn going(name: &str) -> Error {
    Error::wrong_state(format!("volume {name:?} is being removed"))
        .with_hint("try again in a moment")
}

/// What went wrong with a volume, for the caller.
fn public(error: &RootError, name: &str) -> Error {
    let text = strata_types::chain(error);
    match error {
        RootError::LimitUnsupported { .. } => Error::wrong_state(text)
            .in_field("size_bytes")
            .with_hint("leave the size out, or keep the data directory on btrfs or xfs"),
        RootError::LimitTooSmall { .. } => Error::invalid("size_bytes", text),
        RootError::OtherLimit { has, .. } => {
            let has = has.map_or("no size".to_owned(), |bytes| format!("{bytes} bytes"));
            let text = format!("there is a volume {name:?} already, with {has}");
            Error::already_exists(text)
                .in_field("size_bytes")
                .with_hint("remove it first, or take another name")
        }
        RootError::DiskFull { .. } => {
            Error::exhausted(text).with_hint("make room on the disk of the data directory")
        }
        _ => Error::internal(format!("volume {name:?}: {text}")),
    }
}
