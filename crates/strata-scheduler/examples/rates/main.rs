//! Prints how many placements per second one core decides, for fleets of 100,
//! 1,000 and 10,000 nodes that are 70 % full, and how tightly it packs.
//!
//! One round is one release and one placement: the fleet stays as full as it
//! was. Rounds are timed in batches, and the figure is of the median batch, so
//! that what else the machine does in between does not count.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod packers;
mod trace;

use std::sync::Arc;
use std::time::{Duration, Instant};

use packers::{Packer, nodes_used};
use strata_scheduler::{
    Constraint, Domain, Fleet, GIB, InstanceId, NodeSpec, Policy, Request, Resources, Rules,
    Selector, Settings, Spread, place,
};
use trace::{Random, size};

const BATCH: usize = 256;
const LONG_ENOUGH: Duration = Duration::from_millis(1500);

fn fleet(nodes: usize, policy: Policy) -> Fleet {
    let mut fleet = Fleet::new(Settings { policy, seed: 1 });
    for number in 0..nodes {
        let capacity = Resources::new(64_000, 256 * GIB, 2000 * GIB);
        let spec = NodeSpec::new(format!("n{number}"), capacity)
            .label("zone", ["a", "b", "c"][number % 3])
            .label("disk", if number % 10 == 0 { "nvme" } else { "ssd" })
            .label("rack", format!("r{}", number / 40));
        fleet.add_node(spec).unwrap();
    }
    fleet
}

/// The rules of one sort of load: many workloads, each with rules of its own.
fn rules(sort: &str, workloads: usize) -> Vec<Arc<Rules>> {
    let each = |number: usize| {
        let app = format!("w{number}");
        let spread = |over| Spread {
            over,
            of: Selector::label("app", app.clone()),
            weight: 1,
            max_skew: None,
        };
        let mut rules = Rules {
            labels: [("app".to_owned(), app.clone())].into(),
            ..Rules::default()
        };
        match sort {
            "constraint, 1 in 3" => {
                let zone = ["a", "b", "c"][number % 3].to_owned();
                rules.constraints = vec![Constraint::Is("zone".into(), zone)];
            }
            "constraint, 1 in 10" => {
                rules.constraints = vec![Constraint::Is("disk".into(), "nvme".into())];
            }
            "spread over zones" => rules.spreads = vec![spread(Domain::Label("zone".into()))],
            "spread over nodes" => rules.spreads = vec![spread(Domain::Node)],
            "zones and nodes" => {
                rules.spreads = vec![spread(Domain::Label("zone".into())), spread(Domain::Node)];
            }
            _ => {}
        }
        Arc::new(rules)
    };
    (0..workloads).map(each).collect()
}

fn rate(nodes: usize, sort: &str, policy: Policy) -> (f64, f64) {
    let mut random = Random(7);
    let mut fleet = fleet(nodes, policy);
    let rules = rules(sort, (nodes / 2).max(20));
    let mut next = 0_u128;
    let mut request = |random: &mut Random| {
        next += 1;
        let rules = Arc::clone(&rules[random.below(rules.len())]);
        let mut size = size(random);
        size.disk = size.memory / 4;
        Request::new(
            InstanceId(next << 64 | u128::from(random.bits())),
            size,
            rules,
        )
    };
    // A tenth of the nodes cannot be 70 % full of everything.
    let share = if sort == "constraint, 1 in 10" { 7 } else { 70 };
    let goal = 64_000 * nodes as u64 * share / 100;
    let (mut reserved, mut placed) = (0, Vec::new());
    while reserved < goal {
        let one = request(&mut random);
        if place(&mut fleet, std::slice::from_ref(&one))
            .failures
            .is_empty()
        {
            reserved += one.resources.cpu;
            placed.push(one.instance);
        }
    }
    let (mut costs, mut spent) = (Vec::new(), Duration::ZERO);
    while spent < LONG_ENOUGH {
        let batch: Vec<Request> = (0..BATCH).map(|_| request(&mut random)).collect();
        let leaving: Vec<InstanceId> = (0..BATCH)
            .map(|_| placed.swap_remove(random.below(placed.len())))
            .collect();
        let started = Instant::now();
        for instance in leaving {
            fleet.release(instance).unwrap();
        }
        let placing = Instant::now();
        let plan = place(&mut fleet, &batch);
        let (both, alone) = (started.elapsed(), placing.elapsed());
        spent += both;
        let each = |time: Duration| time.as_secs_f64() / plan.placements.len() as f64;
        costs.push((each(both), each(alone)));
        placed.extend(plan.placements.iter().map(|placement| placement.instance));
    }
    let median = |pick: fn(&(f64, f64)) -> f64| {
        let mut picked: Vec<f64> = costs.iter().map(pick).collect();
        picked.sort_by(f64::total_cmp);
        1.0 / picked[picked.len() / 2]
    };
    (median(|cost| cost.1), median(|cost| cost.0))
}

fn main() {
    let only = std::env::args().nth(1);
    let sizes: Vec<usize> = match std::env::args().nth(2) {
        Some(nodes) => vec![nodes.parse().unwrap()],
        None => vec![100, 1000, 10_000],
    };
    println!("placements per second, alone / each with a release");
    print!("{:<24}", "nodes");
    sizes.iter().for_each(|nodes| print!("{nodes:>22}"));
    println!();
    for (sort, policy) in [
        ("plain", Policy::BinPack),
        ("plain, policy spread", Policy::Spread),
        ("constraint, 1 in 3", Policy::BinPack),
        ("constraint, 1 in 10", Policy::BinPack),
        ("spread over zones", Policy::BinPack),
        ("spread over nodes", Policy::BinPack),
        ("zones and nodes", Policy::BinPack),
    ] {
        if only.as_ref().is_some_and(|only| !sort.contains(only)) {
            continue;
        }
        print!("{sort:<24}");
        for &nodes in &sizes {
            let (alone, both) = rate(nodes, sort, policy);
            print!("{:>22}", format!("{alone:.0} / {both:.0}"));
        }
        println!();
    }
    if only.is_none() {
        packing();
    }
}

fn packing() {
    let mut random = Random(1);
    let sizes: Vec<Resources> = (0..50_000).map(|_| size(&mut random)).collect();
    println!("\nnodes used by {} instances", sizes.len());
    for packer in [
        Packer::Ours,
        Packer::BestFit,
        Packer::FirstFitDecreasing,
        Packer::LowerBound,
    ] {
        println!(
            "{:<34}{:>12}",
            format!("{packer:?}"),
            nodes_used(&packer, &sizes)
        );
    }
}
