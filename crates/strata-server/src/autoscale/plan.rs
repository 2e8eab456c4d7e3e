//! What to bring up and down so that there is room: a pure function from what
//! is there to a plan with reasons.
//!
//! Room is made at once for all that is missing. It is released one hypervisor
//! at a time, only if everything that is on it fits elsewhere, and only so far
//! that nothing would have to be brought up again.

use strata_api::rest::{AutoscalePlan, AutoscaleStep, Autoscaling, Headroom};

/// A place for instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRoom {
    pub id: String,
    /// What it has in all.
    pub size: Headroom,
    /// What is kept for instances on it.
    pub stored: Headroom,
    /// Whether it came from the inventory, and so may go.
    pub may_go: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoscaleInputs {
    /// Places that take instances now, or will soon.
    pub places: Vec<MachineRoom>,
    /// Machines that could be brought up.
    pub machines: Vec<(String, Headroom)>,
    /// What each that waits for room needs.
    pub waiting: Vec<Headroom>,
    /// What has to move off places that are being emptied.
    pub moving: Headroom,
}

fn plus(a: Headroom, b: Headroom) -> Headroom {
    Headroom {
        cpu: a.cpu.saturating_add(b.cpu),
        memory: a.memory.saturating_add(b.memory),
        gpu: a.gpu.saturating_add(b.gpu),
    }
}

fn minus(a: Headroom, b: Headroom) -> Headroom {
    Headroom {
        cpu: a.cpu.saturating_sub(b.cpu),
        memory: a.memory.saturating_sub(b.memory),
        gpu: a.gpu.saturating_sub(b.gpu),
    }
}

fn covers(have: Headroom, need: Headroom) -> bool {
    have.cpu >= need.cpu && have.memory >= need.memory && have.gpu >= need.gpu
}

/// How much of what is missing a machine brings, in thousandths of each kind.
fn share(brings: Headroom, missing: Headroom) -> u64 {
    let part = |have: u64, need: u64| match need {
        0 => 0,
        need => have.min(need) * 1000 / need,
    };
    part(brings.cpu, missing.cpu)
        + part(brings.memory, missing.memory)
        + part(brings.gpu.into(), missing.gpu.into())
}

fn describe(missing: Headroom) -> String {
    let mut parts = Vec::new();
    if missing.cpu > 0 {
        parts.push(format!("{} m of cpu", missing.cpu));
    }
    if missing.memory > 0 {
        parts.push(format!("{} MB", missing.memory));
    }
    if missing.gpu > 0 {
        parts.push(format!("{} GPUs", missing.gpu));
    }
    parts.join(", ")
}

pub fn plan(settings: Autoscaling, inputs: &AutoscaleInputs) -> AutoscalePlan {
    let free = inputs
        .places
        .iter()
        .fold(Headroom::default(), |sum, place| {
            plus(sum, minus(place.size, place.stored))
        });
    let headroom = Headroom {
        cpu: settings.cpu,
        memory: settings.memory,
        gpu: settings.gpu,
    };
    let waiting = inputs.waiting.iter().copied().fold(inputs.moving, plus);
    let mut plan = AutoscalePlan {
        settings,
        free,
        waiting,
        ..AutoscalePlan::default()
    };
    let needed = plus(headroom, waiting);
    let own = inputs.places.iter().filter(|place| place.may_go).count();
    let most = match settings.most {
        0 => usize::MAX,
        most => most as usize,
    };
    grow(&mut plan, inputs, needed, own, most);
    if plan.create.is_empty() && plan.message.is_empty() {
        shrink(&mut plan, inputs, needed, own, most);
    }
    if plan.create.is_empty() && plan.destroy.is_empty() && plan.message.is_empty() {
        plan.message = "there is room enough, and none too many".into();
    }
    plan
}

fn grow(
    plan: &mut AutoscalePlan,
    inputs: &AutoscaleInputs,
    needed: Headroom,
    own: usize,
    most: usize,
) {
    let mut free = plan.free;
    let mut left = inputs.machines.clone();
    let fits = |need: &Headroom| {
        let mut places = inputs.places.iter();
        places.any(|place| covers(minus(place.size, place.stored), *need))
    };
    // Enough in all may still be too little in each place.
    let mut apart: Vec<Headroom> = inputs.waiting.clone();
    apart.retain(|need| !fits(need));
    loop {
        let missing = minus(needed, free);
        let up = own + plan.create.len();
        let few = up < plan.settings.least as usize;
        let able = |need: &Headroom| left.iter().any(|(_, size)| covers(*size, *need));
        let large = apart.iter().find(|need| able(need)).copied();
        if covers(free, needed) && !few && large.is_none() {
            return;
        }
        if up >= most {
            plan.message = format!("{} hypervisors are the most", plan.settings.most);
            return;
        }
        // The machine that brings most of what is missing; of equals the
        // smallest.
        let large_enough = |brings: &Headroom| large.is_none_or(|need| covers(*brings, need));
        let able = left
            .iter()
            .enumerate()
            .filter(|(_, (_, it))| large_enough(it));
        let best = able.max_by_key(|(_, (id, brings))| {
            let size = std::cmp::Reverse((brings.cpu, brings.memory));
            (share(*brings, missing), size, std::cmp::Reverse(id.clone()))
        });
        let needed_anyway = few || large.is_some();
        let useful = best.filter(|(_, (_, it))| needed_anyway || share(*it, missing) > 0);
        let Some((at, _)) = useful else {
            plan.message = match few {
                true => "no machine is left to bring up".into(),
                false => format!("no machine is left that brings {}", describe(missing)),
            };
            return;
        };
        let (machine, brings) = left.swap_remove(at);
        let why = match (covers(free, needed), large) {
            (false, _) => format!("{} are missing", describe(missing)),
            (true, Some(need)) => format!("{} in one place are missing", describe(need)),
            (true, None) => format!("at least {} are to be up", plan.settings.least),
        };
        apart.retain(|need| !covers(brings, *need));
        plan.create.push(AutoscaleStep { machine, why });
        free = plus(free, brings);
    }
}

fn shrink(
    plan: &mut AutoscalePlan,
    inputs: &AutoscaleInputs,
    needed: Headroom,
    own: usize,
    most: usize,
) {
    if own <= plan.settings.least as usize && own <= most {
        return;
    }
    // What waits or moves has not found its place yet: that comes first.
    if !inputs.waiting.is_empty() || inputs.moving != Headroom::default() {
        return;
    }
    // The one with least on it: least has to move.
    let mut able: Vec<&MachineRoom> = inputs.places.iter().filter(|place| place.may_go).collect();
    able.sort_by_key(|place| (place.stored.memory, place.stored.cpu, place.id.clone()));
    for place in able {
        let free = minus(plan.free, minus(place.size, place.stored));
        let fits = covers(free, plus(needed, place.stored));
        if fits {
            let machine = place.id.clone();
            let why = match place.stored == Headroom::default() {
                true => "nothing is on it, and there is room enough without it".to_owned(),
                false => "what is on it fits elsewhere, with room enough left".to_owned(),
            };
            plan.destroy.push(AutoscaleStep { machine, why });
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn room(cpu: u64, memory: u64, gpu: u32) -> Headroom {
        Headroom { cpu, memory, gpu }
    }

    fn place(id: &str, size: Headroom, stored: Headroom) -> MachineRoom {
        MachineRoom {
            id: id.into(),
            size,
            stored,
            may_go: true,
        }
    }

    fn settings(cpu: u64, memory: u64) -> Autoscaling {
        Autoscaling {
            enabled: true,
            cpu,
            memory,
            ..Autoscaling::default()
        }
    }

    #[test]
    fn missing_headroom_is_added_immediately() {
        let inputs = AutoscaleInputs {
            places: vec![place("a", room(4000, 8000, 0), room(4000, 8000, 0))],
            machines: vec![
                ("small".into(), room(1000, 1000, 0)),
                ("big".into(), room(8000, 16000, 0)),
            ],
            waiting: vec![room(2000, 0, 0)],
            moving: Headroom::default(),
        };
        let plan = plan(settings(4000, 4000), &inputs);
        let ids: Vec<_> = plan.create.iter().map(|it| it.machine.as_str()).collect();
        assert_eq!(ids, ["big"]);
        assert!(plan.destroy.is_empty());
    }

    #[test]
    fn gpu_headroom_is_not_met_by_cpus() {
        let inputs = AutoscaleInputs {
            machines: vec![("plain".into(), room(64_000, 64_000, 0))],
            ..AutoscaleInputs::default()
        };
        let wants = Autoscaling {
            gpu: 1,
            ..settings(0, 0)
        };
        let plan = plan(wants, &inputs);
        assert!(plan.create.is_empty());
        assert!(plan.message.contains("1 GPUs"), "{}", plan.message);
    }

    #[test]
    fn emptiest_machine_is_removed_on_surplus() {
        let inputs = AutoscaleInputs {
            places: vec![
                place("busy", room(4000, 4000, 0), room(3000, 3000, 0)),
                place("idle", room(4000, 4000, 0), room(0, 0, 0)),
                place("half", room(8000, 8000, 0), room(1000, 1000, 0)),
            ],
            ..AutoscaleInputs::default()
        };
        let plan = plan(settings(2000, 2000), &inputs);
        let ids: Vec<_> = plan.destroy.iter().map(|it| it.machine.as_str()).collect();
        assert_eq!(ids, ["idle"]);
    }

    #[test]
    fn many_small_rooms_are_not_a_large_one() {
        let small = |id: &str| place(id, room(1000, 4000, 0), room(0, 0, 0));
        let inputs = AutoscaleInputs {
            places: vec![small("a"), small("b"), small("c"), small("d")],
            machines: vec![
                ("small".into(), room(1000, 1000, 0)),
                ("big".into(), room(4000, 8000, 0)),
            ],
            waiting: vec![room(3000, 1000, 0)],
            moving: Headroom::default(),
        };
        let plan = plan(settings(0, 0), &inputs);
        let ids: Vec<_> = plan.create.iter().map(|it| it.machine.as_str()).collect();
        assert_eq!(ids, ["big"], "{plan:?}");
    }

    fn rooms() -> impl Strategy<Value = Headroom> {
        (0..16u64, 0..16u64, 0..3u32).prop_map(|(cpu, memory, gpu)| room(cpu, memory, gpu))
    }

    fn inputs() -> impl Strategy<Value = AutoscaleInputs> {
        let places = prop::collection::vec((rooms(), rooms(), any::<bool>()), 0..6);
        let machines = prop::collection::vec(rooms(), 0..6);
        let waiting = prop::collection::vec(rooms(), 0..3);
        (places, machines, waiting).prop_map(|(places, machines, waiting)| AutoscaleInputs {
            places: places
                .into_iter()
                .enumerate()
                .map(|(i, (size, stored, may_go))| MachineRoom {
                    id: format!("p{i}"),
                    size: plus(size, stored),
                    stored,
                    may_go,
                })
                .collect(),
            machines: machines
                .into_iter()
                .enumerate()
                .map(|(i, size)| (format!("m{i}"), size))
                .collect(),
            waiting,
            moving: Headroom::default(),
        })
    }

    proptest! {
        /// What is done according to a plan is never undone by the next.
        #[test]
        fn autoscale_plan_does_not_oscillate(
            inputs in inputs(), wants in rooms(), least in 0..4u32, most in 0..5u32,
        ) {
            let wants = Autoscaling {
                enabled: true,
                cpu: wants.cpu,
                memory: wants.memory,
                gpu: wants.gpu,
                least,
                most: if most == 0 { 0 } else { most.max(least) },
            };
            let first = plan(wants, &inputs);
            prop_assert!(first.create.is_empty() || first.destroy.is_empty());
            let mut then = inputs.clone();
            for step in &first.create {
                let at = then.machines.iter().position(|(id, _)| *id == step.machine);
                let (id, size) = then.machines.remove(at.expect("it is one of them"));
                then.places.push(MachineRoom { id, size, stored: Headroom::default(), may_go: true });
            }
            for step in &first.destroy {
                let at = then.places.iter().position(|it| it.id == step.machine);
                let gone = then.places.remove(at.expect("it is one of them"));
                prop_assert!(gone.may_go);
                // What was on it is elsewhere now, and takes room there.
                let rest = then.places.iter_mut();
                let mut moved = gone.stored;
                for place in rest {
                    let takes = Headroom {
                        cpu: moved.cpu.min(place.size.cpu - place.stored.cpu),
                        memory: moved.memory.min(place.size.memory - place.stored.memory),
                        gpu: moved.gpu.min(place.size.gpu - place.stored.gpu),
                    };
                    place.stored = plus(place.stored, takes);
                    moved = minus(moved, takes);
                }
                prop_assert_eq!(moved, Headroom::default());
                then.machines.push((gone.id, gone.size));
            }
            let second = plan(wants, &then);
            if !first.destroy.is_empty() {
                prop_assert!(second.create.is_empty(), "{:?} then {:?}", first, second);
            }
            if !first.create.is_empty() && first.message.is_empty() {
                prop_assert!(second.create.is_empty(), "{:?} then {:?}", first, second);
            }
        }
    }
}
