//! How many nodes a load of realistic shape takes, beside textbook packers.

#[path = "../../examples/rates/packers.rs"]
mod packers;
#[path = "../../examples/rates/trace.rs"]
mod trace;

use packers::{Packer, nodes_used};

#[test]
fn placement_uses_hardly_more_nodes_than_best_fit() {
    for seed in [1, 2, 3] {
        let mut random = trace::Random(seed);
        let sizes: Vec<_> = (0..20_000).map(|_| trace::size(&mut random)).collect();
        let ours = nodes_used(&Packer::Ours, &sizes);
        let best = nodes_used(&Packer::BestFit, &sizes);
        let sorted = nodes_used(&Packer::FirstFitDecreasing, &sizes);
        let least = nodes_used(&Packer::LowerBound, &sizes);
        assert!(ours * 100 <= best * 105, "{ours} nodes, best fit {best}");
        assert!(
            ours * 100 <= sorted * 110,
            "{ours} nodes, first fit decreasing {sorted}"
        );
        assert!(
            ours * 100 <= least * 115,
            "{ours} nodes, no packing below {least}"
        );
    }
}
