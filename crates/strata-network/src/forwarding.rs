//! Forwarding, with as little of the host changed as can be.
//!
//! On our own interfaces it is ours to turn on. Packets that come in by an
//! uplink (answers, and what is published) need it there too. Where the host
//! has it on, nothing is changed. Where not, it is turned on for each uplink
//! by itself, never for the host as a whole, and a rule keeps these uplinks
//! from forwarding to each other, which they did not before either.
//!
//! Which uplinks these are is written into the table, where other runs see it:
//! the last run that needs an uplink turns it off again. The same is in a file,
//! for the case that an administrator flushed the tables and the daemon died.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Result, file};
use crate::link::{self, Link};
use crate::netlink::Socket;
use crate::network::Inner;
use crate::rules::{Element, list_tables, uplinks_of};

/// What is remembered, and of which boot it is true.
#[derive(Default, Serialize, Deserialize)]
struct Record {
    boot: String,
    uplinks: BTreeSet<String>,
}

/// A setting of an interface.
fn setting(version: &str, interface: &str, name: &str) -> PathBuf {
    ["/proc/sys/net", version, "conf", interface, name]
        .iter()
        .collect()
}

/// Writes a setting of one of our own interfaces.
pub(crate) fn set_own(version: &str, interface: &str, name: &str, value: &str) -> Result<()> {
    let path = setting(version, interface, name);
    fs::write(&path, value).map_err(file("write", path))
}

/// Whether an interface is neither ours nor the loopback.
pub(crate) fn is_uplink(name: &str) -> bool {
    name != "lo" && !name.starts_with("st-")
}

fn uplinks(links: &[Link]) -> impl Iterator<Item = &str> {
    let names = links.iter().map(|link| link.name.as_str());
    names.filter(|name| is_uplink(name))
}

/// Turns forwarding on for all uplinks that need it, and gives back on which
/// it is on because of us.
pub(crate) fn open_uplinks(
    links: &mut Socket,
    rules: &mut Socket,
    state: &Path,
) -> Result<BTreeSet<String>> {
    let mut shared = BTreeSet::new();
    for table in list_tables(rules)? {
        shared.extend(uplinks_of(rules, &table)?);
    }
    turn_on(state, &link::all(links)?, &shared)
}

impl Inner {
    /// The same for uplinks that came since.
    pub(crate) fn refresh_uplinks(&self) -> Result<()> {
        // A host that forwards gives that to new interfaces by itself.
        if !is_off("default") {
            return Ok(());
        }
        let mut rules = self.rules();
        let mut links = self.links();
        let now = open_uplinks(&mut links, &mut rules, &self.config.state)?;
        drop(links);
        let before = std::mem::replace(&mut self.state().uplinks, now.clone());
        let elements = |a: &BTreeSet<String>, b: &BTreeSet<String>| -> Vec<Element> {
            a.difference(b).map(|name| Element::uplink(name)).collect()
        };
        let (out, into) = (elements(&before, &now), elements(&now, &before));
        self.change(&mut rules, &out, &into)
    }
}

/// Turns forwarding on where it is off, and gives back where it is on
/// because of us: `owned` is what this run had, `shared` what others have.
fn turn_on(state: &Path, links: &[Link], shared: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let mut owned = remembered(state)?;
    owned.retain(|name| links.iter().any(|link| link.name == *name));
    let off: Vec<&str> = uplinks(links).filter(|name| is_off(name)).collect();
    owned.extend(off.iter().map(|name| (*name).to_owned()));
    owned.extend(
        uplinks(links)
            .filter(|n| shared.contains(*n))
            .map(str::to_owned),
    );
    // Recorded before it is done: a death in between loses nothing.
    remember(state, &owned)?;
    for name in off {
        let path = setting("ipv4", name, "forwarding");
        match fs::write(&path, "1") {
            // It went away in between.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            done => done.map_err(file("write", path))?,
        }
    }
    Ok(owned)
}

/// Turns it off where it was on because of us, and no other run needs it.
pub(crate) fn turn_off(
    state: &Path,
    owned: &BTreeSet<String>,
    shared: &BTreeSet<String>,
) -> Result<()> {
    let mut all = remembered(state)?;
    all.extend(owned.iter().cloned());
    for name in all.difference(shared) {
        let path = setting("ipv4", name, "forwarding");
        match fs::write(&path, "0") {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            done => done.map_err(file("write", path))?,
        }
    }
    match fs::remove_file(record(state)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(file("remove", record(state))(error))
        }
        _ => Ok(()),
    }
}

fn is_off(interface: &str) -> bool {
    fs::read_to_string(setting("ipv4", interface, "forwarding")).is_ok_and(|v| v.trim() == "0")
}

fn record(state: &Path) -> PathBuf {
    state.join("forwarding.json")
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// What was written down in this boot; before it, everything was different.
fn remembered(state: &Path) -> Result<BTreeSet<String>> {
    let path = record(state);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        read => read.map_err(file("read", &path))?,
    };
    let record: Record = serde_json::from_slice(&text).unwrap_or_default();
    Ok(if record.boot == boot() {
        record.uplinks
    } else {
        BTreeSet::new()
    })
}

fn remember(state: &Path, uplinks: &BTreeSet<String>) -> Result<()> {
    let record_path = record(state);
    let text = serde_json::json!({ "boot": boot(), "uplinks": uplinks }).to_string();
    let temporary = record_path.with_extension("new");
    fs::write(&temporary, text).map_err(file("write", &temporary))?;
    fs::rename(&temporary, &record_path).map_err(file("write", record_path))
}

/// Whether the host has IPv6 at all.
pub(crate) fn has_ipv6() -> bool {
    let setting = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
    fs::read_to_string(setting).is_ok_and(|value| value.trim() == "0")
}
