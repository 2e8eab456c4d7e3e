//! The table of placed instances.
//!
//! A large fleet has millions of them, far more than caches hold, so what a
//! placement costs is how often it waits for memory. An instance is one cache
//! line, and the map by id holds only places in the table.

use std::hash::{BuildHasher, BuildHasherDefault};

use hashbrown::HashTable;

use crate::hash::FoldHasher;
use crate::{InstanceId, Resources};

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Instance {
    pub(crate) id: InstanceId,
    pub(crate) resources: Resources,
    pub(crate) node: u32,
    /// Its place in the list of its node.
    pub(crate) at: u32,
    /// Its rules among the compiled rules.
    pub(crate) rules: u32,
    pub(crate) priority: i32,
    /// After which measurement of its node it came.
    pub(crate) epoch: u32,
    /// The kind of its GPUs, as its place in the list of its node.
    pub(crate) gpu_kind: Option<u8>,
    pub(crate) preempts: bool,
    /// Whether it holds ports of its node: most do not, and need not be looked
    /// up.
    pub(crate) has_ports: bool,
}

// One cache line each, vacant or not.
const _: () = assert!(size_of::<Option<Instance>>() == 64);

#[derive(Clone, Debug, Default)]
pub(crate) struct Instances {
    places: HashTable<u32>,
    table: Vec<Option<Instance>>,
    vacant: Vec<u32>,
}

fn hash(id: InstanceId) -> u64 {
    BuildHasherDefault::<FoldHasher>::default().hash_one(id)
}

fn has(table: &[Option<Instance>], place: u32, id: InstanceId) -> bool {
    let instance = table.get(place as usize).and_then(Option::as_ref);
    instance.is_some_and(|instance| instance.id == id)
}

impl Instances {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn place(&self, id: InstanceId) -> Option<u32> {
        let is = |place: &u32| has(&self.table, *place, id);
        self.places.find(hash(id), is).copied()
    }

    pub(crate) fn get(&self, place: u32) -> Option<&Instance> {
        self.table.get(place as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut Instance> {
        self.table.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Instance> {
        self.table.iter().flatten()
    }

    /// Adds an instance that is not in the table.
    pub(crate) fn insert(&mut self, instance: Instance) -> u32 {
        let id = instance.id;
        let place = self.vacant.pop().unwrap_or(self.table.len() as u32);
        match self.table.get_mut(place as usize) {
            Some(vacant) => *vacant = Some(instance),
            None => self.table.push(Some(instance)),
        }
        let table = &self.table;
        self.places.insert_unique(hash(id), place, |&place| {
            table[place as usize].map_or(0, |instance| hash(instance.id))
        });
        place
    }

    pub(crate) fn remove(&mut self, id: InstanceId) -> Option<(u32, Instance)> {
        let is = |place: &u32| has(&self.table, *place, id);
        let (place, _) = self.places.find_entry(hash(id), is).ok()?.remove();
        let instance = self.table[place as usize].take()?;
        self.vacant.push(place);
        Some((place, instance))
    }
}
