//! The table as a whole: rebuilt in one transaction, changed by elements,
//! removed, queried.

use std::net::Ipv4Addr;

use rustix::io::Errno;

use crate::error::{Result, kernel};
use crate::netlink::{Attributes, Batch, NetlinkError, Socket, flag, nft};
use crate::{Subnet, Tag};

use super::elements::{Element, SetName, add, delete, element_sets};
use super::meters::Meters;
use super::{between, chains, meters};

const HEADER: [u8; nft::HEADER] = [nft::NFPROTO_INET, 0, 0, 0];

/// The number of the default project.
pub(crate) const DEFAULT_PROJECT_NUMBER: u32 = 0;

/// What the rules depend on.
#[derive(Clone, Debug)]
pub(crate) struct TableFacts {
    pub(crate) tag: Tag,
    pub(crate) subnet: Subnet,
    pub(crate) range: Subnet,
    pub(crate) overlay_port: u16,
    /// Where our server of names listens, at the gateway's address.
    pub(crate) names_port: u16,
    /// Pods may reach the metadata services of clouds.
    pub(crate) metadata: bool,
    /// The kernel has nftables for the frames of bridges.
    pub(crate) frames: bool,
    /// What is counted for each pod.
    pub(crate) meters: Meters,
}

impl TableFacts {
    /// The number of the overlay: the first 24 bits of the cluster's range, so
    /// that clusters side by side do not mix. The default range grows with the
    /// cluster, and nodes receive it one after the other: its number stays that
    /// of its beginning.
    pub(crate) fn overlay_id(&self) -> u32 {
        const DEFAULT: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 0);
        let grown = self.range.contains(DEFAULT) && self.range.prefix() <= 16;
        let first = if grown { DEFAULT } else { self.range.network() };
        first.to_bits() >> 8
    }
}

/// The table of one run. Every method is one transaction: whole or nothing.
pub(crate) struct Table<'a> {
    pub(crate) socket: &'a mut Socket,
    pub(crate) name: &'a str,
}

impl Table<'_> {
    /// Whether it is there.
    pub(crate) fn exists(&mut self) -> Result<bool> {
        let mut batch = Batch::default();
        batch
            .message(nft::GETTABLE, 0, &HEADER)
            .put_text(nft::TABLE_NAME, self.name);
        match self.socket.talk(&mut batch) {
            Ok(_) => Ok(true),
            Err(error) if error.is(Errno::NOENT) => Ok(false),
            Err(error) => Err(kernel(format!("look for the table {}", self.name))(error)),
        }
    }

    /// Makes it, or makes it again in the place of what is there. Packets see
    /// the old one or the new one, never none.
    pub(crate) fn rebuild(
        &mut self,
        facts: &TableFacts,
        projects: &[u32],
        elements: &[Element],
    ) -> Result<()> {
        let name = self.name;
        self.replace(|batch| {
            write_sets(batch, name, nft::NFPROTO_INET);
            meters::write_sets(batch, name, facts.meters);
            chains::write(batch, facts);
            if facts.frames {
                add_table(batch, nft::NFPROTO_BRIDGE, name);
                delete_table(batch, nft::NFPROTO_BRIDGE, name);
                add_table(batch, nft::NFPROTO_BRIDGE, name);
                write_sets(batch, name, nft::NFPROTO_BRIDGE);
                between::write(batch, name);
            }
            write_projects(batch, name, facts.frames, projects);
            let mut elements = elements.to_vec();
            elements.sort();
            elements.dedup();
            add(batch, name, &elements);
        })
    }

    /// The same with whatever is written into it.
    pub(super) fn replace(&mut self, write: impl FnOnce(&mut Batch)) -> Result<()> {
        let mut batch = begin();
        // Deleting needs something to delete.
        let (family, name) = (nft::NFPROTO_INET, self.name);
        add_table(&mut batch, family, name);
        delete_table(&mut batch, family, name);
        add_table(&mut batch, family, name);
        write(&mut batch);
        self.commit(batch)
            .map_err(kernel(format!("make the table {}", self.name)))
    }

    /// Takes out and puts in; first the chains of projects that are new.
    pub(crate) fn change(
        &mut self,
        facts: &TableFacts,
        projects: &[u32],
        out: &[Element],
        into: &[Element],
    ) -> Result<(), NetlinkError> {
        if projects.is_empty() && out.is_empty() && into.is_empty() {
            return Ok(());
        }
        let mut batch = begin();
        write_projects(&mut batch, self.name, facts.frames, projects);
        delete(&mut batch, self.name, out);
        add(&mut batch, self.name, into);
        self.commit(batch)
    }

    /// Removes it; one that is gone is no error.
    pub(crate) fn remove(&mut self) -> Result<()> {
        self.remove_of(nft::NFPROTO_INET)
            .map_err(kernel(format!("remove the table {}", self.name)))?;
        // A kernel without such tables has none that could be left.
        match self.remove_of(nft::NFPROTO_BRIDGE) {
            Err(NetlinkError::Refused { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(kernel(format!("remove the table {}", self.name))(error)),
        }
    }

    fn remove_of(&mut self, family: u8) -> Result<(), NetlinkError> {
        let mut batch = begin();
        add_table(&mut batch, family, self.name);
        delete_table(&mut batch, family, self.name);
        self.commit(batch)
    }

    /// Whether the kernel has nftables for the frames of bridges: a rule as
    /// those that are needed is made, in a table that goes at once.
    pub(crate) fn has_frames(&mut self) -> bool {
        let (family, probe) = (nft::NFPROTO_BRIDGE, format!("{}-probe", self.name));
        let mut batch = begin();
        add_table(&mut batch, family, &probe);
        write_sets(&mut batch, &probe, family);
        between::write(&mut batch, &probe);
        between::write_project(&mut batch, &probe, DEFAULT_PROJECT_NUMBER);
        delete_table(&mut batch, family, &probe);
        self.commit(batch).is_ok()
    }

    fn commit(&mut self, batch: Batch) -> Result<(), NetlinkError> {
        commit(self.socket, batch)
    }
}

/// Ends a transaction and sends it.
pub(super) fn commit(socket: &mut Socket, mut batch: Batch) -> Result<(), NetlinkError> {
    batch.message(nft::BATCH_END, 0, &[0, 0, 0, nft::SUBSYSTEM as u8]);
    socket.transact(&mut batch)
}

fn write_projects(batch: &mut Batch, table: &str, frames: bool, projects: &[u32]) {
    for project in projects {
        chains::write_project(batch, table, *project);
        if frames {
            between::write_project(batch, table, *project);
        }
    }
}

pub(super) fn add_table(batch: &mut Batch, family: u8, name: &str) {
    batch
        .message(nft::NEWTABLE, flag::CREATE, &[family, 0, 0, 0])
        .put_text(nft::TABLE_NAME, name);
}

pub(super) fn delete_table(batch: &mut Batch, family: u8, name: &str) {
    batch
        .message(nft::DELTABLE, 0, &[family, 0, 0, 0])
        .put_text(nft::TABLE_NAME, name);
}

/// Makes the sets of a family, empty.
pub(super) fn write_sets(batch: &mut Batch, table: &str, family: u8) {
    let shapes = element_sets().into_iter();
    let shapes = shapes.filter(|shape| shape.name.family() == family);
    for (id, shape) in (1..).zip(shapes) {
        let flags = if shape.data.is_some() {
            nft::SET_MAP
        } else {
            0
        };
        batch
            .message(nft::NEWSET, flag::CREATE, &[family, 0, 0, 0])
            .put_text(nft::SET_TABLE, table)
            .put_text(nft::SET_NAME, shape.name.text())
            .put_be32(nft::SET_FLAGS, flags)
            .put_be32(nft::SET_KEY_TYPE, shape.key.0)
            .put_be32(nft::SET_KEY_LEN, shape.key.1)
            .put_be32(nft::SET_ID, id);
        if let Some(order) = shape.order {
            batch.put(nft::SET_USERDATA, &order);
        }
        if let Some((kind, length)) = shape.data {
            batch
                .put_be32(nft::SET_DATA_TYPE, kind)
                .put_be32(nft::SET_DATA_LEN, length);
        }
    }
}

pub(super) fn begin() -> Batch {
    let mut batch = Batch::default();
    batch.message(nft::BATCH_BEGIN, 0, &[0, 0, 0, nft::SUBSYSTEM as u8]);
    batch
}

/// The names of the tables of all runs.
pub(crate) fn list_tables(socket: &mut Socket) -> Result<Vec<String>> {
    let mut batch = Batch::default();
    batch.message(nft::GETTABLE, flag::DUMP, &HEADER);
    let replies = socket.talk(&mut batch).map_err(kernel("list the tables"))?;
    let name = |attributes: Attributes<'_>| attributes.text(nft::TABLE_NAME).map(str::to_owned);
    Ok(replies
        .iter()
        .filter_map(|reply| name(reply.attributes(nft::HEADER)))
        .filter(|name| name.starts_with("strata-"))
        .collect())
}

/// On which interfaces a run has turned forwarding on.
pub(crate) fn uplinks_of(socket: &mut Socket, table: &str) -> Result<Vec<String>> {
    let mut batch = Batch::default();
    batch
        .message(nft::GETSETELEM, flag::DUMP, &HEADER)
        .put_text(nft::ELEMS_TABLE, table)
        .put_text(nft::ELEMS_SET, SetName::Uplinks.text());
    let replies = match socket.talk(&mut batch) {
        Ok(replies) => replies,
        // It went away in between, or is of another make.
        Err(NetlinkError::Refused { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(kernel(format!("read the table {table}"))(error)),
    };
    let mut names = Vec::new();
    for reply in &replies {
        let elements = reply.attributes(nft::HEADER).nested(nft::ELEMS_ELEMENTS);
        for (_, element) in elements.iter() {
            let key = Attributes::new(element).nested(nft::ELEM_KEY);
            names.extend(key.text(nft::DATA_VALUE).map(str::to_owned));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::super::expression::padded;

    #[test]
    fn a_name_is_compared_with_its_zeros() {
        assert_eq!(&padded("eth0")[..5], b"eth0\0");
    }
}
