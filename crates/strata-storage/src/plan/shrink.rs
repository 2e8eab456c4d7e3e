//! Which devices to give back.

use strata_types::storage::{DeviceResize, DeviceState, ShrinkPlan};

use super::resize::{BLOCK, least_size};
use super::{DeviceFacts, Facts, usable};
use crate::StorageError;
use crate::config::{MIN_DEVICE, least_devices};

/// The devices to give back so that at most `max_bytes` less can be stored,
/// and what is stored still fits with the reserve. Failing ones go first,
/// then large ones, then those with little on them. What is left of
/// `max_bytes` is cut off devices that stay, those with most room first.
pub fn shrink(facts: &Facts, max_bytes: u64) -> Result<ShrinkPlan, StorageError> {
    if let Some(missing) = missing(facts) {
        return Err(StorageError::Degraded {
            name: missing.name.clone(),
        });
    }
    let mut candidates: Vec<&DeviceFacts> = facts
        .devices
        .iter()
        .filter(|device| device.in_use())
        .collect();
    candidates.sort_by_key(|device| {
        (
            device.state != DeviceState::Failing,
            std::cmp::Reverse(device.bytes),
            device.allocated_bytes,
        )
    });
    let mut chosen: Vec<&DeviceFacts> = Vec::new();
    for candidate in &candidates {
        let mut with = chosen.clone();
        with.push(candidate);
        if fits(facts, candidates.len(), &with, max_bytes) {
            chosen = with;
        }
    }
    chosen.sort_by_key(|device| device.allocated_bytes);
    let (resized, after) = cut(facts, &chosen, max_bytes);
    if chosen.is_empty() && resized.is_empty() {
        return Err(refusal(facts, &candidates, max_bytes));
    }
    let leaving = chosen.iter().map(|device| device.allocated_bytes);
    let moved: u64 = leaving.sum::<u64>() + resized.iter().map(|r| beyond(facts, r)).sum::<u64>();
    Ok(ShrinkPlan {
        lost_bytes: facts.usable_bytes() - after,
        moved_bytes: moved,
        free_bytes: after.saturating_sub(facts.stored_bytes),
        devices: chosen.iter().map(|device| device.name.clone()).collect(),
        resized,
    })
}

/// The devices to cut, once these have left, and what can be stored then.
fn cut(facts: &Facts, leaving: &[&DeviceFacts], max_bytes: u64) -> (Vec<DeviceResize>, u64) {
    let stays =
        |device: &&DeviceFacts| device.in_use() && !leaving.iter().any(|l| l.name == device.name);
    let mut remaining: Vec<&DeviceFacts> = facts.devices.iter().filter(stays).collect();
    remaining.sort_by_key(|device| {
        let room = device.bytes.saturating_sub(device.allocated_bytes);
        (
            device.state != DeviceState::Failing,
            std::cmp::Reverse(room),
        )
    });
    let least = facts.usable_bytes().saturating_sub(max_bytes);
    let least = least.max(needed(facts));
    let mut sizes: Vec<u64> = remaining.iter().map(|device| device.bytes).collect();
    for at in 0..sizes.len() {
        sizes[at] = least_size(facts.profile, &sizes, at, MIN_DEVICE, least);
    }
    let resized = remaining
        .iter()
        .zip(&sizes)
        .filter(|&(device, size)| device.bytes != *size)
        .map(|(device, size)| DeviceResize {
            name: device.name.clone(),
            from_bytes: device.bytes,
            to_bytes: *size,
        });
    let resized = resized.collect();
    (resized, usable(facts.profile, sizes))
}

/// What has to be moved at least before a device is cut.
fn beyond(facts: &Facts, resize: &DeviceResize) -> u64 {
    let device = facts.devices.iter().find(|one| one.name == resize.name);
    device.map_or(0, |one| one.allocated_bytes.saturating_sub(resize.to_bytes))
}

/// How much more can be stored with a device of this size than with one of
/// `planned` bytes.
pub(crate) fn more_than(facts: &Facts, name: &str, planned: u64) -> u64 {
    let devices = facts.devices.iter().filter(|device| device.in_use());
    let sizes = devices.map(|device| match device.name == name {
        true => planned,
        false => device.bytes,
    });
    let planned = usable(facts.profile, sizes);
    facts.usable_bytes().saturating_sub(planned)
}

/// Whether a device may be cut to this size. As for [`may_leave`], idle metadata
/// does not count: it may have grown since the plan, and a cut without room stops
/// where it is.
pub(crate) fn may_resize(facts: &Facts, name: &str, to_bytes: u64) -> Result<(), StorageError> {
    let devices = facts.devices.iter().filter(|device| device.in_use());
    let sizes = devices.map(|device| match device.name == name {
        true => to_bytes,
        false => device.bytes,
    });
    let after = usable(facts.profile, sizes);
    if after < facts.usable_bytes() && after < stored(facts) {
        return Err(below_used(facts, after));
    }
    Ok(())
}

fn missing(facts: &Facts) -> Option<&DeviceFacts> {
    let mut devices = facts.devices.iter();
    devices.find(|device| device.state == DeviceState::Missing)
}

fn fits(facts: &Facts, count: usize, leaving: &[&DeviceFacts], max_bytes: u64) -> bool {
    let after = left(facts, leaving);
    count - leaving.len() >= least_devices(facts.profile)
        && facts.usable_bytes() - after <= max_bytes
        && after >= needed(facts)
}

/// What a plan leaves: what is stored, the reserve, and what metadata holds idle,
/// which the kernel gives up last.
fn needed(facts: &Facts) -> u64 {
    stored(facts).saturating_add(facts.held_bytes)
}

/// What is stored, and the reserve.
fn stored(facts: &Facts) -> u64 {
    facts.stored_bytes.saturating_add(facts.reserve_bytes)
}

/// What could be stored without these.
fn left(facts: &Facts, leaving: &[&DeviceFacts]) -> u64 {
    facts
        .usable_if(|device| device.in_use() && !leaving.iter().any(|gone| gone.name == device.name))
}

/// Whether one device may leave, whatever is given back by it. Room that metadata
/// holds and does not use does not count here: much of it is on the device that
/// leaves, and a removal that was killed leaves more of it. Where it is in the way
/// after all, the kernel says so and nothing has changed.
pub(crate) fn may_leave(facts: &Facts, name: &str) -> Result<(), StorageError> {
    let in_use: Vec<&DeviceFacts> = facts.devices.iter().filter(|d| d.in_use()).collect();
    let leaving: Vec<&DeviceFacts> = in_use.iter().copied().filter(|d| d.name == name).collect();
    let least = least_devices(facts.profile);
    if in_use.len() - leaving.len() < least {
        return Err(StorageError::TooFewDevices {
            least,
            present: in_use.len(),
        });
    }
    let after = left(facts, &leaving);
    if after < stored(facts) {
        return Err(below_used(facts, after));
    }
    Ok(())
}

fn below_used(facts: &Facts, after: u64) -> StorageError {
    StorageError::BelowUsed {
        used: facts.stored_bytes,
        held: facts.held_bytes,
        reserve: facts.reserve_bytes,
        after,
    }
}

fn refusal(facts: &Facts, candidates: &[&DeviceFacts], max_bytes: u64) -> StorageError {
    let least = least_devices(facts.profile);
    let asked = facts.usable_bytes().saturating_sub(max_bytes);
    if asked < needed(facts) {
        return below_used(facts, asked);
    }
    if max_bytes < BLOCK {
        return StorageError::DevicesTooLarge {
            asked: max_bytes,
            smallest: BLOCK,
        };
    }
    if candidates.len() <= least {
        return StorageError::TooFewDevices {
            least,
            present: candidates.len(),
        };
    }
    // The least that a shrink could give back leaves the most.
    let after = candidates
        .iter()
        .map(|candidate| left(facts, &[*candidate]))
        .max()
        .unwrap_or_default();
    let smallest = facts.usable_bytes() - after;
    if smallest > max_bytes {
        return StorageError::DevicesTooLarge {
            asked: max_bytes,
            smallest,
        };
    }
    below_used(facts, after)
}
