//! Disks on the command line, as JSON. Their files are inherited, so that no
//! path stands there.

use std::path::Path;

use serde_json::{Value, json};

use super::{Arguments, FIRST_DISK_SLOT};
use crate::command::Inherited;
use crate::spec::Base;
use crate::{Disk, DiskBus, DiskFormat};

/// Adds a disk. The one that boots is the first the firmware tries.
pub(super) fn add(words: &mut Arguments, number: usize, disk: &Disk, boots: bool) {
    let node = node(words, number, disk);
    words.option("-blockdev", node.to_string());
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
}

/// The name by which QEMU opens a file that it inherits.
fn file(words: &mut Arguments, path: &Path, read_only: bool) -> String {
    let fd = words.inherit(Inherited::File {
        path: path.to_owned(),
        read_only,
    });
    words.file_of(fd)
}

fn node(words: &mut Arguments, number: usize, disk: &Disk) -> Value {
    let mut node = json!({
        "node-name": format!("disk{number}"),
        "driver": disk.format.as_str(),
        "read-only": disk.read_only,
        // What the guest trims, the file gives back.
        "discard": "unmap",
        "file": {
            "driver": "file",
            "filename": file(words, &disk.path, disk.read_only),
            "discard": "unmap",
        },
    });
    if disk.format == DiskFormat::Qcow2 {
        node["backing"] = match &disk.base {
            Some(base) => base_node(words, base),
            None => Value::Null,
        };
    }
    node
}

/// A base is opened for reading, and stands on nothing itself: the null keeps
/// QEMU from following whatever its header names.
fn base_node(words: &mut Arguments, base: &Base) -> Value {
    let mut node = json!({
        "driver": base.format.as_str(),
        "read-only": true,
        "file": {"driver": "file", "filename": file(words, &base.path, true), "read-only": true},
    });
    if base.format == DiskFormat::Qcow2 {
        node["backing"] = Value::Null;
    }
    node
}
