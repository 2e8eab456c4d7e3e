//! Which devices come and which go: pure functions from what was observed to
//! a plan, or to a refusal with the figures. Nothing here touches a device.

mod expand;
mod metadata;
mod resize;
mod shrink;
mod spread;
#[cfg(test)]
mod tests;

pub use expand::expand;
pub(crate) use metadata::metadata_has_room;
pub use shrink::shrink;
pub(crate) use shrink::{may_leave, may_resize, more_than};
pub(crate) use spread::{FreeSpace, next_to_move};
use strata_types::storage::{DeviceState, Profile};

/// What was observed of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How often everything is kept.
    pub profile: Profile,
    pub devices: Vec<DeviceFacts>,
    /// What is stored, in bytes that users could use instead.
    pub stored_bytes: u64,
    /// What is not kept as the profile requires.
    pub astray_bytes: u64,
    /// What block groups of metadata hold and do not use, in the same bytes.
    /// The kernel does not make them smaller while a device is cut.
    pub held_bytes: u64,
    /// What must stay free.
    pub reserve_bytes: u64,
}

/// What was observed of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    pub name: String,
    /// What the pool uses of it; all of a spare.
    pub bytes: u64,
    /// Its size: what the pool could use of it.
    pub capacity_bytes: u64,
    /// What of it is given to data.
    pub allocated_bytes: u64,
    /// What it is to the pool.
    pub state: DeviceState,
}

impl DeviceFacts {
    /// Data is on it and can be read.
    fn in_use(&self) -> bool {
        matches!(
            self.state,
            DeviceState::Online | DeviceState::Failing | DeviceState::Leaving
        )
    }
}

impl Facts {
    /// What users can store on the devices in use.
    pub fn usable_bytes(&self) -> u64 {
        self.usable_if(DeviceFacts::in_use)
    }

    fn usable_if(&self, counts: impl Fn(&DeviceFacts) -> bool) -> u64 {
        usable(
            self.profile,
            self.devices
                .iter()
                .filter(|device| counts(device))
                .map(|device| device.bytes),
        )
    }
}

/// What can be stored on devices of these sizes. Two copies need two devices:
/// what the largest has more than all others together is of no use.
pub fn usable(profile: Profile, sizes: impl IntoIterator<Item = u64>) -> u64 {
    let (mut sum, mut largest) = (0_u64, 0);
    for size in sizes {
        sum = sum.saturating_add(size);
        largest = largest.max(size);
    }
    match profile {
        Profile::Single => sum,
        Profile::Mirrored => (sum / 2).min(sum - largest),
    }
}
