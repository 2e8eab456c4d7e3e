//! The names of instances of other nodes, as a server sends them. It outlives
//! the network of a node, which is created when something first needs it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Arc, PoisonError, RwLock};

/// An instance on another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteName {
    pub address: Ipv4Addr,
    /// Its project: others do not find it, unless they may reach it.
    pub project: String,
    /// What it is called, without the domain. The first is the one that its
    /// address has.
    pub names: Vec<String>,
}

/// A change of names.
#[derive(Clone, Debug, Default)]
pub struct NameChange {
    /// Instead of all that was known before.
    pub complete: bool,
    /// By ids of instances.
    pub names: Vec<(String, RemoteName)>,
    /// Ids of instances that have no name any more.
    pub gone: Vec<String>,
}

/// The names of other nodes' instances. Clones are the same names.
#[derive(Clone, Debug, Default)]
pub struct RemoteNames(Arc<RwLock<Index>>);

#[derive(Debug, Default)]
struct Index {
    instances: HashMap<String, RemoteName>,
    /// Ids by name, in an order that stays.
    names: HashMap<String, BTreeSet<String>>,
    addresses: BTreeMap<Ipv4Addr, String>,
}

impl Index {
    fn insert(&mut self, id: String, mut name: RemoteName) {
        self.remove(&id);
        name.names
            .iter_mut()
            .for_each(|one| one.make_ascii_lowercase());
        for one in &name.names {
            self.names
                .entry(one.clone())
                .or_default()
                .insert(id.clone());
        }
        self.addresses.insert(name.address, id.clone());
        self.instances.insert(id, name);
    }

    fn remove(&mut self, id: &str) {
        let Some(name) = self.instances.remove(id) else {
            return;
        };
        for one in &name.names {
            if let Some(ids) = self.names.get_mut(one) {
                ids.remove(id);
                if ids.is_empty() {
                    self.names.remove(one);
                }
            }
        }
        if self.addresses.get(&name.address).is_some_and(|at| at == id) {
            self.addresses.remove(&name.address);
        }
    }
}

impl RemoteNames {
    pub fn update(&self, change: NameChange) {
        let mut index = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if change.complete {
            *index = Index::default();
        }
        change.gone.iter().for_each(|id| index.remove(id));
        for (id, name) in change.names {
            index.insert(id, name);
        }
    }

    /// The endpoints of this name, of the projects that may be found.
    pub(super) fn find(
        &self,
        name: &str,
        may: impl Fn(&str) -> bool,
    ) -> Option<BTreeSet<Ipv4Addr>> {
        let index = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let ids = index.names.get(name)?.iter();
        let found = ids.filter_map(|id| index.instances.get(id));
        let found: BTreeSet<_> = found
            .filter(|one| may(&one.project))
            .map(|one| one.address)
            .collect();
        (!found.is_empty()).then_some(found)
    }

    /// What the one at an address is called.
    pub(super) fn name_of(&self, address: Ipv4Addr, may: impl Fn(&str) -> bool) -> Option<String> {
        let index = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let one = index.instances.get(index.addresses.get(&address)?)?;
        one.names.first().filter(|_| may(&one.project)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(last: u8, name: &str) -> RemoteName {
        RemoteName {
            address: Ipv4Addr::new(10, 42, 9, last),
            project: "default".into(),
            names: vec![name.into()],
        }
    }

    #[test]
    fn an_instance_that_moves_has_its_new_address_alone() {
        let names = RemoteNames::default();
        let set = |id: &str, one: RemoteName, complete| {
            names.update(NameChange {
                complete,
                names: vec![(id.into(), one)],
                gone: Vec::new(),
            });
        };
        set("a", name(1, "Web"), false);
        set("a", name(2, "web"), false);
        let at = |last| Some(BTreeSet::from([Ipv4Addr::new(10, 42, 9, last)]));
        assert_eq!(names.find("web", |_| true), at(2));
        assert_eq!(names.name_of([10, 42, 9, 1].into(), |_| true), None);
        assert_eq!(names.find("web", |_| false), None);
        set("b", name(3, "db"), true);
        assert_eq!(names.find("web", |_| true), None, "the list is replaced");
        assert_eq!(names.find("db", |_| true), at(3));
    }

    #[test]
    fn an_address_that_another_has_by_now_keeps_its_name() {
        let names = RemoteNames::default();
        names.update(NameChange {
            names: vec![("a".into(), name(1, "old")), ("b".into(), name(1, "new"))],
            gone: Vec::new(),
            complete: false,
        });
        names.update(NameChange {
            gone: vec!["a".into(), "unknown".into()],
            ..NameChange::default()
        });
        let found = names.name_of([10, 42, 9, 1].into(), |_| true);
        assert_eq!(found.as_deref(), Some("new"));
    }
}
