//! Which devices to give back.

use strata_types::storage::{DeviceState, ShrinkPlan};

use super::{DeviceFacts, Facts};
use crate::StorageError;
use crate::config::least_devices;

/// The devices to give back so that at most `max_bytes` less can be stored,
/// and what is stored still fits with the reserve. Failing ones go first,
/// then large ones, then those with little on them.
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
    if chosen.is_empty() {
        return Err(refusal(facts, &candidates, max_bytes));
    }
    chosen.sort_by_key(|device| device.allocated_bytes);
    let after = left(facts, &chosen);
    Ok(ShrinkPlan {
        lost_bytes: facts.usable_bytes() - after,
        moved_bytes: chosen.iter().map(|device| device.allocated_bytes).sum(),
        free_bytes: after.saturating_sub(facts.stored_bytes),
        devices: chosen.iter().map(|device| device.name.clone()).collect(),
    })
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

fn needed(facts: &Facts) -> u64 {
    facts.stored_bytes.saturating_add(facts.reserve_bytes)
}

/// What could be stored without these.
fn left(facts: &Facts, leaving: &[&DeviceFacts]) -> u64 {
    facts
        .usable_if(|device| device.in_use() && !leaving.iter().any(|gone| gone.name == device.name))
}

/// Whether one device may leave, whatever is given back by it.
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
    if after < needed(facts) {
        return Err(below_used(facts, after));
    }
    Ok(())
}

fn below_used(facts: &Facts, after: u64) -> StorageError {
    StorageError::BelowUsed {
        used: facts.stored_bytes,
        reserve: facts.reserve_bytes,
        after,
    }
}

fn refusal(facts: &Facts, candidates: &[&DeviceFacts], max_bytes: u64) -> StorageError {
    let least = least_devices(facts.profile);
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
