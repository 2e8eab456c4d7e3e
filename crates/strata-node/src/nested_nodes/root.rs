//! The root of a machine, as detached mounts that only its cell's init ever
//! puts in place: the host's root below and memory above, and what every
//! machine has on top. `/var/lib` is its disk: on a real file system, because
//! an overlay cannot stand on another, and kept while the machine is.
//!
//! `/proc` and `/sys/fs/cgroup` are its own PID 1's to mount.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use strata_cell::MountOp;
use strata_rootfs::{BindOptions, HostRoot, Owner, TmpfsOptions};
use strata_types::{Error, Result};

use super::kind::NestedNodeKind;
use super::plan::PROGRAM;
use super::{DATA, NestedNodeSpec, files};
use crate::images::Handover;
use crate::pool::NodePool;
use crate::units::Record;

/// What a machine does not see of the host's: what belongs to a user or a
/// service, and the settings of the host's own node.
const HIDDEN: [&str; 12] = [
    "/etc/strata",
    "/home",
    "/media",
    "/mnt",
    "/root",
    "/srv",
    "/var/backups",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/spool",
    "/var/tmp",
];
/// Programs, which some hosts have on file systems of their own.
const PROGRAMS: [&str; 3] = ["/nix", "/opt", "/usr"];

/// What may be changed of a root where the machine's memory has no limit.
const CHANGES: u64 = 2 << 30;
const RUN_BYTES: u64 = 256 << 20;
const TMP_BYTES: u64 = 1 << 30;
const SHM_BYTES: u64 = 256 << 20;

impl NestedNodeKind {
    /// The root of a machine and what is fitted into it.
    pub(super) fn build_rootfs(&self, record: &Record<Self>) -> Result<(OwnedFd, Vec<MountOp>)> {
        let apart = on_their_own();
        let root = self.root(record, &apart)?;
        let mut mount_ops = base()?;
        for path in apart {
            let mount = bind(Path::new(path), true, true)?;
            mount_ops.push(MountOp::Directory(path.into(), mount));
        }
        let program = self
            .program
            .path()
            .map_err(|error| Error::internal(format!("cannot keep this program: {error}")))?;
        let program = bind(program, true, false)?;
        mount_ops.push(MountOp::File(PROGRAM.into(), program));
        let disk = bind(&self.disk(&record.id), false, false)?;
        mount_ops.push(MountOp::Directory("/var/lib".into(), disk));
        mount_ops.extend(self.pool_as_it_is()?);
        mount_ops.extend(self.kubernetes_as_it_is()?);
        Ok((root, mount_ops))
    }

    /// The versions of Kubernetes, if there is a directory of them now: what is
    /// built into it later is seen too. Half a gigabyte each, too much to copy
    /// into every machine.
    fn kubernetes_as_it_is(&self) -> Result<Option<MountOp>> {
        let dir = self.kubernetes.as_deref().filter(|path| path.is_dir());
        let bound = dir.map(|path| {
            let options = BindOptions {
                read_only: true,
                no_suid: true,
                no_dev: true,
                ..BindOptions::default()
            };
            strata_rootfs::bind(path, options).map_err(failed)
        });
        let place = |mount| MountOp::Directory(files::KUBERNETES.into(), mount);
        Ok(bound.transpose()?.map(place))
    }

    /// The storage pool, if it is there now; one that comes later is brought
    /// into the machine while it runs (`pool.rs`).
    fn pool_as_it_is(&self) -> Result<Option<MountOp>> {
        let mount = pool_mount(&self.pool)?;
        Ok(mount.map(|mount| MountOp::Directory(files::POOL.into(), mount)))
    }

    fn root(&self, record: &Record<Self>, apart: &[&str]) -> Result<OwnedFd> {
        let (unit_spec, allocated) = (&record.spec, &record.allocated);
        let mut hidden: Vec<PathBuf> = HIDDEN.iter().map(PathBuf::from).collect();
        let data_dir = self.data_dir.canonicalize();
        hidden.push(data_dir.unwrap_or_else(|_| self.data_dir.clone()));
        let link = ("/usr/local/bin/strata", PROGRAM);
        let links = match apart.contains(&"/usr") {
            true => &[][..],
            false => std::slice::from_ref(&link),
        };
        let root = HostRoot {
            lower: Path::new("/"),
            bytes: changes(unit_spec),
            hidden: &hidden,
            files: &files::of(
                &record.id,
                unit_spec,
                allocated,
                self.pool.is_expected(),
                &Handover::new(&self.images, DATA).section,
            ),
            links,
            place: &self.place,
        };
        root.mount().map_err(failed)
    }
}

/// The storage pool as machines have it, if it is there.
pub(super) fn pool_mount(pool: &NodePool) -> Result<Option<OwnedFd>> {
    let Some(pool) = pool.root() else {
        return Ok(None);
    };
    let options = BindOptions {
        no_suid: true,
        no_dev: true,
        ..BindOptions::default()
    };
    let mount = strata_rootfs::bind_fd(pool.as_fd(), options);
    mount.map(Some).map_err(failed)
}

/// What is written there is memory of the machine's: half of that is enough.
fn changes(unit_spec: &NestedNodeSpec) -> u64 {
    unit_spec.memory.map_or(CHANGES, |bytes| bytes / 2)
}

/// Those directories of programs that are not on the root itself.
fn on_their_own() -> Vec<&'static str> {
    let device = |path: &str| std::fs::metadata(path).map(|m| m.dev()).ok();
    let root = device("/");
    let apart = |path: &&str| device(path).is_some_and(|own| Some(own) != root);
    PROGRAMS.into_iter().filter(apart).collect()
}

fn base() -> Result<Vec<MountOp>> {
    let owner = Owner::default();
    let new = |kind, path| MountOp::New {
        kind,
        path,
        read_only: false,
    };
    let memory = |path: &str, bytes, mode| {
        let options = TmpfsOptions {
            bytes,
            mode,
            owner,
            no_exec: false,
        };
        let mount = strata_rootfs::tmpfs(options).map_err(failed);
        mount.map(|mount| MountOp::Directory(path.into(), mount))
    };
    let dir = |path: &str, mount| MountOp::Directory(path.into(), mount);
    let devices = strata_rootfs::machine_devices(Path::new("/dev")).map_err(failed)?;
    Ok(vec![
        new("proc", "/proc"),
        new("sysfs", "/sys"),
        dir("/dev", devices),
        dir("/dev/pts", strata_rootfs::devpts(owner).map_err(failed)?),
        dir(
            "/dev/shm",
            strata_rootfs::shm(SHM_BYTES, owner).map_err(failed)?,
        ),
        new("mqueue", "/dev/mqueue"),
        memory("/run", RUN_BYTES, 0o755)?,
        memory("/tmp", TMP_BYTES, 0o1777)?,
    ])
}

fn bind(path: &Path, read_only: bool, recursive: bool) -> Result<OwnedFd> {
    let options = BindOptions {
        read_only,
        recursive,
        ..BindOptions::default()
    };
    strata_rootfs::bind(path, options).map_err(failed)
}

/// The public error. Takes it whole, as `map_err` gives it.
#[allow(clippy::needless_pass_by_value)]
pub(super) fn failed(error: strata_rootfs::RootError) -> Error {
    let text = strata_types::chain(&error);
    match error {
        strata_rootfs::RootError::DiskFull { .. } => Error::exhausted(text)
            .with_hint("make room on the disk of the data directory, or give it more memory"),
        _ => Error::internal(format!("cannot make the machine's root: {text}")),
    }
}
