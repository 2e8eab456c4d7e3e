//! Root file systems of pods: shared layers under a writable one, with a
//! limit on what may be written; devices, temporary file systems and volumes.
//!
//! Nothing here is ever mounted in the mount table of the host. Every mount is
//! made detached, held by a file descriptor alone, and handed to the pod's
//! init, which puts it into its own mount namespace with `move_mount`. A
//! process that dies between two steps closes the descriptor, and the mount is
//! gone.
//!
//! Needs Linux 5.15. Layers shared with a user namespace need 5.19. From 6.15
//! on an overlay takes detached layers directly; before that it is made in a
//! mount namespace that lives for a moment (`private.rs`).
//!
//! Everything here blocks for microseconds to a few milliseconds, but for the
//! removal of large trees; callers on an async runtime hand it to a blocking
//! thread.

mod attributes;
mod bind;
mod context;
mod copy;
mod creator;
mod delete;
mod devices;
mod error;
mod host_root;
mod id_maps;
mod limits;
mod machine_devices;
mod mapped;
mod overlay;
mod private;
#[cfg(test)]
mod private_tests;
mod roots;
mod shared_fill;
mod spread;
mod sys;
mod tmpfs;
mod walk;
mod within;

pub use bind::{BindOptions, bind, bind_fd};
pub use copy::copy_dir;
pub use devices::{console, devices, devpts, emulator_devices};
pub use error::RootError;
pub use host_root::HostRoot;
pub use id_maps::lack_of_id_maps;
pub use limits::DiskLimits;
pub use machine_devices::machine_devices;
pub use roots::{DiskUsage, MountPoint, RootOptions, Roots, Volumes};
pub use shared_fill::fill_shared;
pub use spread::spread;
pub use tmpfs::{Owner, TmpfsOptions, places, program, shm, tmpfs};
pub use within::attach_within;
