//! A pod's root and what is mounted into it, as detached mounts that only the
//! pod's init ever puts in place: nothing of it is seen by the machine, and
//! nothing is left when the pod or this daemon dies.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_cell::{InitError, MountOp};
use strata_rootfs::{BindOptions, MountPoint, Owner, RootError, RootOptions, Roots, TmpfsOptions};
use strata_types::pod::{PodNetwork, PodSpec, Volume, VolumeSource};
use strata_types::{Error, Result};

use super::declared_volumes;
use super::files::FILES;
use super::kind::{PodAllocation, PodKind};
use super::plan;
use crate::cells::Cell;
use crate::host_path::{Pins, is_directory};
use crate::pool::NodePool;
use crate::secrets::PodSecrets;
use crate::units::Record;
use crate::volumes::{NodeVolumes, of_image};

/// Shared memory of a pod.
const SHM_BYTES: u64 = 64 << 20;

/// Where control groups are seen.
const GROUPS: &str = "/sys/fs/cgroup";

/// Files in `/etc` longer than this are mounted, not written: a host's list of
/// names may be of any length, and what an init is given is not.
const MAX_FILE: usize = 16 << 10;

/// What shows the machine, or changes it.
const MASKED: [&str; 9] = [
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// What roots of pods are made from. It needs nothing of a pod's cell, so that
/// both can be made at the same time.
#[derive(Clone)]
pub(crate) struct RootfsBuilder {
    pub(crate) roots: Arc<Roots>,
    /// A directory for each pod, by its id: the files it finds in `/etc`.
    pub(crate) files: PathBuf,
    /// What there is to see of control groups, by the names of controllers.
    pub(crate) groups: Vec<&'static str>,
    /// Volumes that the node keeps.
    pub(crate) volumes: Arc<NodeVolumes>,
    /// Volumes that others keep.
    pub(crate) pool: Arc<NodePool>,
    /// The values of secrets.
    pub(crate) secrets: Arc<PodSecrets>,
    /// Directories of the host whose content operators may name.
    pub(crate) allowed: Vec<PathBuf>,
}

/// A root, and what is fitted into it.
pub(super) struct Rootfs {
    pub(super) root: OwnedFd,
    pub(super) mount_ops: Vec<MountOp>,
}

impl RootfsBuilder {
    /// Refuses a pod whose volumes of the pool are not there.
    pub(super) fn check_pool(&self, spec: &PodSpec) -> Result<()> {
        for (i, volume) in spec.volumes.iter().enumerate() {
            if let VolumeSource::Pool(name) = &volume.source {
                self.pool.files(name, &pool_field(i))?;
            }
        }
        Ok(())
    }

    /// The paths of the host that a pod has volumes of.
    pub(super) fn pins(&self, spec: &PodSpec) -> Pins {
        let path = |volume: &'_ Volume| match &volume.source {
            VolumeSource::Directory(path) => Some(PathBuf::from(path)),
            _ => None,
        };
        let paths: Vec<PathBuf> = spec.volumes.iter().filter_map(path).collect();
        Pins::new(paths.iter().map(PathBuf::as_path), &self.allowed)
    }

    /// The root of a pod and what is fitted into it; for the users of a
    /// namespace where the pod has users of its own.
    pub(super) fn build_rootfs(
        &self,
        record: &Record<PodKind>,
        users: Option<&OwnedFd>,
    ) -> Result<Rootfs> {
        let (spec, allocated) = (&record.spec, &record.allocated);
        let users = users.map(AsFd::as_fd);
        let owner = allocated.id_map.map_or(Owner::default(), |map| Owner {
            uid: map.first,
            gid: map.first,
        });
        let volumes = sorted(spec, allocated);
        let source = |wanted: &MountSource<'_>| match wanted {
            MountSource::Requested(i, volume) => self.source(
                (*i, volume),
                spec.new_volume_size(),
                owner,
                users,
                &record.pins,
            ),
            MountSource::OfImage(i, _) => {
                let name = of_image(&record.id, *i);
                let mount = self
                    .volumes
                    .mount(&name, None, bind_options(false, users))?;
                Ok(Source::Directory(mount))
            }
        };
        let sources = volumes.iter().map(source).collect::<Result<Vec<_>>>()?;
        let root = self.root(record, &volumes, &sources, users)?;
        let mut mount_ops = base(spec, allocated, owner)?;
        // With one hierarchy the group itself comes here, once it is made.
        if has_sysfs(spec) && self.groups != [""] {
            let places = strata_rootfs::places(self.groups.iter().copied());
            let places = places.map_err(|e| error(&e, "pod"))?;
            mount_ops.push(MountOp::Directory(GROUPS.into(), places));
        }
        for name in FILES {
            mount_ops.push(self.file_of_etc(&record.id, name, users)?);
        }
        for (wanted, source) in volumes.iter().zip(sources) {
            let target = wanted.target().to_owned();
            mount_ops.push(match source {
                Source::File(mount) => MountOp::File(target, mount),
                Source::Directory(mount) => MountOp::Directory(target, mount),
            });
        }
        for (target, path) in self.secrets.take_files(spec)? {
            // A tmpfs knows no maps of ids before Linux 6.3; all may read it.
            let file = bind(&path, true, users).or_else(|_| bind(&path, true, None));
            let file = file.map_err(|e| error(&e, "pod.secrets"))?;
            mount_ops.push(MountOp::File(target, file));
        }
        mount_ops.extend(usual_sysctls(spec, allocated));
        for sysctl in &spec.sysctls {
            mount_ops.push(MountOp::Sysctl(sysctl.name().into(), sysctl.value().into()));
        }
        mount_ops.extend(MASKED.map(|path| MountOp::Mask(path.into())));
        mount_ops.extend(READ_ONLY.map(|path| MountOp::ReadOnly(path.into())));
        Ok(Rootfs { root, mount_ops })
    }

    /// A file in `/etc` that is the node's to write. In the pod's own root it
    /// is the pod's to change, within its disk limit; where the root takes no
    /// file it is seen as the node has it, which the pod never writes to.
    fn file_of_etc(&self, id: &str, name: &str, users: Option<BorrowedFd<'_>>) -> Result<MountOp> {
        let path = self.files.join(id).join(name);
        let mount = bind(&path, true, users).map_err(|e| error(&e, "pod"))?;
        let target = format!("/etc/{name}");
        let text = std::fs::read_to_string(&path).ok();
        let text = text.filter(|text| text.len() <= MAX_FILE && !text.contains('\0'));
        Ok(match text {
            Some(text) => MountOp::Content(target, text, mount),
            None => MountOp::File(target, mount),
        })
    }

    fn root(
        &self,
        record: &Record<PodKind>,
        volumes: &[MountSource<'_>],
        sources: &[Source],
        users: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd> {
        let spec = &record.spec;
        let working_directory = plan::working_directory(spec, &record.allocated.config);
        let mut points: Vec<MountPoint<'_>> = volumes
            .iter()
            .zip(sources)
            .map(|(wanted, source)| MountPoint {
                path: Path::new(wanted.target()),
                file: matches!(source, Source::File(_)),
            })
            .collect();
        let of_image = declared_volumes::in_root(spec, &record.allocated.config);
        points.extend(of_image.iter().map(|target| MountPoint {
            path: Path::new(target),
            file: false,
        }));
        if working_directory != "/" && !working_directory.contains("..") {
            points.push(MountPoint {
                path: Path::new(&working_directory),
                file: false,
            });
        }
        let options = RootOptions {
            read_only: spec.security.read_only_root,
            no_dev: true,
            // Without this, programs with file capabilities that the pod does
            // not have are refused altogether (`ping` of Debian), although
            // they would gain nothing and do without.
            no_suid: !spec.security.privilege_escalation,
            id_map: users,
            mount_points: &points,
        };
        self.roots
            .mount(&record.id, &record.allocated.layers, options)
            .map_err(|error| self::error(&error, "pod.image"))
    }

    fn source(
        &self,
        (index, volume): (usize, &Volume),
        new_size: Option<u64>,
        owner: Owner,
        users: Option<BorrowedFd<'_>>,
        pins: &Pins,
    ) -> Result<Source> {
        let path = match &volume.source {
            VolumeSource::Memory(bytes) => {
                let options = TmpfsOptions {
                    bytes: *bytes,
                    mode: 0o1777,
                    owner,
                    no_exec: false,
                };
                let mount = strata_rootfs::tmpfs(options).map_err(|e| error(&e, "pod.volumes"))?;
                return Ok(Source::Directory(mount));
            }
            VolumeSource::Directory(path) => PathBuf::from(path),
            VolumeSource::Named(name) => {
                let options = bind_options(volume.read_only, users);
                let mount = self.volumes.mount(name.as_str(), new_size, options)?;
                return Ok(Source::Directory(mount));
            }
            VolumeSource::Pool(name) => {
                let dir = self.pool.files(name, &pool_field(index))?;
                let options = bind_options(volume.read_only, users);
                let mount = strata_rootfs::bind_fd(dir.as_fd(), options)
                    .map_err(|e| error(&e, &pool_field(index)))?;
                return Ok(Source::Directory(mount));
            }
        };
        let field = format!("pod.volumes[{index}].folder");
        let opened = pins.open(&path, &self.allowed).map_err(|error| {
            Error::invalid(
                &field,
                format!("{} cannot be opened: {error}", path.display()),
            )
        })?;
        let options = bind_options(volume.read_only, users);
        let mount =
            strata_rootfs::bind_fd(opened.as_fd(), options).map_err(|e| error(&e, &field))?;
        Ok(match is_directory(&opened) {
            true => Source::Directory(mount),
            false => Source::File(mount),
        })
    }
}

pub(super) fn pool_field(index: usize) -> String {
    format!("pod.volumes[{index}].pool")
}

/// What users expect of a network of their own: every user may ping and listen
/// on low ports. Groups are those of the pod's user namespace, where it has
/// one, and none beyond it can be named.
fn usual_sysctls(spec: &PodSpec, allocated: &PodAllocation) -> impl Iterator<Item = MountOp> {
    const ALL_GROUPS: u32 = i32::MAX as u32;
    let last_group = allocated.id_map.map_or(ALL_GROUPS, |map| map.count - 1);
    let usual = [
        ("net.ipv4.ping_group_range", format!("0 {last_group}")),
        ("net.ipv4.ip_unprivileged_port_start", "0".to_owned()),
    ];
    let own = spec.network != PodNetwork::Host;
    let set = |(name, value): (&str, String)| MountOp::Sysctl(name.into(), value);
    usual.into_iter().filter(move |_| own).map(set)
}

/// A volume's mount, and what it goes onto.
enum Source {
    Directory(OwnedFd),
    File(OwnedFd),
}

/// What is mounted, by its place in its list.
enum MountSource<'a> {
    Requested(usize, &'a Volume),
    OfImage(usize, &'a str),
}

impl MountSource<'_> {
    fn target(&self) -> &str {
        match self {
            Self::Requested(_, volume) => &volume.target,
            Self::OfImage(_, target) => target,
        }
    }
}

/// Those further out first, so that those further in are seen.
fn sorted<'a>(spec: &'a PodSpec, allocated: &'a PodAllocation) -> Vec<MountSource<'a>> {
    let asked = spec.volumes.iter().enumerate();
    let of_image = allocated.image_volumes.iter().enumerate();
    let mut all: Vec<MountSource<'a>> = asked
        .map(|(i, volume)| MountSource::Requested(i, volume))
        .chain(of_image.map(|(i, target)| MountSource::OfImage(i, target)))
        .collect();
    all.sort_by_key(|wanted| wanted.target().split('/').count());
    all
}

/// Why a pod's root was not made, by what was requested.
pub(super) fn rootfs_error(spec: &PodSpec, error: &InitError) -> Error {
    let text = error.to_string();
    let InitError::SetupRoot { what, .. } = error else {
        return Error::unavailable(format!("pod {}: {text}", spec.name));
    };
    let mut targets = spec.volumes.iter().map(|volume| &volume.target);
    let at = targets.position(|target| *what == format!("mount {target}"));
    match at {
        Some(i) => Error::invalid(format!("pod.volumes[{i}].target"), text),
        None if what.starts_with("set the sysctl") => Error::invalid("pod.sysctls", text),
        // Whatever else is in the way is the image's.
        None => Error::invalid("pod.image", text),
    }
}

/// What every container has.
fn base(spec: &PodSpec, allocated: &PodAllocation, owner: Owner) -> Result<Vec<MountOp>> {
    let failed = |e| error(&e, "pod");
    let new = |kind, path, read_only| MountOp::New {
        kind,
        path,
        read_only,
    };
    let devices = strata_rootfs::devices(owner).map_err(failed)?;
    if spec.terminal {
        strata_rootfs::console(&devices, owner).map_err(failed)?;
    }
    let mut mount_ops = vec![
        new("proc", "/proc", false),
        MountOp::Directory("/dev".into(), devices),
        MountOp::Directory(
            "/dev/pts".into(),
            strata_rootfs::devpts(owner).map_err(failed)?,
        ),
        MountOp::Directory(
            "/dev/shm".into(),
            strata_rootfs::shm(SHM_BYTES, owner).map_err(failed)?,
        ),
        new("mqueue", "/dev/mqueue", false),
    ];
    // A process that can create device files gains nothing: only those that are
    // mounted one by one work.
    let security = &spec.security;
    let makes_nodes = security
        .capabilities
        .iter()
        .any(|one| one.to_string() == "MKNOD");
    if makes_nodes && allocated.id_map.is_none() {
        for name in ["null", "zero", "full", "random", "urandom", "tty"] {
            let path = format!("/dev/{name}");
            let node = strata_rootfs::bind(Path::new(&path), BindOptions::default());
            mount_ops.push(MountOp::File(path, node.map_err(failed)?));
        }
        mount_ops.push(MountOp::NoDevices("/dev".into()));
    }
    if let Some(name) = &spec.hostname {
        mount_ops.push(MountOp::HostName(name.to_string()));
    }
    if has_sysfs(spec) {
        mount_ops.push(new("sysfs", "/sys", true));
    }
    Ok(mount_ops)
}

/// It shows the network of the process that mounts it, which must be root
/// there.
fn has_sysfs(spec: &PodSpec) -> bool {
    spec.network != PodNetwork::Host || !spec.has_own_users()
}

/// A pod's own control groups, so that programs find out how much they may
/// use. Only looked at, and nothing above them is in sight.
pub(super) fn groups(spec: &PodSpec, cell: &Cell) -> Result<Vec<MountOp>> {
    if !has_sysfs(spec) {
        return Ok(Vec::new());
    }
    let options = BindOptions {
        read_only: true,
        recursive: false,
        no_suid: true,
        no_dev: true,
        no_exec: true,
        id_map: None,
    };
    let mount_op = |(name, dir): (&str, PathBuf)| {
        let mount = strata_rootfs::bind(&dir, options).map_err(|e| error(&e, "pod"))?;
        let path = match name {
            "" => GROUPS.to_owned(),
            name => format!("{GROUPS}/{name}"),
        };
        Ok(MountOp::Directory(path, mount))
    };
    let mut shown = cell.shown_groups();
    // Not every host lets a cell have a cpuset.
    shown.retain(|(_, group)| group.is_dir());
    shown.into_iter().map(mount_op).collect()
}

fn bind(path: &Path, read_only: bool, users: Option<BorrowedFd<'_>>) -> Result<OwnedFd, RootError> {
    strata_rootfs::bind(path, bind_options(read_only, users))
}

/// How what comes from outside is seen in a pod.
fn bind_options(read_only: bool, users: Option<BorrowedFd<'_>>) -> BindOptions<'_> {
    BindOptions {
        read_only,
        recursive: true,
        no_suid: true,
        no_dev: true,
        no_exec: false,
        id_map: users,
    }
}

/// The public error, with the field it is most likely about.
pub(super) fn error(error: &RootError, field: &str) -> Error {
    let text = strata_types::chain(error);
    match error {
        RootError::LimitUnsupported { .. } => Error::wrong_state(text)
            .in_field("pod.limits.disk_bytes")
            .with_hint("leave the disk limit out, or keep the data directory on btrfs or xfs"),
        RootError::LimitTooSmall { .. } => Error::invalid("pod.limits.disk_bytes", text),
        RootError::TooManyLayers { .. } => Error::invalid("pod.image", text),
        RootError::BadMountPoint { .. } => Error::invalid("pod.volumes", text),
        RootError::DiskFull { .. } => {
            Error::exhausted(text).with_hint("make room on the disk of the data directory")
        }
        RootError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Error::invalid(field, text)
        }
        _ => Error::internal(text),
    }
}
