//! Placement alone, in process and on one core: how many a second in fleets
//! of different sizes that are 70 % full, and how tightly it packs beside the
//! textbook's ways. The trace and the packers are those of the scheduler's
//! own example.

#[path = "../../../crates/strata-scheduler/examples/rates/packers.rs"]
mod packers;
#[path = "../../../crates/strata-scheduler/examples/rates/trace.rs"]
mod trace;

use std::sync::Arc;
use std::time::{Duration, Instant};

use packers::{Packer, nodes_used};
use strata_scheduler::{
    Domain, Fleet, GIB, InstanceId, NodeSpec, Request, Resources, Rules, Selector, Settings,
    Spread, place,
};
use trace::{Random, size};

use crate::{Effort, Result};

const BATCH: usize = 256;
const CPU: u64 = 64_000;

#[allow(clippy::print_stdout)]
pub(crate) fn run(effort: Effort) -> Result {
    println!("| placements/s on one core | 100 nodes | 1,000 | 10,000 | cost at 10,000 / at 100 |");
    println!("|---|---|---|---|---|");
    for (what, spread) in [("plain", false), ("spread over zones", true)] {
        let rates = [100, 1000, 10_000]
            .into_iter()
            .map(|nodes| rate(nodes, spread, Duration::from_millis(effort.placement_ms)))
            .collect::<Result<Vec<f64>>>()?;
        let [small, middle, large] = rates[..] else {
            return Err("three fleets".into());
        };
        println!(
            "| {what} | {small:.0} | {middle:.0} | {large:.0} | {:.2} |",
            small / large
        );
    }
    println!("aim at 10,000 nodes: 1000000, and a cost that grows slower than the fleet\n");
    packing();
    Ok(())
}

/// One round is one release and one placement, so that the fleet stays as full
/// as it is. The figure is of the median batch, and of placing alone.
fn rate(nodes: usize, spread: bool, time: Duration) -> Result<f64> {
    let mut random = Random(7);
    let mut fleet = fleet(nodes)?;
    let rules: Vec<_> = (0..(nodes / 2).max(20))
        .map(|number| rules(number, spread))
        .collect();
    let mut next = 0_u128;
    let mut request = |random: &mut Random| {
        next += 1;
        let rules = Arc::clone(&rules[random.below(rules.len())]);
        let mut size = size(random);
        size.disk = size.memory / 4;
        let id = InstanceId(next << 64 | u128::from(random.bits()));
        Request::new(id, size, rules)
    };
    let (mut reserved, mut placed) = (0, Vec::new());
    while reserved < CPU * nodes as u64 * 70 / 100 {
        let one = request(&mut random);
        let plan = place(&mut fleet, std::slice::from_ref(&one));
        if plan.failures.is_empty() {
            reserved += one.resources.cpu;
            placed.push(one.instance);
        }
    }
    let (mut costs, began) = (Vec::new(), Instant::now());
    while began.elapsed() < time {
        for _ in 0..BATCH {
            fleet.release(placed.swap_remove(random.below(placed.len())))?;
        }
        let batch: Vec<Request> = (0..BATCH).map(|_| request(&mut random)).collect();
        let placing = Instant::now();
        let plan = place(&mut fleet, &batch);
        costs.push(placing.elapsed().as_secs_f64() / plan.placements.len().max(1) as f64);
        placed.extend(plan.placements.iter().map(|placement| placement.instance));
    }
    costs.sort_by(f64::total_cmp);
    Ok(1.0 / costs[costs.len() / 2])
}

fn fleet(nodes: usize) -> Result<Fleet> {
    let mut fleet = Fleet::new(Settings {
        seed: 1,
        ..Settings::default()
    });
    for number in 0..nodes {
        let capacity = Resources::new(CPU, 256 * GIB, 2000 * GIB);
        let zone = ["a", "b", "c"][number % 3];
        fleet.add_node(NodeSpec::new(format!("n{number}"), capacity).label("zone", zone))?;
    }
    Ok(fleet)
}

/// Of one workload of many, each with rules of its own.
fn rules(number: usize, spread: bool) -> Arc<Rules> {
    let app = format!("w{number}");
    let over_zones = spread.then(|| Spread {
        over: Domain::Label("zone".into()),
        of: Selector::label("app", app.clone()),
        weight: 1,
        max_skew: None,
    });
    Arc::new(Rules {
        labels: [("app".to_owned(), app)].into(),
        spreads: over_zones.into_iter().collect(),
        ..Rules::default()
    })
}

#[allow(clippy::print_stdout)]
fn packing() {
    let mut random = Random(1);
    let sizes: Vec<Resources> = (0..50_000).map(|_| size(&mut random)).collect();
    let ours = nodes_used(&Packer::Ours, &sizes);
    println!(
        "| nodes used by {} instances | nodes | ours / theirs |",
        sizes.len()
    );
    println!("|---|---|---|\n| ours, in the order of arrival | {ours} | |");
    for (what, packer) in [
        ("best fit, in the order of arrival", Packer::BestFit),
        ("first fit, the largest first", Packer::FirstFitDecreasing),
        ("sum of all / one node: the least", Packer::LowerBound),
    ] {
        let theirs = nodes_used(&packer, &sizes);
        println!(
            "| {what} | {theirs} | {:.3} |",
            ours as f64 / theirs.max(1) as f64
        );
    }
}
