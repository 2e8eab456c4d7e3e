//! The planner, over pools of all kinds.

use proptest::collection::vec;
use proptest::prelude::*;
use strata_types::storage::{DeviceState, Profile};

use super::{DeviceFacts, Facts, expand, shrink, usable};
use crate::StorageError;

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
                reserve_bytes: reserve,
            };
            for (at, (state, bytes, percent)) in devices.into_iter().enumerate() {
                // The first two are in use: such is every pool.
                let state = if at < 2 { DeviceState::Online } else { state };
                let spare = state == DeviceState::Spare;
                facts.devices.push(DeviceFacts {
                    name: format!("d{at}"),
                    bytes,
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
    fn what_is_kept_twice_fits_on_two_devices(sizes in vec(0_u64..1000, 1..8)) {
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
        reserve_bytes: 0,
    };
    let error = shrink(&facts, 1000).unwrap_err();
    assert!(matches!(error, StorageError::Degraded { name } if name == "d2"));
}
