//! Disks on the command line, as JSON: no character of a path means anything
//! there.

use serde_json::{Value, json};
use strata_types::Result;

use super::{FIRST_DISK_SLOT, Words, text};
use crate::spec::Base;
use crate::{Disk, DiskBus, DiskFormat};

/// Adds a disk. The one that boots is the first the firmware tries.
pub(super) fn add(words: &mut Words, number: usize, disk: &Disk, boots: bool) -> Result<()> {
    words.option("-blockdev", node(number, disk)?.to_string());
    let device = match disk.bus {
        DiskBus::Virtio => "virtio-blk-pci",
        DiskBus::Nvme => "nvme",
    };
    let slot = FIRST_DISK_SLOT + number;
    let first = if boots { ",bootindex=0" } else { "" };
    words.option(
        "-device",
        format!("{device},drive=disk{number},serial=disk{number},addr={slot:#x}{first}"),
    );
    Ok(())
}

fn node(number: usize, disk: &Disk) -> Result<Value> {
    let mut node = json!({
        "node-name": format!("disk{number}"),
        "driver": disk.format.as_str(),
        "read-only": disk.read_only,
        // What the guest trims, the file gives back.
        "discard": "unmap",
        "file": {
            "driver": "file",
            "filename": text(&disk.path)?,
            "discard": "unmap",
        },
    });
    if disk.format == DiskFormat::Qcow2 {
        node["backing"] = match &disk.base {
            Some(base) => base_node(base)?,
            None => Value::Null,
        };
    }
    Ok(node)
}

/// A base is opened for reading, and stands on nothing itself: the null keeps
/// QEMU from following whatever its header says.
fn base_node(base: &Base) -> Result<Value> {
    let mut node = json!({
        "driver": base.format.as_str(),
        "read-only": true,
        "file": {"driver": "file", "filename": text(&base.path)?, "read-only": true},
    });
    if base.format == DiskFormat::Qcow2 {
        node["backing"] = Value::Null;
    }
    Ok(node)
}
