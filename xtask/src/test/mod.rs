//! Runs the tests of the workspace: every test in a process of its own, the
//! slowest first, as many at once as their cost allows.
//!
//! `cargo test` runs one test binary after the other, and the tests of a binary
//! in alphabetical order: most of the time it waits for the last test of a
//! binary. Here all tests of all binaries form one queue.
//!
//! ```text
//! cargo test --no-run ─▶ discovery ─▶ plan ─▶ execution ─▶ report
//!                        binaries,    suite,  processes,   failures,
//!                        test names   order   deadlines    durations
//! ```
//!
//! What a test costs stands in `tests/suites.toml` (suite, slots, deadline) and
//! `tests/durations.tsv` (seconds on a reference machine, for the order and the
//! forecast). `docs/decisions/0026-a-test-runner.md` says why this is not nextest.

mod cleanup;
mod discovery;
mod execution;
mod plan;
mod report;
mod suites;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::test::discovery::Test;
use crate::test::plan::{Plan, Selection};
use crate::test::report::Report;
use crate::test::suites::{Durations, Suites};

/// What ids of durations at full length begin with.
const SOAK: &str = "soak:";

/// Run the tests of one or more suites
#[derive(Args)]
pub(crate) struct Arguments {
    /// Run only tests whose id contains one of these texts
    filter: Vec<String>,
    /// Run tests of this suite; may be repeated [default: test]
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// What `cargo test --no-run --message-format=json` printed
    #[arg(long, value_name = "FILE")]
    artifacts: PathBuf,
    /// Slots to fill; a test takes one unless tests/suites.toml says otherwise
    /// [default: as tests/suites.toml says, times the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    slots: Option<u32>,
    /// Succeed when the filter matches no test of the suite
    #[arg(long)]
    allow_empty: bool,
    /// Print the plan and run nothing
    #[arg(long)]
    list: bool,
    /// Write the measured durations to tests/durations.tsv
    #[arg(long)]
    record: bool,
    /// List so many of the slowest tests at the end, and of those that computed most
    #[arg(long, value_name = "N", default_value_t = 10)]
    slowest: usize,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{path}: {source}", path = path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("tests/suites.toml: {0}")]
    Suites(#[from] toml::de::Error),
    #[error("tests/suites.toml has no suite '{0}'; suites are: {1}")]
    NoSuite(String, String),
    #[error("tests/suites.toml has no group '{0}', which a rule names")]
    NoGroup(String),
    #[error("tests/suites.toml: no test begins with '{0}'")]
    DeadRule(String),
    #[error("cannot read what cargo printed: {0}")]
    Artifact(#[from] serde_json::Error),
    #[error("cannot list the tests of {binary}: {reason}", binary = binary.display())]
    List { binary: PathBuf, reason: String },
    #[error("no test matches {0:?} in suite {1}")]
    NothingMatches(Vec<String>, String),
    #[error("cannot run tests: {0}")]
    Run(#[from] std::io::Error),
}

/// Runs what the arguments select; exit code 1 when a test failed.
pub(crate) fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let suites = Suites::read("tests/suites.toml".as_ref())?;
    let mut durations = Durations::read("tests/durations.tsv".as_ref())?;
    let selected = match arguments.suites.is_empty() {
        true => vec!["test".to_owned()],
        false => arguments.suites.clone(),
    };
    suites.check(&selected)?;
    let binaries = discovery::binaries(&arguments.artifacts)?;
    let tests = discovery::tests(&binaries)?;
    let all: BTreeSet<String> = tests.iter().map(Test::id).collect();
    suites.check_rules(&all)?;
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    let cpus = u32::try_from(cpus).unwrap_or(1);
    let selection = Selection {
        suites: &selected,
        filter: &arguments.filter,
        slots: arguments.slots,
    };
    let plan = Plan::make(tests, &suites, &durations, &selection, cpus);
    if plan.jobs.is_empty() && arguments.allow_empty {
        return Ok(ExitCode::SUCCESS);
    }
    if plan.jobs.is_empty() {
        return Err(Error::NothingMatches(
            arguments.filter.clone(),
            selected.join(", "),
        ));
    }
    report::announce(&plan, &suites, &selected);
    if arguments.list {
        report::list(&plan);
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut report = Report::new(plan.jobs.len());
    let finished = runtime.block_on(execution::run(&plan, |event| report.add(event)))?;
    if arguments.record && finished {
        report.record(&mut durations, &selection);
        durations.retain(|id| all.contains(id.strip_prefix(SOAK).unwrap_or(id)));
        durations.write()?;
    }
    report.finish(arguments.slowest);
    if !finished {
        eprintln!("xtask: interrupted, not all tests ran");
    }
    Ok(match (finished, report.failed()) {
        (true, 0) => ExitCode::SUCCESS,
        (true, _) => ExitCode::FAILURE,
        (false, _) => ExitCode::from(130),
    })
}
