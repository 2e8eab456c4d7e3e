//! What there is to know of the pool, from the file system itself.

use strata_types::storage::{DeviceState, Pool, PoolDevice, PoolState, Profile};

use super::Shared;
use crate::btrfs::{DeviceInfo, Spaces};
use crate::plan::{DeviceFacts, Facts, usable};
use crate::record::DeviceRecord;
use crate::{Result, StorageError};

struct Observed {
    devices: Vec<PoolDevice>,
    spaces: Spaces,
    read_only: bool,
}

fn observe(pool: &Shared) -> Result<Observed> {
    let fs = pool.fs()?;
    let failed = || StorageError::at::<rustix::io::Errno>("look at", &pool.mount);
    let known = fs.devices().map_err(failed())?;
    let record = pool.record().clone();
    let leaving = pool.leaving();
    let devices = record.devices.iter().map(|device| {
        let known = known.iter().find(|known| Some(known.id) == device.number);
        describe(device, known, leaving.as_deref())
    });
    Ok(Observed {
        devices: devices.collect(),
        spaces: fs.spaces(record.profile).map_err(failed())?,
        read_only: fs.is_read_only().map_err(failed())?,
    })
}

fn describe(
    device: &DeviceRecord,
    known: Option<&DeviceInfo>,
    leaving: Option<&str>,
) -> PoolDevice {
    let state = match known {
        None if device.path.exists() => DeviceState::Spare,
        None => DeviceState::Missing,
        Some(known) if known.path.is_none() => DeviceState::Missing,
        // The file system notices that it went only when it is mounted again.
        Some(_) if matches!(device.path.try_exists(), Ok(false)) => DeviceState::Missing,
        Some(_) if leaving == Some(&device.name) => DeviceState::Leaving,
        Some(known) if known.errors > 0 => DeviceState::Failing,
        Some(_) => DeviceState::Online,
    };
    PoolDevice {
        name: device.name.clone(),
        path: device.path.display().to_string(),
        state,
        bytes: known.map_or(device.bytes, |known| known.bytes),
        allocated_bytes: known.map_or(0, |known| known.allocated),
        errors: known.map_or(0, |known| known.errors),
    }
}

/// What is stored, in bytes that users could use instead.
fn stored(profile: Profile, spaces: &Spaces) -> u64 {
    spaces.data_used + metadata(profile, spaces.metadata_used)
}

/// What metadata holds and does not use, in the same bytes.
fn held(profile: Profile, spaces: &Spaces) -> u64 {
    let idle = spaces.metadata_total.saturating_sub(spaces.metadata_used);
    metadata(profile, idle)
}

/// Where data is kept once, metadata still takes its room twice.
fn metadata(profile: Profile, bytes: u64) -> u64 {
    match profile {
        Profile::Single => bytes * 2,
        Profile::Mirrored => bytes,
    }
}

fn make_facts(pool: &Shared, observed: &Observed) -> Facts {
    let record = pool.record().clone();
    let profile = record.profile;
    let capacity = |device: &PoolDevice| {
        let known = record.device(&device.name);
        known.map_or(device.bytes, |known| known.bytes.max(device.bytes))
    };
    Facts {
        profile,
        devices: observed
            .devices
            .iter()
            .map(|device| DeviceFacts {
                name: device.name.clone(),
                capacity_bytes: capacity(device),
                bytes: device.bytes,
                allocated_bytes: device.allocated_bytes,
                state: device.state,
            })
            .collect(),
        stored_bytes: stored(profile, &observed.spaces),
        astray_bytes: observed.spaces.astray,
        held_bytes: held(profile, &observed.spaces),
        reserve_bytes: pool.reserve,
    }
}

/// What plans are made from.
pub(super) fn facts(pool: &Shared) -> Result<Facts> {
    Ok(make_facts(pool, &observe(pool)?))
}

/// A device as it is now.
pub(super) fn device(pool: &Shared, name: &str) -> Result<PoolDevice> {
    let observed = observe(pool)?;
    let mut devices = observed.devices.into_iter();
    devices
        .find(|device| device.name == name)
        .ok_or_else(|| StorageError::NoDevice { name: name.into() })
}

/// The pool as it is now. That it is not mounted is an answer too.
pub(super) fn status(pool: &Shared) -> Result<Pool> {
    let observed = match observe(pool) {
        Err(error @ StorageError::NotMounted { .. }) => return Ok(offline(pool, &error)),
        other => other?,
    };
    let facts = make_facts(pool, &observed);
    let (state, message) = pool_state(&observed, facts.profile);
    let bytes = facts.usable_bytes();
    let in_use = |device: &&PoolDevice| device.state != DeviceState::Spare;
    let unallocated = observed
        .devices
        .iter()
        .filter(in_use)
        .filter(|device| device.state != DeviceState::Missing)
        .map(|device| device.bytes.saturating_sub(device.allocated_bytes));
    let spaces = observed.spaces;
    let free = (spaces.data_total - spaces.data_used) + usable(facts.profile, unallocated);
    let scrub = pool.record().scrub.clone();
    Ok(Pool {
        id: pool.id.clone(),
        state,
        message,
        profile: facts.profile,
        path: pool.mount.display().to_string(),
        bytes,
        used_bytes: facts.stored_bytes,
        free_bytes: free.min(bytes.saturating_sub(facts.stored_bytes)),
        devices: observed.devices,
        volumes: super::volumes::count(pool)?,
        scrub,
    })
}

fn pool_state(observed: &Observed, profile: Profile) -> (PoolState, String) {
    if observed.read_only {
        let message = "the file system is read-only after errors; see the kernel's log, \
                       replace what is broken, and start again";
        return (PoolState::Offline, message.into());
    }
    let named = |state: DeviceState| -> Vec<&str> {
        let devices = observed.devices.iter();
        devices
            .filter(|device| device.state == state)
            .map(|device| device.name.as_str())
            .collect()
    };
    let missing = named(DeviceState::Missing);
    if !missing.is_empty() {
        let message = format!(
            "{} is missing; bring it back and start again, or replace it with `strata storage \
             device replace {} --with SPARE`",
            missing.join(", "),
            missing[0],
        );
        return (PoolState::Degraded, message);
    }
    let failing = named(DeviceState::Failing);
    if !failing.is_empty() {
        let then = match profile {
            Profile::Mirrored => "`strata storage scrub` repairs what can be repaired",
            Profile::Single => "restore what is broken from a backup",
        };
        let message = format!(
            "{} answered with errors; {then}; replace the device if they come back",
            failing.join(", "),
        );
        return (PoolState::Degraded, message);
    }
    if observed.spaces.astray > 0 {
        let message = format!(
            "{} bytes are not kept as often as asked; expand or replace goes on with that",
            observed.spaces.astray
        );
        return (PoolState::Degraded, message);
    }
    (PoolState::Online, String::new())
}

fn offline(pool: &Shared, error: &StorageError) -> Pool {
    let record = pool.record();
    Pool {
        id: pool.id.clone(),
        state: PoolState::Offline,
        message: format!("{error}; start again to mount it"),
        profile: record.profile,
        path: pool.mount.display().to_string(),
        bytes: 0,
        used_bytes: 0,
        free_bytes: 0,
        devices: record
            .devices
            .iter()
            .map(|device| describe(device, None, None))
            .collect(),
        volumes: 0,
        scrub: record.scrub.clone(),
    }
}
