//! Checks periodically whether a pod works, and reports when that changes. One
//! that does not is ended, and its restart policy decides what follows.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use strata_tasks::spawn_detached;
use strata_types::pod::{HealthCheck, PodNetwork, Probe};
use strata_types::{CommandLine, Ending};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::exec::{ExecRequest, ExecStreams, exec};
use super::{PodRef, http, plan};
use crate::cells::Executable;
use crate::units::Health;

/// Before the first question.
const INITIAL_DELAY: Duration = Duration::from_millis(100);

/// Watches over a pod until its process ends.
pub(super) fn watch(pod: PodRef, main: Arc<Executable>) {
    let record = pod.record();
    let check = plan::health(&record.spec, &record.allocated.config);
    if let (Some(check), Some(tasks)) = (check, pod.tasks()) {
        pod.note(|view| view.health = Health::Starting);
        tasks.restart("health-check", move || {
            let (pod, main, check) = (pod.clone(), main.clone(), check.clone());
            async move {
                tokio::select! {
                    _ = main.ended() => {}
                    () = probe_loop(&pod, &main, &check) => {}
                }
            }
        });
    }
}

async fn probe_loop(pod: &PodRef, main: &Arc<Executable>, check: &HealthCheck) {
    let begun = Instant::now();
    let mut tally = ProbeTally::new(check);
    // Checked often at first, so that one that works is soon known to.
    let mut pause = INITIAL_DELAY.min(check.interval);
    loop {
        tokio::time::sleep(pause).await;
        pause = match tally.health {
            Health::Starting => (pause * 2).min(check.interval),
            _ => check.interval,
        };
        let answer = match timeout(check.timeout, ask(pod, &check.probe)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {:?}", check.timeout)),
        };
        match tally.count(&answer, begun.elapsed()) {
            HealthTransition::Unchanged => {}
            HealthTransition::Healthy => {
                pod.note(|view| view.health = Health::Healthy);
                pod.tell("healthy");
            }
            HealthTransition::Unhealthy => {
                pod.note(|view| view.health = Health::Unhealthy);
                let why = answer.err().unwrap_or_default();
                pod.give_up(main, &format!("unhealthy: {why}")).await;
            }
        }
    }
}

/// What an answer changes.
#[derive(Debug, PartialEq, Eq)]
enum HealthTransition {
    Unchanged,
    Healthy,
    Unhealthy,
}

struct ProbeTally {
    retries: u32,
    start_period: Duration,
    failures: u32,
    health: Health,
}

impl ProbeTally {
    fn new(check: &HealthCheck) -> Self {
        Self {
            retries: check.retries,
            // Nor do failures in the first interval, when it is checked more
            // often.
            start_period: check.start_period.max(check.interval),
            failures: 0,
            health: Health::Starting,
        }
    }

    fn count(&mut self, answer: &Result<(), String>, since_start: Duration) -> HealthTransition {
        if answer.is_ok() {
            self.failures = 0;
            return self.become_it(Health::Healthy, HealthTransition::Healthy);
        }
        // It may need that long to come up; one that was up is past it.
        if since_start < self.start_period && self.health == Health::Starting {
            return HealthTransition::Unchanged;
        }
        self.failures += 1;
        match self.failures >= self.retries {
            true => self.become_it(Health::Unhealthy, HealthTransition::Unhealthy),
            false => HealthTransition::Unchanged,
        }
    }

    fn become_it(&mut self, health: Health, verdict: HealthTransition) -> HealthTransition {
        match std::mem::replace(&mut self.health, health) == health {
            true => HealthTransition::Unchanged,
            false => verdict,
        }
    }
}

async fn ask(pod: &PodRef, probe: &Probe) -> Result<(), String> {
    let record = pod.record();
    let ip = match (record.spec.network, record.allocated.address) {
        (PodNetwork::Bridge, Some(address)) => IpAddr::V4(address),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    match probe {
        Probe::Tcp { port } => TcpStream::connect((ip, *port))
            .await
            .map(drop)
            .map_err(|error| format!("port {port}: {error}")),
        Probe::Http { port, path } => match http::status((ip, *port).into(), path).await {
            Ok(200..=399) => Ok(()),
            Ok(status) => Err(format!(
                "GET {path} on port {port} was answered with {status}"
            )),
            Err(error) => Err(format!("GET {path} on port {port}: {error}")),
        },
        Probe::Exec(words) => probe_in_cell(pod, words).await,
    }
}

async fn probe_in_cell(pod: &PodRef, words: &[String]) -> Result<(), String> {
    let command = CommandLine::try_from(words.to_vec()).map_err(|error| error.to_string())?;
    let request = ExecRequest {
        command,
        environment: Vec::new(),
        user: None,
        working_directory: None,
        terminal: None,
        stdin: false,
    };
    let (handle, streams) = exec(pod, request)
        .await
        .map_err(|error| error.to_string())?;
    let ending = ProbeGuard(Some(handle)).run(streams).await;
    match ending {
        Some(Ending::Code(0)) => Ok(()),
        Some(ending) => Err(format!("{:?}: {ending}", words.join(" "))),
        None => Err("its end was not seen".into()),
    }
}

/// Ensures that a probe that is given up on does not stay.
struct ProbeGuard(Option<super::ExecHandle>);

impl ProbeGuard {
    async fn run(self, streams: ExecStreams) -> Option<Ending> {
        if let ExecStreams::Pipes {
            mut stdout,
            mut stderr,
            ..
        } = streams
        {
            // Its output has no reader, but the process must not block on it.
            let (mut nowhere, mut nothing) = (tokio::io::sink(), tokio::io::sink());
            let _ = tokio::join!(
                tokio::io::copy(&mut stdout, &mut nowhere),
                tokio::io::copy(&mut stderr, &mut nothing),
            );
        }
        self.0.as_ref()?.ended().await.ending
    }
}

impl Drop for ProbeGuard {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            spawn_detached("probe-close", handle.close());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(retries: u32, start_period: u64) -> ProbeTally {
        let mut check = HealthCheck::with(Probe::Tcp { port: 1 });
        check.retries = retries;
        check.start_period = Duration::from_secs(start_period);
        check.interval = Duration::ZERO;
        ProbeTally::new(&check)
    }

    fn count(tally: &mut ProbeTally, well: bool, at: u64) -> HealthTransition {
        let answer = if well { Ok(()) } else { Err(String::new()) };
        tally.count(&answer, Duration::from_secs(at))
    }

    #[test]
    fn failures_in_a_row_count_and_a_good_answer_forgives() {
        let mut tally = tally(2, 0);
        assert_eq!(count(&mut tally, false, 1), HealthTransition::Unchanged);
        assert_eq!(count(&mut tally, true, 2), HealthTransition::Healthy);
        assert_eq!(count(&mut tally, true, 3), HealthTransition::Unchanged);
        assert_eq!(count(&mut tally, false, 4), HealthTransition::Unchanged);
        assert_eq!(count(&mut tally, true, 5), HealthTransition::Unchanged);
        assert_eq!(count(&mut tally, false, 6), HealthTransition::Unchanged);
        assert_eq!(count(&mut tally, false, 7), HealthTransition::Unhealthy);
        assert_eq!(count(&mut tally, false, 8), HealthTransition::Unchanged);
    }

    #[test]
    fn slow_start_is_tolerated_within_the_start_period() {
        let mut tally = tally(1, 10);
        assert_eq!(count(&mut tally, false, 9), HealthTransition::Unchanged);
        assert_eq!(count(&mut tally, true, 9), HealthTransition::Healthy);
        // It was up: no more grace.
        assert_eq!(count(&mut tally, false, 9), HealthTransition::Unhealthy);
    }
}
