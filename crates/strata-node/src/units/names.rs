//! Names that units have on a node. One name means one thing, whatever kind it
//! is: others on the node find it by that name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use strata_types::{Error, Label, Result};

use super::guard;

/// The names of all kinds of units of a node, each with what it is.
#[derive(Clone, Default)]
pub(crate) struct Names(Arc<Mutex<HashMap<Label, &'static str>>>);

impl Names {
    /// Takes a name for a unit of this kind, which may have it already.
    pub(super) fn take(&self, name: &Label, noun: &'static str) -> Result<()> {
        let mut names = guard(&self.0);
        match *names.entry(name.clone()).or_insert(noun) {
            owner if owner == noun => Ok(()),
            owner => Err(Error::already_exists(format!(
                "there is a {owner} {:?} already, and others find it by that name",
                name.as_str()
            ))
            .in_field(format!("{noun}.name"))
            .with_hint("take another name")),
        }
    }

    /// Gives a name back.
    pub(super) fn give_back(&self, name: &Label) {
        guard(&self.0).remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_things() {
        let names = Names::default();
        let web: Label = "web".parse().unwrap();
        names.take(&web, "pod").unwrap();
        names.take(&web, "pod").unwrap();
        let taken = names.take(&web, "vm").unwrap_err();
        assert_eq!(taken.field(), Some("vm.name"));
        names.give_back(&web);
        names.take(&web, "vm").unwrap();
    }
}
