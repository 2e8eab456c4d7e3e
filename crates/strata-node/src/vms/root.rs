//! What QEMU sees of the host: a root that holds QEMU's own files, firmware,
//! three devices and the guest's kernel, all of which can only be read. There
//! is no `/proc`, no directory of the node, and no directory that can be
//! written: the guest's disks, sockets and tap are open files ([`handover`]).
//!
//! [`handover`]: super::handover

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Resource;
use strata_cell::seccomp::Filter;
use strata_cell::{CellInit, Confinement, JAIL, MountOp};
use strata_rootfs::{BindOptions, Owner, RootError, TmpfsOptions};
use strata_types::{Error, Result};
use strata_vm::ProgramFiles;

/// Where QEMU finds what it boots.
pub(super) const KERNEL: &str = "/boot/kernel";
pub(super) const INITRD: &str = "/boot/initrd";
/// Where the program is that becomes QEMU.
pub(super) const JAIL_PATH: &str = "/strata/jail";
const JAIL_DIRECTORY: &str = "/strata";
const JAIL_FILE: &str = "jail";

const KVM: &str = "/dev/kvm";
/// Directories on the way to what is mounted, and nothing else, are in it.
const ROOT_BYTES: u64 = 1 << 20;
/// The most files that are mounted one by one: a message to the cell's init
/// carries 253, and there are others.
const MAX_FILES: usize = 180;
/// The most files that QEMU has open at a time.
const OPEN_FILES: u64 = 4096;

/// What one guest's QEMU has beside its own files.
pub(super) struct Root<'a> {
    /// The user it runs as.
    pub(super) user: Owner,
    /// Whether it needs KVM.
    pub(super) kvm: bool,
    pub(super) program: &'a ProgramFiles,
    /// Mounts of the files it boots, by the paths at which it expects them.
    pub(super) boot: Vec<(&'static str, OwnedFd)>,
}

/// Gives the cell its root, and returns what QEMU is confined to in it.
pub(super) fn set_up(init: &CellInit, root: Root<'_>) -> Result<()> {
    let (mount, mount_ops) = build(root).map_err(|error| {
        let why = strata_types::chain(&error);
        Error::internal(format!("cannot make the root of QEMU's cell: {why}"))
    })?;
    // Where a kernel hands out a core after all, there is no memory in it.
    init.leave_memory_out_of_cores()
        .map_err(|error| Error::internal(error.to_string()))?;
    init.setup_root(&mount, &mount_ops)
        .map_err(|error| Error::wrong_state(error.to_string()))?;
    init.confine(&confinement())
        .map_err(|error| Error::internal(error.to_string()))
}

/// Independent of what QEMU does for itself, which not every build can.
fn confinement() -> Confinement {
    Confinement {
        capabilities: 0,
        no_new_privileges: true,
        rlimits: vec![
            // A crash leaves the memory of QEMU and its guest nowhere: 1 stops
            // what 0 does not, a program of the host that takes cores.
            (Resource::Core as u32, 1, 1),
            (Resource::Nofile as u32, OPEN_FILES, OPEN_FILES),
        ],
        filter: Some(Filter::for_vmm()),
    }
}

fn build(root: Root<'_>) -> Result<(OwnedFd, Vec<MountOp>), RootError> {
    let mount = strata_rootfs::tmpfs(TmpfsOptions {
        bytes: ROOT_BYTES,
        mode: 0o755,
        owner: Owner::default(),
        no_exec: true,
    })?;
    let kvm = match root.kvm {
        true => std::fs::metadata(KVM).ok().map(|device| device.rdev()),
        false => None,
    };
    let devices = strata_rootfs::emulator_devices(kvm, root.user)?;
    let mut mount_ops = vec![
        MountOp::Directory("/dev".into(), devices),
        MountOp::Directory(
            JAIL_DIRECTORY.into(),
            strata_rootfs::program(JAIL_FILE, JAIL)?,
        ),
    ];
    let program = root.program;
    // Firmware first: what is executed is never beneath a mount of data.
    for directory in &program.firmware {
        let holds = |path: &PathBuf| path.starts_with(directory);
        if !program.programs.iter().chain(&program.libraries).any(holds) {
            let mount = strata_rootfs::bind(directory, read_only(true))?;
            mount_ops.push(MountOp::Directory(text(directory), mount));
        }
    }
    for path in &program.programs {
        let mount = strata_rootfs::bind(path, read_only(false))?;
        mount_ops.push(MountOp::File(text(path), mount));
    }
    for path in libraries(program) {
        let mount = strata_rootfs::bind(path, read_only(false))?;
        mount_ops.push(match path.is_dir() {
            true => MountOp::Directory(text(path), mount),
            false => MountOp::File(text(path), mount),
        });
    }
    for (path, mount) in root.boot {
        mount_ops.push(MountOp::File(path.to_owned(), mount));
    }
    Ok((mount, mount_ops))
}

/// The libraries, or where there are too many, the directories they are in.
fn libraries(program: &ProgramFiles) -> Vec<&Path> {
    let files: Vec<&Path> = program.libraries.iter().map(PathBuf::as_path).collect();
    if files.len() <= MAX_FILES {
        return files;
    }
    let mut parents: Vec<&Path> = files.iter().filter_map(|path| path.parent()).collect();
    parents.sort_unstable();
    parents.dedup();
    parents
}

/// A mount of a file that QEMU boots.
pub(super) fn boot_file(file: &OwnedFd) -> Result<OwnedFd> {
    strata_rootfs::bind_fd(file.as_fd(), read_only(true)).map_err(|error| {
        let why = strata_types::chain(&error);
        Error::internal(format!("what the guest boots cannot be mounted: {why}"))
    })
}

const fn read_only(no_exec: bool) -> BindOptions<'static> {
    BindOptions {
        read_only: true,
        recursive: false,
        no_suid: true,
        no_dev: true,
        no_exec,
        id_map: None,
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_libraries_are_mounted_by_their_directories() {
        let program = |count: usize| ProgramFiles {
            libraries: (0..count).map(|i| format!("/lib/l{i}.so").into()).collect(),
            ..ProgramFiles::default()
        };
        assert_eq!(libraries(&program(MAX_FILES)).len(), MAX_FILES);
        assert_eq!(libraries(&program(MAX_FILES + 1)), [Path::new("/lib")]);
    }
}
