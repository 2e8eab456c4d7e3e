//! Seeds of the simulation: the same one has the same trace, and none violates
//! what must hold. `STRATA_SIM_SEED=N` simulates that one, with its trace.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use strata_sim::Campaign;
use strata_testkit::rounds;

/// The program that simulates one seed.
const PROGRAM: &str = env!("CARGO_BIN_EXE_strata-sim");
/// How many seeds are simulated, and how long at most; the first is the same in
/// each run, so that what passed once passes again.
const SEEDS: u64 = 2000;
const TIME_LIMIT: Duration = Duration::from_secs(60);

fn simulate(seed: u64) -> (bool, String) {
    let output = Command::new(PROGRAM)
        .args(["seed", &seed.to_string()])
        .output()
        .expect("strata-sim starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text)
}

#[test]
fn same_seed_has_the_same_trace() {
    for seed in [1, 2, 3, 4, 5, 6] {
        let (first, again) = (simulate(seed), simulate(seed));
        assert_eq!(first, again, "seed {seed}");
        assert!(first.1.contains(" trace "), "{}", first.1);
    }
}

#[test]
fn no_seed_violates_what_must_hold() {
    if let Ok(seed) = std::env::var("STRATA_SIM_SEED") {
        let status = Command::new(PROGRAM)
            .args(["seed", &seed, "--trace"])
            .status();
        assert!(status.expect("strata-sim starts").success(), "seed {seed}");
        return;
    }
    let campaign = Campaign {
        program: PathBuf::from(PROGRAM),
        first: 1,
        count: Some(rounds(SEEDS, 20_000)),
        within: Some(rounds(TIME_LIMIT, Duration::from_secs(600))),
        at_once: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let (done, failure) = campaign.run(|_| ()).expect("strata-sim starts");
    println!("{done} seeds");
    assert!(done >= 20, "only {done} seeds within the time limit");
    if let Some(failure) = failure {
        panic!(
            "STRATA_SIM_SEED={} fails:\n{}",
            failure.seed, failure.output
        );
    }
}
