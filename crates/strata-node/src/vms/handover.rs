//! The open files that QEMU is handed: its two sockets, its tap, its disks.
//! All are opened here, as root, so QEMU's user needs no right to any of them.
//!
//! The sockets listen before QEMU is there, in a directory that QEMU does not
//! see: what the daemon connects to by their names is always this guest.

use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use strata_rootfs::Owner;
use strata_types::{Error, Result};
use strata_vm::{Inherited, VmDir};

use super::disks::pool_path;
use super::kind::VmAllocation;
use super::root;
use super::spec::{VmBoot, VmUnitSpec};
use crate::host_path::{by_descriptor, readable};
use crate::pool::NodePool;

/// Where files of one guest are found.
pub(super) struct Files<'a> {
    pub(super) unit_spec: &'a VmUnitSpec,
    pub(super) allocated: &'a VmAllocation,
    pub(super) dir: &'a VmDir,
    pub(super) pool: &'a NodePool,
    /// Directories whose content operators may name.
    pub(super) allowed: &'a [PathBuf],
}

impl Files<'_> {
    /// Opens what QEMU expects.
    pub(super) fn open(&self, what: &Inherited, tap: Option<&OwnedFd>) -> Result<OwnedFd> {
        match what {
            Inherited::Qmp => listen(&self.dir.qmp()),
            Inherited::Console => listen(&self.dir.console()),
            Inherited::Tap => tap
                .and_then(|tap| tap.try_clone().ok())
                .ok_or_else(|| Error::internal("a guest with a NIC has no tap")),
            Inherited::File { path, read_only } => self.disk(path, *read_only),
        }
    }

    /// Opens a disk or what one stands on: a file of the guest's own
    /// directory, a volume of the pool, or an image, which is only read.
    fn disk(&self, path: &Path, read_only: bool) -> Result<OwnedFd> {
        if path.parent() == Some(self.dir.path()) {
            return open_disk(path, read_only).map_err(|error| cannot_open(path, &error));
        }
        let mut volumes = self.unit_spec.pool_disks();
        if let Some((i, name, _)) = volumes.find(|(_, name, _)| path == Path::new(&pool_path(name)))
        {
            let disk = self.pool.disk(name, &format!("vm.disks[{i}].pool"))?;
            let opened = open_disk(&by_descriptor(&disk), read_only);
            return opened.map_err(|error| cannot_open(path, &error));
        }
        if !read_only {
            let why = format!(
                "{} is not the guest's own, and is not written",
                path.display()
            );
            return Err(Error::internal(why));
        }
        let image = self.allocated.pins.open_file(path, self.allowed);
        Ok(image.map_err(|error| cannot_open(path, &error))?.into())
    }

    /// Mounts of the kernel and its first files, where QEMU finds them.
    pub(super) fn boot(&self, user: Owner) -> Result<Vec<(&'static str, OwnedFd)>> {
        let VmBoot::Kernel { kernel, initrd, .. } = &self.unit_spec.boot else {
            return Ok(Vec::new());
        };
        let initrd = initrd.as_ref().map(|initrd| (root::INITRD, initrd));
        let files = std::iter::once((root::KERNEL, kernel)).chain(initrd);
        let mount = |(target, path): (&'static str, &PathBuf)| {
            let file = self.boot_file(path, target, user)?;
            Ok((target, root::boot_file(&file)?))
        };
        files.map(mount).collect()
    }

    /// What QEMU opens by a path it has to be allowed to read. A file that is
    /// not readable by all, as kernels are on some systems, is copied into the
    /// guest's directory for QEMU's group.
    fn boot_file(&self, path: &Path, target: &str, user: Owner) -> Result<OwnedFd> {
        const FOR_OTHERS: u32 = 0o004;
        let failed = |error: std::io::Error| cannot_open(path, &error);
        let file = self
            .allocated
            .pins
            .open(path, self.allowed)
            .map_err(failed)?;
        let mut reader = readable(&file).map_err(failed)?;
        if reader.metadata().map_err(failed)?.mode() & FOR_OTHERS != 0 {
            return Ok(file);
        }
        let name = Path::new(target).file_name().unwrap_or_default();
        let copy = self.dir.path().join(name);
        let _ = std::fs::remove_file(&copy);
        let mut options = OpenOptions::new();
        let mut writer = options
            .write(true)
            .create_new(true)
            .mode(0o640)
            .open(&copy)
            .map_err(failed)?;
        std::os::unix::fs::fchown(&writer, Some(0), Some(user.gid)).map_err(failed)?;
        std::io::copy(&mut reader, &mut writer).map_err(failed)?;
        let copied = OpenOptions::new().read(true).open(&copy).map_err(failed)?;
        Ok(copied.into())
    }
}

fn open_disk(path: &Path, read_only: bool) -> std::io::Result<OwnedFd> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(!read_only).open(path)?;
    Ok(file.into())
}

fn cannot_open(path: &Path, error: &std::io::Error) -> Error {
    Error::wrong_state(format!("{} cannot be opened: {error}", path.display()))
}

fn listen(path: &Path) -> Result<OwnedFd> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).map_err(|error| {
        Error::internal(format!(
            "no socket can be made at {}: {error}",
            path.display()
        ))
    })?;
    Ok(listener.into())
}
