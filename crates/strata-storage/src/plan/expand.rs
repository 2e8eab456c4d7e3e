//! Which spares to use.

use strata_types::storage::{DeviceResize, DeviceState, ExpandPlan, Profile};

use super::resize::least_size;
use super::{DeviceFacts, Facts, usable};
use crate::StorageError;
use crate::config::MIN_DEVICE;

/// What to use so that at least `min_bytes` more can be stored, and not more
/// than that: first the rest of devices that are used in part, then spares,
/// none that could be left out, and rather one that fits than a larger one.
pub fn expand(facts: &Facts, min_bytes: u64) -> Result<ExpandPlan, StorageError> {
    let mut whole = facts.clone();
    let used = |device: &DeviceFacts| device.in_use() && device.capacity_bytes > device.bytes;
    for device in whole.devices.iter_mut().filter(|device| used(device)) {
        device.bytes = device.capacity_bytes;
    }
    // What the devices in use could store more counts as gained.
    let rest = whole.usable_bytes() - facts.usable_bytes();
    let mut plan = match min_bytes.checked_sub(rest) {
        Some(missing) => add_spares(&whole, missing).map_err(|error| match error {
            StorageError::TooFewSpares { possible, .. } => StorageError::TooFewSpares {
                asked: min_bytes,
                possible: possible + rest,
            },
            other => other,
        })?,
        None => add_spares(&whole, 0)?,
    };
    plan.gained_bytes += rest;
    trim(facts, &whole, &mut plan, min_bytes);
    Ok(plan)
}

/// Uses no more of each device than what was requested takes, of spares last.
fn trim(facts: &Facts, whole: &Facts, plan: &mut ExpandPlan, min_bytes: u64) {
    let is_new = |device: &DeviceFacts| plan.devices.contains(&device.name);
    let counts = |device: &&DeviceFacts| device.in_use() || is_new(device);
    let mut devices: Vec<&DeviceFacts> = whole.devices.iter().filter(counts).collect();
    devices.sort_by_key(|device| !is_new(device));
    let before = |name: &str| facts.devices.iter().find(|one| one.name == name);
    let enough = facts.usable_bytes().saturating_add(min_bytes);
    let mut sizes: Vec<u64> = devices.iter().map(|device| device.bytes).collect();
    for (at, device) in devices.iter().enumerate() {
        let floor = match is_new(device) {
            true => MIN_DEVICE,
            false => before(&device.name).map_or(device.bytes, |one| one.bytes),
        };
        sizes[at] = least_size(facts.profile, &sizes, at, floor, enough);
    }
    plan.gained_bytes = usable(facts.profile, sizes.iter().copied()) - facts.usable_bytes();
    plan.resized = devices
        .iter()
        .zip(sizes)
        .filter_map(|(device, to_bytes)| {
            let from_bytes = before(&device.name)?.bytes;
            (from_bytes != to_bytes).then(|| DeviceResize {
                name: device.name.clone(),
                from_bytes,
                to_bytes,
            })
        })
        .collect();
}

fn add_spares(facts: &Facts, min_bytes: u64) -> Result<ExpandPlan, StorageError> {
    let spares: Vec<&DeviceFacts> = facts
        .devices
        .iter()
        .filter(|device| device.state == DeviceState::Spare)
        .collect();
    let gain = |chosen: &[&DeviceFacts]| gained(facts, chosen);
    let possible = gain(&spares);
    if possible < min_bytes {
        return Err(StorageError::TooFewSpares {
            asked: min_bytes,
            possible,
        });
    }
    let mut chosen: Vec<&DeviceFacts> = Vec::new();
    let mut left = spares;
    while gain(&chosen) < min_bytes {
        let with = |spare: &DeviceFacts| gained_with(facts, &chosen, spare);
        // The smallest that is enough, or else the one that helps most.
        let next = left
            .iter()
            .enumerate()
            .filter(|(_, spare)| with(spare) >= min_bytes)
            .min_by_key(|(_, spare)| spare.bytes)
            .or_else(|| left.iter().enumerate().max_by_key(|(_, spare)| with(spare)))
            .map(|(at, _)| at);
        let Some(next) = next else { break };
        chosen.push(left.remove(next));
    }
    leave_out_what_can_be(facts, &mut chosen, min_bytes);
    let chosen = chosen;
    Ok(ExpandPlan {
        resized: Vec::new(),
        gained_bytes: gain(&chosen),
        devices: chosen.iter().map(|spare| spare.name.clone()).collect(),
        moved_bytes: if chosen.is_empty() {
            0
        } else {
            facts.astray_bytes + to_spread(facts, &chosen)
        },
    })
}

/// A later choice can make an earlier one needless; the largest go first.
fn leave_out_what_can_be(facts: &Facts, chosen: &mut Vec<&DeviceFacts>, min_bytes: u64) {
    let mut by_size: Vec<String> = {
        let mut sorted = chosen.clone();
        sorted.sort_by_key(|device| device.bytes);
        sorted.iter().map(|device| device.name.clone()).collect()
    };
    while let Some(name) = by_size.pop() {
        let without: Vec<&DeviceFacts> = chosen
            .iter()
            .copied()
            .filter(|device| device.name != name)
            .collect();
        if gained(facts, &without) >= min_bytes {
            *chosen = without;
        }
    }
}

/// What is kept twice needs room on two devices: what one has more than all
/// others together is made of use by moving half as much to it.
fn to_spread(facts: &Facts, chosen: &[&DeviceFacts]) -> u64 {
    if facts.profile == Profile::Single {
        return 0;
    }
    let (mut sum, mut most, mut allocated) = (0_u64, 0, 0_u64);
    for device in facts.devices.iter().filter(|device| device.in_use()) {
        let room = device.bytes.saturating_sub(device.allocated_bytes);
        sum = sum.saturating_add(room);
        most = most.max(room);
        allocated = allocated.saturating_add(device.allocated_bytes);
    }
    for device in chosen {
        sum = sum.saturating_add(device.bytes);
        most = most.max(device.bytes);
    }
    (most.saturating_sub(sum - most) / 2).min(allocated / 2)
}

fn gained(facts: &Facts, chosen: &[&DeviceFacts]) -> u64 {
    let after = facts.usable_if(|device| {
        device.in_use() || chosen.iter().any(|spare| spare.name == device.name)
    });
    after.saturating_sub(facts.usable_bytes())
}

fn gained_with(facts: &Facts, chosen: &[&DeviceFacts], spare: &DeviceFacts) -> u64 {
    let mut all = chosen.to_vec();
    all.push(spare);
    gained(facts, &all)
}
