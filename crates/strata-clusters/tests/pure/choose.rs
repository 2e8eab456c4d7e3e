//! A cluster gets machines that fit, all of them or none.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strata_clusters::choose::{
    Candidate, MAX_MEMBERS, RoleDemand, changes, check, check_added, check_scaled, choose,
    choose_most, free_numbers, members_to_remove, pod_subnet,
};
use strata_types::ErrorKind;
use strata_types::cluster::{ClusterRole, ControlPlane, InstanceType, NodePool};

use crate::world::{all_well, any_members, control, pool, spec, worker};

fn candidate(machine: &str, gpu: bool, megabytes: u64) -> Candidate {
    Candidate {
        machine: machine.parse().unwrap(),
        gpu,
        threads: 4,
        megabytes,
        failed_lately: false,
    }
}

fn want(role: ClusterRole, instance_type: InstanceType, count: u32) -> RoleDemand {
    let pool = match role {
        ClusterRole::ControlPlane => "",
        ClusterRole::Worker => "web",
    };
    RoleDemand {
        role,
        pool: pool.into(),
        instance_type,
        labels: BTreeMap::new(),
        count,
    }
}

#[test]
fn fields_of_the_published_document_are_named() {
    let fine = spec(3, vec![pool("web", 2)]);
    let one = |name: &str, control: &ControlPlane, pools: &[NodePool]| {
        let error = check(name, control, pools).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.field().unwrap().to_owned()
    };
    let control = &fine.control_plane;
    check("c", control, &fine.pools).unwrap();
    assert_eq!(one("C", control, &[]), "name");
    assert_eq!(one(&"c".repeat(41), control, &[]), "name");
    for count in [0, 2, 4, 6, 7, u32::MAX] {
        let field = one("c", &spec(count, vec![]).control_plane, &[]);
        assert_eq!(field, "control_plane_nodes.count");
    }
    let twice = [pool("web", 1), pool("web", 1)];
    assert_eq!(one("c", control, &twice), "worker_node_pools[1].name");
    assert_eq!(
        one("c", control, &[pool("a_b", 1)]),
        "worker_node_pools[0].name"
    );
    let many = [pool("a", 100), pool("b", 101)];
    assert_eq!(one("c", control, &many), "worker_node_pools[1].count");
    let endless = [pool("a", u32::MAX), pool("b", u32::MAX)];
    assert_eq!(one("c", control, &endless), "worker_node_pools[0].count");
    let mut labelled = spec(1, vec![pool("web", 1)]);
    labelled.pools[0].labels.insert("a b".into(), String::new());
    assert_eq!(
        one("c", control, &labelled.pools),
        "worker_node_pools[0].labels"
    );
    let there = fine.pools[0].clone();
    let other = pool(&there.name, there.count + 1);
    let added = check_added(&fine.pools, &[pool("new", 1), other]).unwrap_err();
    assert_eq!(added.kind(), ErrorKind::AlreadyExists);
    assert_eq!(added.field(), Some("worker_node_pools[1].name"));
    check_added(&fine.pools, &[pool("new", 1), there]).unwrap();
}

#[test]
fn pool_scaling_is_all_or_nothing() {
    let there = [pool("a", 150), pool("b", 1)];
    let scaled = check_scaled(&there, &[("b".into(), 150), ("a".into(), 0)]).unwrap();
    assert_eq!(scaled, [pool("a", 0), pool("b", 150)]);
    let none = check_scaled(&there, &[("a".into(), 1), ("x".into(), 1)]).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
    assert_eq!(none.field(), Some("node_pools[1].name"));
    let twice = check_scaled(&there, &[("a".into(), 1), ("a".into(), 2)]).unwrap_err();
    assert_eq!(twice.field(), Some("node_pools[1].name"));
    let many = check_scaled(&there, &[("b".into(), 51)]).unwrap_err();
    assert_eq!(many.kind(), ErrorKind::Invalid);
}

#[test]
fn the_control_plane_is_small_and_workers_are_large() {
    let mut all = vec![
        candidate("local-10", false, 8000),
        candidate("local-2", false, 8000),
        candidate("tiny", false, 1000),
        candidate("large", false, 64_000),
        candidate("gpu", true, 1_000_000),
    ];
    all[3].failed_lately = true;
    let wants = [
        want(ClusterRole::ControlPlane, InstanceType::Standard, 1),
        want(ClusterRole::Worker, InstanceType::Standard, 1),
    ];
    let chosen = choose(&all, &wants, &[]).unwrap();
    let names: Vec<_> = chosen
        .iter()
        .map(|choice| choice.machine.as_str())
        .collect();
    assert_eq!(names, ["local-2", "local-10"]);
    assert_eq!((chosen[0].number, chosen[1].number), (1, 2));
    assert!(chosen.iter().all(|choice| !choice.why.is_empty()));
    all.remove(0);
    let wants = [want(ClusterRole::Worker, InstanceType::Standard, 3)];
    let chosen = choose(&all, &wants, &[control(1)]).unwrap();
    assert_eq!(chosen[2].machine.as_str(), "large");
    assert!(chosen[2].why.contains("failed lately"));
    assert_eq!(chosen[0].number, 2);
}

#[test]
fn missing_machines_are_counted_by_type() {
    let wants = [
        want(ClusterRole::ControlPlane, InstanceType::Standard, 3),
        want(ClusterRole::Worker, InstanceType::Gpu, 1),
    ];
    let error = choose(&[candidate("a", false, 1)], &wants, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert_eq!(
        error.message(),
        "2 standard machines are missing (3 requested, 1 free), and 1 gpu machine is missing (1 requested, 0 free)"
    );
    assert!(error.hint().unwrap().contains("strata machine add"));
}

#[test]
fn member_pod_subnets_are_distinct() {
    assert_eq!(pod_subnet(7), "10.244.7.0/24");
    let members = [control(1), worker("a", 3)];
    assert_eq!(free_numbers(&members, 3).unwrap(), [2, 4, 5]);
    assert_eq!(
        free_numbers(&[], usize::from(MAX_MEMBERS)).unwrap().len(),
        250
    );
    assert!(free_numbers(&members, 249).is_err());
}

fn any_candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let one = (
        "[a-z][0-9]?",
        any::<bool>(),
        0u32..5,
        0u64..5000,
        any::<bool>(),
    );
    proptest::collection::vec(one, 0..20).prop_map(|all| {
        let all = all
            .into_iter()
            .map(|(name, gpu, threads, megabytes, failed_lately)| Candidate {
                machine: name.parse().unwrap(),
                gpu,
                threads,
                megabytes,
                failed_lately,
            });
        // By name, once each: two different entries of one machine are no fact.
        let all: BTreeMap<_, _> = all.map(|c| (c.machine.clone(), c)).collect();
        all.into_values().collect()
    })
}

/// The least memory of a role, in megabytes.
fn least(role: ClusterRole) -> u64 {
    match role {
        ClusterRole::ControlPlane => 1700,
        ClusterRole::Worker => 900,
    }
}

#[test]
fn too_small_machine_is_skipped_and_named() {
    let wants = [
        want(ClusterRole::ControlPlane, InstanceType::Standard, 1),
        want(ClusterRole::Worker, InstanceType::Standard, 1),
    ];
    let free = [candidate("a", false, 1000), candidate("b", false, 1000)];
    let error = choose(&free, &wants, &[]).unwrap_err();
    assert!(error.message().contains("a has 1000 MB"), "{error}");
    // One of unknown size may be large enough.
    let free = [candidate("a", false, 1000), candidate("b", false, 0)];
    let choices = choose(&free, &wants, &[]).unwrap();
    assert_eq!(choices[0].machine.as_str(), "b");
    // As many as there are machines for.
    let free = [candidate("a", false, 1000), candidate("b", false, 100)];
    let choices = choose_most(&free, &wants, &[]).unwrap();
    assert_eq!(choices.len(), 1);
    assert_eq!(choices[0].role, ClusterRole::Worker);
}

#[test]
fn first_pool_gets_the_available_machines() {
    let free = [
        candidate("m1", false, 4000),
        candidate("m2", false, 4000),
        candidate("g1", true, 4000),
    ];
    let wants = [
        want(ClusterRole::ControlPlane, InstanceType::Standard, 1),
        want(ClusterRole::Worker, InstanceType::Standard, 3),
        want(ClusterRole::Worker, InstanceType::Gpu, 2),
    ];
    assert!(choose(&free, &wants, &[]).is_err());
    let choices = choose_most(&free, &wants, &[]).unwrap();
    let reported = choices.iter().map(|it| (it.role, it.machine.to_string()));
    let reported: Vec<_> = reported.collect();
    let control = (ClusterRole::ControlPlane, "m1".to_owned());
    let workers = ["m2", "g1"].map(|id| (ClusterRole::Worker, id.to_owned()));
    assert_eq!(reported, [[control].as_slice(), &workers].concat());
    // Its own machines, and numbers that are taken, are not there.
    let full: Vec<_> = (1..=249).map(|n| worker("web", n)).collect();
    assert_eq!(choose_most(&free, &wants, &full).unwrap().len(), 1);
    assert_eq!(choose_most(&[], &wants, &[]).unwrap(), []);
}

proptest! {
    #[test]
    fn chosen_machines_are_distinct_and_of_the_type(
        candidates in any_candidates(),
        controls in 0u32..4,
        counts in proptest::collection::vec((any::<bool>(), 0u32..5), 0..4),
        members in any_members(),
        shuffle in any::<u64>(),
    ) {
        let mut wants = vec![want(ClusterRole::ControlPlane, InstanceType::Standard, controls)];
        wants.extend(counts.into_iter().map(|(gpu, count)| {
            let kind = if gpu { InstanceType::Gpu } else { InstanceType::Standard };
            want(ClusterRole::Worker, kind, count)
        }));
        let chosen = choose(&candidates, &wants, &members);
        let mut other = candidates.clone();
        let by = usize::try_from(shuffle % 20).unwrap() % candidates.len().max(1);
        other.rotate_left(by);
        prop_assert_eq!(&choose(&other, &wants, &members), &chosen);
        let large = |c: &Candidate, role| c.megabytes == 0 || c.megabytes >= least(role);
        let fits = |gpu: bool| {
            let of_kind = wants.iter().filter(|w| (w.instance_type == InstanceType::Gpu) == gpu);
            let asked: u32 = of_kind.map(|w| w.count).sum();
            let controls = if gpu { 0 } else { controls };
            let has = |role| candidates.iter().filter(|c| c.gpu == gpu && large(c, role)).count();
            has(ClusterRole::ControlPlane) >= controls as usize
                && has(ClusterRole::Worker) >= asked as usize
        };
        prop_assert_eq!(chosen.is_ok(), fits(true) && fits(false));
        let Ok(chosen) = chosen else { return Ok(()) };
        let machines: BTreeSet<_> = chosen.iter().map(|c| &c.machine).collect();
        prop_assert_eq!(machines.len(), chosen.len());
        let mut numbers: BTreeSet<u8> = members.iter().map(|m| m.number).collect();
        for choice in &chosen {
            prop_assert!(numbers.insert(choice.number) && choice.number > 0);
        }
        let mut given = chosen.iter();
        for want in &wants {
            for choice in given.by_ref().take(want.count as usize) {
                prop_assert_eq!((choice.role, &choice.pool), (want.role, &want.pool));
                let it = candidates.iter().find(|c| c.machine == choice.machine).unwrap();
                prop_assert_eq!(it.gpu, want.instance_type == InstanceType::Gpu);
                prop_assert!(large(it, want.role));
                // One that failed is taken only when all others of its type
                // and size are taken too.
                if it.failed_lately {
                    let kin = candidates.iter().filter(|c| c.gpu == it.gpu && !c.failed_lately);
                    let kin = kin.filter(|c| large(c, want.role));
                    prop_assert!(kin.into_iter().all(|c| machines.contains(&c.machine)));
                }
            }
        }
    }

    #[test]
    fn changes_converge_to_the_spec(
        members in any_members(),
        controls in prop_oneof![Just(1u32), Just(3), Just(5)],
        counts in proptest::collection::vec(0u32..4, 3),
    ) {
        let names = ["a", "b", "d"];
        let asked = spec(controls, names.iter().zip(&counts).map(|(n, c)| pool(n, *c)).collect());
        let todo = changes(&asked, &members);
        let mut after = members.clone();
        for surplus in &todo.remove {
            let go = members_to_remove(&surplus.pool, surplus.count as usize, &after, &all_well(&after));
            prop_assert_eq!(go.len(), surplus.count as usize);
            after.retain(|member| !go.iter().any(|(machine, _)| *machine == member.machine));
        }
        for want in &todo.add {
            for number in free_numbers(&after, want.count as usize).unwrap() {
                after.push(match want.role {
                    ClusterRole::ControlPlane => control(number),
                    ClusterRole::Worker => worker(&want.pool, number),
                });
            }
        }
        let rest = changes(&asked, &after);
        prop_assert!(rest.is_empty(), "{:?}", rest);
        let count = |all: &[strata_types::cluster::Member], role, pool: &str| {
            all.iter().filter(|m| m.role == role && m.pool == pool).count()
        };
        let had = count(&members, ClusterRole::ControlPlane, "");
        let has = count(&after, ClusterRole::ControlPlane, "");
        prop_assert_eq!(has, had.max(controls as usize));
        for (name, asked) in names.iter().zip(counts) {
            prop_assert_eq!(count(&after, ClusterRole::Worker, name), asked as usize);
        }
        prop_assert_eq!(count(&after, ClusterRole::Worker, "c"), 0);
        // Nothing goes from a pool that something comes to.
        prop_assert!(todo.add.iter().all(|w| todo.remove.iter().all(|s| s.pool != w.pool)));
    }
}
