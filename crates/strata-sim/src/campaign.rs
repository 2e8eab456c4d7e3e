//! Many seeds, each in a process of its own, as many at once as there are
//! processors; and the shortest list of faults with which a seed still fails.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often it is looked whether a simulation has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Which seeds are simulated.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The program that simulates one seed: `strata-sim`.
    pub program: PathBuf,
    pub first: u64,
    /// None without an end.
    pub count: Option<u64>,
    /// None begins after this time.
    pub within: Option<Duration>,
    pub at_once: usize,
}

/// A seed that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub seed: u64,
    /// What the simulation printed.
    pub output: String,
}

impl Campaign {
    /// Simulates until one fails or all are done: how many were, and the one
    /// that failed.
    pub fn run(&self, mut ended: impl FnMut(u64)) -> io::Result<(u64, Option<Failure>)> {
        let (begin, mut next, mut done) = (Instant::now(), self.first, 0);
        let mut running: Vec<(u64, Child)> = Vec::new();
        loop {
            let in_time = self.within.is_none_or(|within| begin.elapsed() < within);
            let is_next = self.count.is_none_or(|count| next - self.first < count);
            if in_time && is_next && running.len() < self.at_once.max(1) {
                running.push((next, self.start(next)?));
                next += 1;
                continue;
            }
            if running.is_empty() {
                return Ok((done, None));
            }
            let mut at = None;
            for (index, (_, child)) in running.iter_mut().enumerate() {
                if child.try_wait()?.is_some() {
                    at = Some(index);
                }
            }
            let Some(at) = at else {
                std::thread::sleep(POLL_INTERVAL);
                continue;
            };
            let (seed, child) = running.swap_remove(at);
            let output = child.wait_with_output()?;
            done += 1;
            ended(seed);
            if !output.status.success() {
                for (_, mut child) in running {
                    child.kill()?;
                    child.wait()?;
                }
                let output = String::from_utf8_lossy(&output.stdout).into_owned();
                return Ok((done, Some(Failure { seed, output })));
            }
        }
    }

    fn start(&self, seed: u64) -> io::Result<Child> {
        Command::new(&self.program)
            .args(["seed", &seed.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    }
}

/// The numbers of the faults without which a seed still fails, of so many.
pub fn shrink(program: &PathBuf, seed: u64, faults: usize) -> io::Result<Vec<usize>> {
    let fails = |without: &[usize]| -> io::Result<bool> {
        let numbers: Vec<String> = without.iter().map(ToString::to_string).collect();
        let status = Command::new(program)
            .args(["seed", &seed.to_string(), "--without", &numbers.join(",")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        Ok(!status.success())
    };
    let mut without = Vec::new();
    loop {
        let before = without.len();
        for number in 0..faults {
            if without.contains(&number) {
                continue;
            }
            without.push(number);
            if !fails(&without)? {
                without.pop();
            }
        }
        if without.len() == before {
            without.sort_unstable();
            return Ok(without);
        }
    }
}
