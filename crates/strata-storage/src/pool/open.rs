//! The pool is made, or found again. Each step can be repeated, so that it
//! does not matter where the last try ended.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use strata_types::storage::Profile;

use super::{Shared, reserve, tree};
use crate::btrfs::{self, DeviceInfo, Fs};
use crate::config::{PoolConfig, check_size};
use crate::mount::{self, MountOptions};
use crate::record::{DeviceRecord, Record};
use crate::{Result, StorageError, device, mkfs};

/// A process that was killed in a call to the kernel lives until that ends.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn open(config: &PoolConfig) -> Result<Shared> {
    make_dir(&config.dir)?;
    let dir = config
        .dir
        .canonicalize()
        .map_err(StorageError::at("find", &config.dir))?;
    make_dir(&dir.join("devices"))?;
    let point = dir.join("mount");
    make_dir(&point)?;
    let lock = lock(&dir)?;

    let mut record = match Record::read(&dir)? {
        Some(record) => record,
        None => first_record(config, &dir)?,
    };
    if !record.ready {
        make(&mut record, &dir, &point)?;
    } else if !mount::is_mounted(&point)? || let_go_if_read_only(&point) {
        mount_again(&record, &point)?;
    }
    let pool = Shared {
        id: record.id.clone(),
        dir,
        mount: point,
        reserve: config.reserve_bytes,
        record: Mutex::new(record),
        changing: Arc::default(),
        doing: Arc::default(),
        volumes: Mutex::new(()),
        _lock: lock,
    };
    let fs = pool.fs()?;
    reconcile(&pool, &fs)?;
    tree::prepare(&pool, &fs)?;
    reserve::take(&pool, &fs);
    Ok(pool)
}

fn make_dir(path: &Path) -> Result<()> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(path);
    made.map_err(StorageError::at("make", path))
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let file = File::create(&path).map_err(StorageError::at("make", &path))?;
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(POLL_INTERVAL),
            Err(Errno::WOULDBLOCK) => {
                return Err(StorageError::InUse {
                    dir: dir.to_owned(),
                });
            }
            Err(errno) => return Err(StorageError::at("lock", &path)(errno)),
        }
    }
}

/// What the pool shall be, before any of it is there.
fn first_record(config: &PoolConfig, dir: &Path) -> Result<Record> {
    config.check()?;
    let mut record = Record {
        id: uuid::Uuid::now_v7().hyphenated().to_string(),
        profile: config.profile,
        ready: false,
        preallocate: config.preallocate,
        next: 0,
        devices: Vec::new(),
        scrub: None,
    };
    for path in &config.devices {
        let bytes = device::free_block_device(path, false)?;
        check_size(bytes)?;
        let name = record.next_name();
        record.devices.push(DeviceRecord {
            name,
            path: path.clone(),
            file: false,
            bytes,
            number: Some(0),
        });
    }
    let in_use = if config.devices.is_empty() {
        config.files
    } else {
        0
    };
    for at in 0..in_use + config.spare_files {
        let name = record.next_name();
        record.devices.push(DeviceRecord {
            path: dir.join("devices").join(format!("{name}.img")),
            name,
            file: true,
            bytes: config.file_bytes,
            number: (at < in_use).then_some(0),
        });
    }
    record.write(dir)?;
    Ok(record)
}

/// Makes the pool from nothing. What an earlier try left was never used.
fn make(record: &mut Record, dir: &Path, point: &Path) -> Result<()> {
    mount::unmount_all(point)?;
    // The id of an earlier try may be on the devices, and must be unique.
    record.id = uuid::Uuid::now_v7().hyphenated().to_string();
    record.write(dir)?;
    for device in &mut record.devices {
        if device.file {
            if device.path.exists() {
                crate::attach::wait_until_free(&device.path)?;
            }
            device.bytes = device::make_file(&device.path, device.bytes)?;
        }
        if device.file && device.number.is_some() && record.preallocate {
            device::preallocate(&device.path, device.bytes)?;
        }
    }
    let in_use = record.devices.iter().filter(|d| d.number.is_some());
    let attached = in_use.map(device::attached).collect::<Result<Vec<_>>>()?;
    let paths: Vec<PathBuf> = attached.iter().map(|device| device.path.clone()).collect();
    mkfs::format(&paths, record.profile, &record.id)?;
    mount::mount_devices(&attached, point, options(record))
        .map_err(StorageError::at("mount the pool at", point))?;
    let fs = Fs::open(point).map_err(StorageError::at("open", point))?;
    fs.enable_quota()
        .and_then(|()| fs.wait_for_quota())
        .map_err(StorageError::at("count what volumes use in", point))?;
    tree::make(&fs, &record.id)?;
    fs.sync().map_err(StorageError::at("sync", point))?;
    record.ready = true;
    record.write(dir)
}

/// After errors the kernel rejects all writes until the pool is mounted again.
/// Whether that can be done now; while a process uses it, it stays as it is.
fn let_go_if_read_only(point: &Path) -> bool {
    let read_only = Fs::open(point).and_then(|fs| fs.is_read_only());
    if read_only != Ok(true) {
        return false;
    }
    let unmounted = mount::unmount_all(point);
    if let Err(error) = &unmounted {
        tracing::warn!(mount = %point.display(), %error, "pool is read-only and cannot be remounted");
    }
    unmounted.is_ok()
}

fn options(record: &Record) -> MountOptions {
    MountOptions {
        degraded: false,
        keep_room: record.preallocate,
    }
}

/// Mounts what is there. A device belongs to the pool if the file system wrote
/// so on it: the record may be one step behind.
fn mount_again(record: &Record, point: &Path) -> Result<()> {
    let mut members: Vec<(&DeviceRecord, device::Signature)> = Vec::new();
    for device in &record.devices {
        let Some(signature) = device::signature(device) else {
            continue;
        };
        if btrfs::id_text(signature.id) != record.id {
            continue;
        }
        match members
            .iter_mut()
            .find(|(_, known)| known.number == signature.number)
        {
            // One that was replaced while it was away.
            Some(known) if known.1.generation < signature.generation => {
                *known = (device, signature);
            }
            Some(_) => {}
            None => members.push((device, signature)),
        }
    }
    let newest = members
        .iter()
        .map(|(_, signature)| signature.generation)
        .max();
    for (device, signature) in &members {
        if newest.is_some_and(|newest| newest > signature.generation + 1) {
            tracing::warn!(
                device = device.name,
                "device missed writes; run a scrub to repair it"
            );
        }
    }
    let attached: Vec<_> = members
        .iter()
        .map(|(member, _)| device::attached(member))
        .collect::<Result<_>>()?;
    let gone: Vec<String> = record
        .devices
        .iter()
        .filter(|d| d.number.is_some() && !members.iter().any(|(member, _)| member.name == d.name))
        .map(|device| format!("{} ({})", device.name, device.path.display()))
        .collect();
    let whole = options(record);
    let mounted = mount::mount_devices(&attached, point, whole);
    let Err(errno) = mounted else { return Ok(()) };
    let failed = |gone: Vec<String>| match gone.is_empty() {
        true => StorageError::at("mount the pool at", point)(errno),
        false => StorageError::DevicesGone { names: gone },
    };
    // The file system may miss a device of which the record does not know yet.
    if gone.is_empty() && record.profile != Profile::Mirrored {
        return Err(failed(gone));
    }
    let degraded = MountOptions {
        degraded: true,
        ..whole
    };
    if mount::mount_devices(&attached, point, degraded).is_err() {
        return Err(failed(gone));
    }
    tracing::warn!(missing = gone.join(", "), "pool mounted degraded");
    Ok(())
}

/// Brings the record up to the state of the file system, which is
/// authoritative: a change of the devices may have ended without us.
pub(super) fn reconcile(pool: &Shared, fs: &Fs) -> Result<()> {
    let known = fs
        .devices()
        .map_err(StorageError::at("look at", &pool.mount))?;
    let mut freed = Vec::new();
    pool.change(|record| {
        let owners = owners(&record.devices, &known)?;
        for (at, device) in record.devices.iter_mut().enumerate() {
            let here = owners.iter().position(|owner| *owner == Some(at));
            // One that is not there, or went while it was in use, can only be
            // identified by its number. It left only if the file system reports
            // it.
            let gone = || {
                let mut all = known.iter().zip(&owners);
                all.position(|(known, owner)| owner.is_none() && Some(known.id) == device.number)
            };
            let number = here.or_else(gone).map(|at| known[at].id);
            if device.number.is_some() && number.is_none() && device.file {
                freed.push((device.path.clone(), device.bytes));
            }
            device.number = number;
        }
        Ok(())
    })?;
    for (path, bytes) in freed {
        if fs::exists(&path).unwrap_or(false) {
            crate::attach::wait_until_free(&path)?;
            device::give_back(&path, bytes)?;
        }
    }
    Ok(())
}

/// For each device of the file system which of ours is behind it for certain.
fn owners(devices: &[DeviceRecord], known: &[DeviceInfo]) -> Result<Vec<Option<usize>>> {
    let mut owners = Vec::with_capacity(known.len());
    for known in known {
        let mut owner = None;
        for (at, device) in devices.iter().enumerate() {
            if let Some(path) = &known.path
                && device::is_behind(device, path)?
            {
                owner = Some(at);
                break;
            }
        }
        owners.push(owner);
    }
    Ok(owners)
}
