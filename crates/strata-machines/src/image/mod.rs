//! What a machine boots to become a node: a kernel, and an initramfs in which
//! our own binary is PID 1.
//!
//! The initramfs is two archives, one behind the other, as kernels take them: a
//! large one that is the same for all machines and built once (`base`), and a
//! small one with the configuration of this boot of this machine (`join`).
//! Nothing has to be downloaded or installed on the machine itself, and nothing
//! is left on it when the power is gone.
//!
//! ```text
//! /init                     the strata binary, static
//! /bin/…                    busybox, where the host has a static one
//! /lib/modules/NAME.ko      the kernel's drivers
//! /etc/strata/modules       in which order they are loaded
//! /etc/strata/join.json     the server to join, and with what; 0600
//! ```

mod base;
mod contents;
mod join;
mod kernel;

use std::io;
use std::path::PathBuf;

pub use base::Base;
pub(crate) use base::new_file;
pub use contents::{add_busybox, add_files, busybox};
pub use join::{IMAGES_DIRECTORY, JOIN_FILE, JoinFile, NodeImages};
pub use kernel::KernelDirectory;
pub use strata_bootimage::Archive;

/// The modules to load, one path a line, in the machine.
pub const MODULES: &str = "/etc/strata/modules";
/// The file system of a disk that is for the node's data is called so.
pub const DISK_LABEL: &str = "strata-data";

/// Why there is nothing to boot.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// There is no kernel for it.
    #[error(
        "there is no kernel for machines in {}: put one there (vmlinuz, modules/order, modules/*.ko), \
         as scripts/guest-kernel does, or say where it is with kernel_directory in [machines.qemu]",
        .0.display()
    )]
    NoKernel(PathBuf),
    /// A file could not be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl ImageError {
    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }
}
