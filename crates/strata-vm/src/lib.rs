//! QEMU guests: the command line, QMP, disks, and whether KVM works.
//!
//! This crate knows QEMU and starts none but the tiny guest of the probe. The
//! node starts what [`command`] returns inside a cell, whose init is the
//! parent, so a guest outlives the daemon; after a restart the daemon finds the
//! guest's sockets again by [`VmDir`] and connects with [`Qmp`].

mod command;
mod disk;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod network;
mod probe;
mod program;
mod qmp;
mod seed;
mod shutdown;
mod spec;
mod vm_dir;

pub use command::{Inherited, Launch, command};
pub use disk::{
    Backing, DiskError, DiskInfo, check_image, check_overlay, clone_disk, clone_open_disk,
    copy_disk, create_disk, disk_info,
};
pub use network::{MacAddress, ip_parameter};
pub use probe::{Host, Kvm, ProbeError, Version, probe};
pub use program::{ProgramFiles, ProgramId};
pub use qmp::{BlockStats, Event, Events, Qmp, QmpError, Status};
pub use seed::Seed;
pub use shutdown::{Stopped, shut_down};
pub use spec::{
    Accel, Base, Boot, Disk, DiskBus, DiskFormat, Machine, Network, OnReboot, Tap, VmSpec,
};
pub use vm_dir::VmDir;
