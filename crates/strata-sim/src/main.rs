//! `strata-sim`: simulates seeds.
//!
//! ```text
//! strata-sim seed N [--without 1,4] [--trace] [--log]   one seed
//! strata-sim seeds FIRST COUNT                          so many, until one fails
//! strata-sim soak [FIRST]                               until one fails or it is stopped
//! strata-sim shrink N                                   the fewest faults with which it fails
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use strata_sim::{Campaign, Options, shrink, simulate};

const USAGE: &str = "usage: strata-sim seed N [--without 1,4] [--trace] [--log] | seeds FIRST COUNT | soak [FIRST] | shrink N";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["seed", seed, rest @ ..] => number(seed).and_then(|seed| one(seed, rest)),
        ["seeds", first, count] => match (number(first), number(count)) {
            (Some(first), Some(count)) => many(first, Some(count)),
            _ => None,
        },
        ["soak"] => many(1, None),
        ["soak", first] => number(first).and_then(|first| many(first, None)),
        ["shrink", seed] => number(seed).and_then(shortest),
        _ => None,
    };
    done.unwrap_or_else(|| {
        eprintln!("{USAGE}");
        ExitCode::from(2)
    })
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn one(seed: u64, rest: &[&str]) -> Option<ExitCode> {
    let mut options = Options {
        seed,
        ..Options::default()
    };
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match *word {
            "--trace" => options.prints = true,
            "--log" => {
                let subscriber = tracing_subscriber::fmt()
                    .with_writer(std::io::stderr)
                    .with_env_filter(std::env::var("STRATA_LOG").unwrap_or("debug".into()));
                subscriber.init();
            }
            "--without" => {
                let list = rest.next()?.split(',').filter(|text| !text.is_empty());
                options.without = list.map(|text| text.parse().ok()).collect::<Option<_>>()?;
            }
            _ => return None,
        }
    }
    let without = options.without.clone();
    let outcome = match simulate(options) {
        Ok(outcome) => outcome,
        Err(error) => {
            println!("seed {seed}: {error}");
            return Some(ExitCode::FAILURE);
        }
    };
    println!("seed {seed} trace {:016x} {:?}", outcome.hash, outcome.took);
    if outcome.violations.is_empty() {
        return Some(ExitCode::SUCCESS);
    }
    for line in &outcome.last_lines {
        println!("  {line}");
    }
    for (number, fault) in outcome.faults.iter().enumerate() {
        if !without.contains(&number) {
            println!("fault {number}: {fault}");
        }
    }
    for violation in &outcome.violations {
        println!("VIOLATED: {violation}");
    }
    println!("again: strata-sim seed {seed} --trace; fewer faults: strata-sim shrink {seed}");
    Some(ExitCode::FAILURE)
}

fn many(first: u64, count: Option<u64>) -> Option<ExitCode> {
    let campaign = Campaign {
        program: std::env::current_exe().ok()?,
        first,
        count,
        within: None,
        at_once: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let began = std::time::Instant::now();
    let mut done = 0;
    let ended = campaign.run(|_| {
        done += 1;
        if done % 1000 == 0 {
            println!("{done} seeds in {:?}", began.elapsed());
        }
    });
    match ended {
        Ok((done, None)) => {
            println!("{done} seeds in {:?}", began.elapsed());
            Some(ExitCode::SUCCESS)
        }
        Ok((done, Some(failure))) => {
            println!("{}\nseed {} of {done} failed", failure.output, failure.seed);
            Some(ExitCode::FAILURE)
        }
        Err(error) => {
            println!("{error}");
            Some(ExitCode::FAILURE)
        }
    }
}

fn shortest(seed: u64) -> Option<ExitCode> {
    let program = std::env::current_exe().ok()?;
    let faults = simulate(Options {
        seed,
        ..Options::default()
    });
    let shrunk = faults.and_then(|outcome| {
        let without = shrink(&program, seed, outcome.faults.len())?;
        Ok((outcome.faults, without))
    });
    match shrunk {
        Ok((faults, without)) => {
            for (number, fault) in faults.iter().enumerate() {
                if !without.contains(&number) {
                    println!("fault {number}: {fault}");
                }
            }
            let without: Vec<String> = without.iter().map(ToString::to_string).collect();
            println!("strata-sim seed {seed} --without {}", without.join(","));
            Some(ExitCode::SUCCESS)
        }
        Err(error) => {
            println!("{error}");
            Some(ExitCode::FAILURE)
        }
    }
}
