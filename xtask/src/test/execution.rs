//! Runs the jobs of a plan, each as a process group of its own with its output
//! in a file, within the slots that there are.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::test::cleanup::Worlds;
use crate::test::discovery::Binary;
use crate::test::plan::{Job, Plan};

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// It could not run here and reported why.
    Skipped(String),
    Failed(String),
}

/// A job that is over.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) id: String,
    pub(crate) verdict: Verdict,
    pub(crate) duration: Duration,
    /// Of the processors: of the test and of the children that it waited for.
    pub(crate) processor_time: Duration,
    pub(crate) output: String,
}

/// What happens in a run.
#[derive(Debug)]
pub(crate) enum Event {
    Ended(Outcome),
    /// Time passed; these run.
    Tick(Vec<String>),
}

/// What a test prints that cannot run on this host (`strata_testkit::skip`).
const SKIPPED: &str = "skipped, nothing is proven: ";

const TICK: Duration = Duration::from_secs(1);

/// Runs all jobs and reports what happens; false when a signal ended the run.
pub(crate) async fn run(plan: &Plan, mut report: impl FnMut(Event)) -> io::Result<bool> {
    let mut queue: VecDeque<&Job> = plan.jobs.iter().collect();
    let mut running = Running {
        free: plan.slots,
        tasks: JoinSet::new(),
        groups: BTreeMap::new(),
        free_of_groups: plan.groups.clone(),
    };
    let mut tick = tokio::time::interval(TICK);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    while !queue.is_empty() || !running.tasks.is_empty() {
        // The first of the queue that fits: one that waits for its group holds back
        // none behind it.
        while let Some(at) = queue.iter().position(|job| running.fits(job)) {
            let Some(job) = queue.remove(at) else { break };
            if let Err(error) = running.start(job) {
                report(Event::Ended(Outcome {
                    id: job.test.id(),
                    verdict: Verdict::Failed(format!("cannot be started: {error}")),
                    duration: Duration::ZERO,
                    processor_time: Duration::ZERO,
                    output: String::new(),
                }));
            }
        }
        tokio::select! {
            Some(ended) = running.tasks.join_next() => {
                let (job, outcome) = ended.map_err(io::Error::other)?;
                running.release(&job);
                report(Event::Ended(outcome?));
            }
            _ = tick.tick() => report(Event::Tick(running.groups.keys().cloned().collect())),
            _ = interrupt.recv() => return Ok(running.kill().await),
            _ = terminate.recv() => return Ok(running.kill().await),
            _ = hangup.recv() => return Ok(running.kill().await),
        }
    }
    Ok(true)
}

struct Running {
    free: u32,
    tasks: JoinSet<(Job, io::Result<Outcome>)>,
    /// The process group of every running test.
    groups: BTreeMap<String, Pid>,
    /// How many more tests of each group may start.
    free_of_groups: BTreeMap<String, u32>,
}

impl Running {
    fn fits(&self, job: &Job) -> bool {
        let free = |group: &String| self.free_of_groups.get(group).is_none_or(|&free| free > 0);
        job.slots <= self.free && job.rule.group.as_ref().is_none_or(free)
    }

    /// Ends every test that runs and removes its world: the run did not finish.
    async fn kill(&mut self) -> bool {
        for group in self.groups.values() {
            let _ = kill_process_group(*group, Signal::KILL);
        }
        // Each is reaped, sees that it was killed, and cleans up.
        while self.tasks.join_next().await.is_some() {}
        self.groups.clear();
        false
    }

    fn start(&mut self, job: &Job) -> io::Result<()> {
        let mut output = tempfile::tempfile()?;
        let worlds = Worlds::new()?;
        let (variable, list) = worlds.variable();
        let child = command(&job.test.binary)
            .args(["--exact", &job.test.name, "--nocapture"])
            .current_dir(&job.test.binary.dir)
            .env("CARGO_MANIFEST_DIR", &job.test.binary.dir)
            .env(variable, list)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .process_group(0)
            .spawn()?;
        self.free -= job.slots;
        if let Some(free) = self.group_of(job) {
            *free -= 1;
        }
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let group = pid.and_then(Pid::from_raw);
        if let Some(group) = group {
            self.groups.insert(job.test.id(), group);
        }
        let job = job.clone();
        self.tasks.spawn(async move {
            let outcome = finish(&job, child, group, &mut output, worlds).await;
            (job, outcome)
        });
        Ok(())
    }

    fn release(&mut self, job: &Job) {
        self.free += job.slots;
        self.groups.remove(&job.test.id());
        if let Some(free) = self.group_of(job) {
            *free += 1;
        }
    }

    fn group_of(&mut self, job: &Job) -> Option<&mut u32> {
        let group = job.rule.group.as_ref()?;
        self.free_of_groups.get_mut(group)
    }
}

/// However the run ends, no test goes on without it.
impl Drop for Running {
    fn drop(&mut self) {
        for group in self.groups.values() {
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }
}

/// The command of a binary, for integration tests in a mount namespace of its
/// own. Processes of one test, which are in namespaces of their own, would
/// otherwise hold on to what another test has mounted; and what a test mounts is
/// gone with its last process. Unit tests mount nothing.
fn command(binary: &Binary) -> Command {
    if !binary.is_integration || !rustix::process::geteuid().is_root() {
        return Command::new(&binary.path);
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--"]);
    command.arg(&binary.path);
    command
}

async fn finish(
    job: &Job,
    mut child: Child,
    group: Option<Pid>,
    output: &mut std::fs::File,
    worlds: Worlds,
) -> io::Result<Outcome> {
    use std::io::{Read as _, Seek as _};
    let began = Instant::now();
    let timeout = job.rule.timeout(job.expected);
    let is_over = tokio::time::timeout(timeout, wait_unreaped(group)).await;
    let duration = began.elapsed();
    let processor_time = processor_time(group);
    let ended = match is_over {
        Ok(waited) => Ok(waited.and(child.wait().await)),
        Err(elapsed) => Err(elapsed),
    };
    let status = match ended {
        Ok(status) => Some(status?),
        Err(_) => {
            // Only what is still in the group; the leader is not reaped yet.
            group.map(|group| kill_process_group(group, Signal::KILL));
            child.wait().await?;
            None
        }
    };
    let mut bytes = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut bytes)?;
    let mut output = String::from_utf8_lossy(&bytes).into_owned();
    if status.is_none_or(|status| status.signal().is_some()) {
        let removed = tokio::task::spawn_blocking(move || worlds.remove());
        output += &removed.await.unwrap_or_default();
    }
    Ok(Outcome {
        id: job.test.id(),
        verdict: verdict(status, &output, timeout),
        duration,
        processor_time,
        output,
    })
}

/// Waits until a process is over and leaves it unreaped, so that the kernel
/// still has its accounts.
async fn wait_unreaped(process: Option<Pid>) -> io::Result<()> {
    let Some(process) = process else {
        return Ok(());
    };
    // Ends at the latest when the process is killed at its deadline.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let wait = move || retry_on_intr(|| waitid(WaitId::Pid(process), options));
    tokio::task::spawn_blocking(wait)
        .await
        .map_err(io::Error::other)??;
    Ok(())
}

/// What a process that is over, and the children that it waited for, took of
/// the processors. Zero if that cannot be read.
fn processor_time(process: Option<Pid>) -> Duration {
    let ticks = process.and_then(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name, in parentheses, may have blanks; utime, stime, cutime and
        // cstime are the 14th to 17th field.
        let (_, fields) = stat.rsplit_once(')')?;
        let times = fields.split_whitespace().skip(11).take(4);
        times.map(|ticks| ticks.parse::<u64>().ok()).sum()
    });
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(ticks.unwrap_or(0) * 1000 / per_second)
}

/// What the exit status and the output of a test mean. No status: it was killed
/// at its deadline.
fn verdict(status: Option<ExitStatus>, output: &str, timeout: Duration) -> Verdict {
    let Some(status) = status else {
        return Verdict::Failed(format!("not over after {} s, killed", timeout.as_secs()));
    };
    if let Some(signal) = status.signal() {
        return Verdict::Failed(format!("ended by signal {signal}"));
    }
    if !status.success() {
        return Verdict::Failed(format!("exit code {}", status.code().unwrap_or(-1)));
    }
    // A binary that has no test of that name succeeds as well.
    if !output.contains("test result: ok. 1 passed") {
        return Verdict::Failed("the test did not run".to_owned());
    }
    match output.split_once(SKIPPED) {
        Some((_, why)) => Verdict::Skipped(why.lines().next().unwrap_or_default().to_owned()),
        None => Verdict::Passed,
    }
}
