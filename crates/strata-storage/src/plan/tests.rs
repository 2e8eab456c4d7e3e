//! The planner, over pools of all kinds.

use proptest::collection::vec;
use proptest::prelude::*;
use strata_types::storage::{DeviceResize, DeviceState, Profile};

use super::{DeviceFacts, Facts, expand, shrink, usable};
use crate::StorageError;
use crate::config::MIN_DEVICE;

fn facts() -> impl Strategy<Value = Facts> {
    let profile = prop_oneof![Just(Profile::Single), Just(Profile::Mirrored)];
    let states = prop_oneof![
        6 => Just(DeviceState::Online),
        1 => Just(DeviceState::Failing),
        4 => Just(DeviceState::Spare),
    ];
    let device = (states, 1_u64..5000, 0_u64..100);
    (profile, vec(device, 2..9), 0_u64..6000, 0_u64..500).prop_map(
        |(profile, devices, stored, reserve)| {
            let mut facts = Facts {
                profile,
                devices: Vec::new(),
                stored_bytes: 0,
                astray_bytes: 0,
                held_bytes: 0,
                reserve_bytes: reserve,
            };
            for (at, (state, bytes, percent)) in devices.into_iter().enumerate() {
                // The first two are in use: such is every pool.
                let state = if at < 2 { DeviceState::Online } else { state };
                let spare = state == DeviceState::Spare;
                facts.devices.push(DeviceFacts {
                    name: format!("d{at}"),
                    bytes,
                    capacity_bytes: bytes,
                    allocated_bytes: if spare { 0 } else { bytes * percent / 100 },
                    state,
                });
            }
            facts.stored_bytes = stored.min(facts.usable_bytes());
            facts
        },
    )
}

fn apply(facts: &Facts, names: &[String], state: DeviceState) -> Facts {
    let mut after = facts.clone();
    for device in &mut after.devices {
        if names.contains(&device.name) {
            device.state = state;
        }
    }
    after
}

proptest! {
    #[test]
    fn an_expansion_gains_enough_with_no_needless_device(facts in facts(), min in 0_u64..20_000) {
        let before = facts.usable_bytes();
        let all: Vec<String> = facts.devices.iter().map(|d| d.name.clone()).collect();
        let most = apply(&facts, &all, DeviceState::Online).usable_bytes() - before;
        match expand(&facts, min) {
            Ok(plan) => {
                let after = apply(&facts, &plan.devices, DeviceState::Online).usable_bytes();
                prop_assert_eq!(after - before, plan.gained_bytes);
                prop_assert!(plan.gained_bytes >= min);
                for left_out in &plan.devices {
                    let fewer: Vec<String> =
                        plan.devices.iter().filter(|d| *d != left_out).cloned().collect();
                    let fewer = apply(&facts, &fewer, DeviceState::Online).usable_bytes();
                    prop_assert!(fewer - before < min, "{} is not needed", left_out);
                }
                for name in &plan.devices {
                    let device = facts.devices.iter().find(|d| d.name == *name).unwrap();
                    prop_assert_eq!(device.state, DeviceState::Spare);
                }
            }
            Err(StorageError::TooFewSpares { asked, possible }) => {
                prop_assert_eq!((asked, possible), (min, most));
                prop_assert!(most < min);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn a_shrink_gives_back_no_more_than_asked_and_keeps_what_is_stored(
        facts in facts(), max in 0_u64..20_000,
    ) {
        let before = facts.usable_bytes();
        let needed = facts.stored_bytes + facts.reserve_bytes;
        let least = if facts.profile == Profile::Mirrored { 2 } else { 1 };
        let in_use = |facts: &Facts| facts.devices.iter().filter(|d| d.in_use()).count();
        let allowed = |facts: &Facts| {
            let after = facts.usable_bytes();
            before - after <= max && after >= needed && in_use(facts) >= least
        };
        let leave = |facts: &Facts, name: &str| apply(facts, &[name.to_owned()], DeviceState::Spare);
        let candidates = |facts: &Facts| -> Vec<String> {
            facts.devices.iter().filter(|d| d.in_use()).map(|d| d.name.clone()).collect()
        };
        match shrink(&facts, max) {
            Ok(plan) => {
                let after = apply(&facts, &plan.devices, DeviceState::Spare);
                prop_assert!(!plan.devices.is_empty());
                prop_assert!(allowed(&after));
                prop_assert_eq!(before - after.usable_bytes(), plan.lost_bytes);
                prop_assert_eq!(plan.free_bytes, after.usable_bytes() - facts.stored_bytes);
                // Every step on the way is allowed too.
                let mut step = facts.clone();
                for name in &plan.devices {
                    step = leave(&step, name);
                    prop_assert!(allowed(&step));
                }
            }
            Err(error) => {
                for name in candidates(&facts) {
                    prop_assert!(!allowed(&leave(&facts, &name)), "{} could go: {}", name, error);
                }
                if let StorageError::BelowUsed { after, .. } = error {
                    prop_assert!(after < needed);
                }
            }
        }
    }

    #[test]
    fn mirrored_data_needs_two_devices(sizes in vec(0_u64..1000, 1..8)) {
        let twice = usable(Profile::Mirrored, sizes.iter().copied());
        let sum: u64 = sizes.iter().sum();
        prop_assert!(twice * 2 <= sum);
        prop_assert!(sizes.iter().all(|size| twice <= sum - size));
    }
}

#[test]
fn a_missing_device_is_replaced_before_anything_shrinks() {
    let device = |name: &str, state| DeviceFacts {
        name: name.into(),
        bytes: 100,
        capacity_bytes: 100,
        allocated_bytes: 10,
        state,
    };
    let facts = Facts {
        profile: Profile::Mirrored,
        devices: vec![
            device("d1", DeviceState::Online),
            device("d2", DeviceState::Missing),
            device("d3", DeviceState::Online),
        ],
        stored_bytes: 10,
        astray_bytes: 0,
        held_bytes: 0,
        reserve_bytes: 0,
    };
    let error = shrink(&facts, 1000).unwrap_err();
    assert!(matches!(error, StorageError::Degraded { name } if name == "d2"));
}

/// Pools of real sizes, some devices of which are used in part.
fn large_facts() -> impl Strategy<Value = Facts> {
    (facts(), vec(0_u64..100, 9)).prop_map(|(mut facts, parts)| {
        const UNIT: u64 = 1 << 20;
        for (device, part) in facts.devices.iter_mut().zip(parts) {
            device.bytes = (device.bytes + 256) * UNIT;
            device.allocated_bytes *= UNIT;
            device.capacity_bytes = match device.state {
                DeviceState::Spare => device.bytes,
                _ => device.bytes + part * UNIT,
            };
        }
        facts.stored_bytes = (facts.stored_bytes * UNIT).min(facts.usable_bytes());
        facts.reserve_bytes *= UNIT;
        facts
    })
}

/// The pool after a plan.
fn resized(facts: &Facts, resized: &[DeviceResize]) -> Facts {
    let mut after = facts.clone();
    for resize in resized {
        let device = after.devices.iter_mut().find(|d| d.name == resize.name);
        let device = device.unwrap();
        assert_eq!(device.bytes, resize.from_bytes);
        device.bytes = resize.to_bytes;
    }
    after
}

proptest! {
    #[test]
    fn a_shrink_gives_back_all_that_was_asked_where_there_is_room(
        facts in large_facts(), max in 1_u64..20_000,
    ) {
        let max = max << 20;
        let before = facts.usable_bytes();
        let needed = facts.stored_bytes + facts.reserve_bytes;
        let Ok(plan) = shrink(&facts, max) else {
            // Where nothing is given back, what is stored or the least size of
            // each device forbids it.
            let smallest = facts.devices.iter().filter(|d| d.in_use()).all(|d| d.bytes <= MIN_DEVICE);
            prop_assert!(before.saturating_sub(max) < needed || smallest);
            return Ok(());
        };
        let after = apply(&facts, &plan.devices, DeviceState::Spare);
        let after = resized(&after, &plan.resized);
        prop_assert_eq!(before - after.usable_bytes(), plan.lost_bytes);
        prop_assert!(plan.lost_bytes <= max);
        prop_assert!(after.usable_bytes() >= needed);
        for resize in &plan.resized {
            prop_assert!(resize.to_bytes < resize.from_bytes && resize.to_bytes >= MIN_DEVICE);
        }
        let at_floor = plan.resized.iter().any(|r| r.to_bytes == MIN_DEVICE);
        if !at_floor {
            let possible = max.min(before - needed);
            prop_assert!(possible - plan.lost_bytes < 3 * 4096, "{:?}", plan);
        }
    }

    #[test]
    fn an_expansion_gains_what_was_asked_and_hardly_more(
        facts in large_facts(), min in 1_u64..20_000,
    ) {
        let min = min << 20;
        let before = facts.usable_bytes();
        let Ok(plan) = expand(&facts, min) else { return Ok(()) };
        let after = resized(&facts, &plan.resized);
        let after = apply(&after, &plan.devices, DeviceState::Online);
        prop_assert_eq!(after.usable_bytes() - before, plan.gained_bytes);
        prop_assert!(plan.gained_bytes >= min);
        // A spare is used by its least size, whatever was requested.
        let new = plan.resized.iter().any(|r| r.to_bytes == MIN_DEVICE);
        if !new {
            prop_assert!(plan.gained_bytes - min < 3 * 4096, "{:?}", plan);
        }
        for device in &after.devices {
            prop_assert!(device.bytes <= device.capacity_bytes);
        }
    }
}

#[test]
fn a_pool_of_one_device_is_made_smaller_and_larger_by_what_was_asked() {
    let device = |name: &str, state| DeviceFacts {
        name: name.into(),
        bytes: 10_000_003_072,
        capacity_bytes: 10_000_003_072,
        allocated_bytes: 1 << 30,
        state,
    };
    let mut facts = Facts {
        profile: Profile::Single,
        devices: vec![
            device("d1", DeviceState::Online),
            device("d2", DeviceState::Spare),
        ],
        stored_bytes: 200_000_000,
        astray_bytes: 0,
        held_bytes: 0,
        reserve_bytes: 256_000_000,
    };
    let plan = shrink(&facts, 2_000_000_000).unwrap();
    assert!(plan.devices.is_empty());
    assert_eq!(plan.resized.len(), 1);
    assert!(plan.lost_bytes > 1_999_990_000 && plan.lost_bytes <= 2_000_000_000);
    facts = resized(&facts, &plan.resized);
    let plan = expand(&facts, 1_000_000_000).unwrap();
    assert!(
        plan.devices.is_empty(),
        "the rest of d1 is enough: {plan:?}"
    );
    assert!(plan.gained_bytes >= 1_000_000_000 && plan.gained_bytes < 1_000_008_192);
    let plan = expand(&facts, 3_000_000_000).unwrap();
    assert_eq!(plan.devices, ["d2"]);
    assert!(plan.gained_bytes < 3_000_008_192, "{plan:?}");
}
