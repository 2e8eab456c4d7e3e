//! Packing a list of sizes on nodes of 64 cores and 256 GiB: by the crate and
//! by the textbook.

use std::cmp::Reverse;
use std::sync::Arc;

use strata_scheduler::{
    Fleet, GIB, InstanceId, NodeSpec, Request, Resources, Rules, Settings, place,
};

const NODE: Resources = Resources {
    cpu: 64_000,
    memory: 256 * GIB,
    disk: 0,
};

#[derive(Debug)]
pub(crate) enum Packer {
    /// The crate, in the order of arrival.
    Ours,
    /// Exact best fit in the order of arrival: the node with the least cpu and
    /// memory left, each as a part of a whole node.
    BestFit,
    /// The first node that fits, the largest instances first. It knows the
    /// future, which no scheduler does.
    FirstFitDecreasing,
    /// The sum of all divided by a node: no packing can use fewer.
    LowerBound,
}

/// How many nodes the sizes take.
pub(crate) fn nodes_used(packer: &Packer, sizes: &[Resources]) -> usize {
    match packer {
        Packer::Ours => ours(sizes),
        Packer::BestFit => textbook(sizes, |nodes, size| {
            let fitting = nodes
                .iter()
                .enumerate()
                .filter(|(_, free)| size.fits_in(free));
            let tightest = fitting.min_by(|(_, one), (_, other)| part(one).total_cmp(&part(other)));
            tightest.map(|(at, _)| at)
        }),
        Packer::FirstFitDecreasing => {
            let mut sorted = sizes.to_vec();
            sorted.sort_by_key(|size| Reverse((part(size) * 1e9) as u64));
            textbook(&sorted, |nodes, size| {
                nodes.iter().position(|free| size.fits_in(free))
            })
        }
        Packer::LowerBound => {
            let cpu: u64 = sizes.iter().map(|size| size.cpu).sum();
            let memory: u64 = sizes.iter().map(|size| size.memory).sum();
            cpu.div_ceil(NODE.cpu).max(memory.div_ceil(NODE.memory)) as usize
        }
    }
}

/// How much of a node it is.
fn part(size: &Resources) -> f64 {
    size.cpu as f64 / NODE.cpu as f64 + size.memory as f64 / NODE.memory as f64
}

fn textbook(
    sizes: &[Resources],
    choose: impl Fn(&[Resources], &Resources) -> Option<usize>,
) -> usize {
    let mut nodes: Vec<Resources> = Vec::new();
    for size in sizes {
        let at = choose(&nodes, size).unwrap_or_else(|| {
            nodes.push(NODE);
            nodes.len() - 1
        });
        nodes[at].cpu -= size.cpu;
        nodes[at].memory -= size.memory;
    }
    nodes.len()
}

/// With more nodes than needed: those that stay empty do not count.
fn ours(sizes: &[Resources]) -> usize {
    let mut fleet = Fleet::new(Settings::default());
    let rules = Arc::new(Rules::default());
    let enough = nodes_used(&Packer::LowerBound, sizes) * 3 / 2 + 10;
    for number in 0..enough {
        let added = fleet.add_node(NodeSpec::new(format!("n{number}"), NODE));
        added.expect("names differ");
    }
    let requests: Vec<Request> = (0_u128..)
        .zip(sizes)
        .map(|(id, size)| Request::new(InstanceId(id), *size, Arc::clone(&rules)))
        .collect();
    let plan = place(&mut fleet, &requests);
    assert!(plan.failures.is_empty());
    let used = |node| {
        fleet
            .reserved(node)
            .is_ok_and(|reserved| reserved != Resources::NONE)
    };
    fleet.nodes().filter(|node| used(*node)).count()
}
