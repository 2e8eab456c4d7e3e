//! Taking everything of a run away, also without its daemon.

use std::collections::BTreeSet;
use std::path::Path;

use crate::deferred_removal::remove_now;
use crate::error::{Result, kernel};
use crate::netlink::{Family, Socket};
use crate::rules::{Table, list_tables, uplinks_of};
use crate::{Network, Tag, forwarding, link, overlay};

impl Network {
    /// Removes every interface and the table of a run, and puts forwarding
    /// back to how it was. `state` is the directory of its configuration; it
    /// stays, empty of ours. Idempotent.
    pub fn remove(tag: &Tag, state: &Path) -> Result<()> {
        let open = |family| Socket::open(family).map_err(kernel("open a netlink socket"));
        let (mut links, mut rules) = (open(Family::Route)?, open(Family::Netfilter)?);
        let name = tag.table();
        let (mut own, mut others) = (BTreeSet::new(), BTreeSet::new());
        for table in list_tables(&mut rules)? {
            let uplinks = uplinks_of(&mut rules, &table)?;
            if table == name { &mut own } else { &mut others }.extend(uplinks);
        }
        // The bridge goes last: it is how the rest is known to be ours.
        let bridge = tag.bridge();
        let mut all = link::all(&mut links)?;
        all.retain(|link| link.name.starts_with(&tag.interfaces()) && link.name != bridge);
        remove_now(&mut links, &all)?;
        link::delete(&mut links, &bridge)?;
        overlay::remove_detour(&mut links, state)?;
        forwarding::turn_off(state, &own, &others)?;
        Table {
            socket: &mut rules,
            name: &name,
        }
        .remove()
    }
}
