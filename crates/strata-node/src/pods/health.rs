//! Asks a pod again and again whether it works, and tells when that changes.
//! One that does not is ended, and its restart policy says what follows.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use strata_types::pod::{HealthCheck, PodNetwork, Probe};
use strata_types::{CommandLine, Ending};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::exec::{ExecRequest, Streams, exec};
use super::{PodRef, http, plan};
use crate::cells::Executable;
use crate::units::Health;

/// Before the first question.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Watches over a pod until its process ends.
pub(super) fn watch(pod: PodRef, main: Arc<Executable>) {
    let record = pod.record();
    if let Some(check) = plan::health(&record.spec, &record.made.config) {
        pod.note(|view| view.health = Health::Starting);
        tokio::spawn(async move {
            tokio::select! {
                _ = main.ended() => {}
                () = ask_again(&pod, &main, &check) => {}
            }
        });
    }
}

async fn ask_again(pod: &PodRef, main: &Arc<Executable>, check: &HealthCheck) {
    let begun = Instant::now();
    let mut tally = Tally::new(check);
    // Asked often at first, so that one that works is soon known to.
    let mut pause = FIRST_PAUSE.min(check.interval);
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
            Verdict::Unchanged => {}
            Verdict::Healthy => {
                pod.note(|view| view.health = Health::Healthy);
                pod.tell("healthy");
            }
            Verdict::Unhealthy => {
                pod.note(|view| view.health = Health::Unhealthy);
                let why = answer.err().unwrap_or_default();
                pod.give_up(main, &format!("unhealthy: {why}")).await;
            }
        }
    }
}

/// What an answer changes.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Unchanged,
    Healthy,
    Unhealthy,
}

/// Counts answers; pure.
struct Tally {
    retries: u32,
    start_period: Duration,
    failures: u32,
    health: Health,
}

impl Tally {
    fn new(check: &HealthCheck) -> Self {
        Self {
            retries: check.retries,
            // Nor do failures in the first interval, when it is asked more often.
            start_period: check.start_period.max(check.interval),
            failures: 0,
            health: Health::Starting,
        }
    }

    fn count(&mut self, answer: &Result<(), String>, since_start: Duration) -> Verdict {
        if answer.is_ok() {
            self.failures = 0;
            return self.become_it(Health::Healthy, Verdict::Healthy);
        }
        // It may need that long to come up; one that was up is past it.
        if since_start < self.start_period && self.health == Health::Starting {
            return Verdict::Unchanged;
        }
        self.failures += 1;
        match self.failures >= self.retries {
            true => self.become_it(Health::Unhealthy, Verdict::Unhealthy),
            false => Verdict::Unchanged,
        }
    }

    fn become_it(&mut self, health: Health, verdict: Verdict) -> Verdict {
        match std::mem::replace(&mut self.health, health) == health {
            true => Verdict::Unchanged,
            false => verdict,
        }
    }
}

async fn ask(pod: &PodRef, probe: &Probe) -> Result<(), String> {
    let record = pod.record();
    let ip = match (record.spec.network, record.made.address) {
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
        Probe::Exec(words) => ask_inside(pod, words).await,
    }
}

async fn ask_inside(pod: &PodRef, words: &[String]) -> Result<(), String> {
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
    let ending = Guarded(Some(handle)).run(streams).await;
    match ending {
        Some(Ending::Code(0)) => Ok(()),
        Some(ending) => Err(format!("{:?}: {ending}", words.join(" "))),
        None => Err("its end was not seen".into()),
    }
}

/// Sees to it that a probe that is given up on does not stay.
struct Guarded(Option<super::ExecHandle>);

impl Guarded {
    async fn run(self, streams: Streams) -> Option<Ending> {
        if let Streams::Pipes {
            mut stdout,
            mut stderr,
            ..
        } = streams
        {
            // Nobody reads what it says, but it must not get stuck on it.
            let (mut nowhere, mut nothing) = (tokio::io::sink(), tokio::io::sink());
            let _ = tokio::join!(
                tokio::io::copy(&mut stdout, &mut nowhere),
                tokio::io::copy(&mut stderr, &mut nothing),
            );
        }
        self.0.as_ref()?.ended().await.ending
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            tokio::spawn(handle.close());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(retries: u32, start_period: u64) -> Tally {
        let mut check = HealthCheck::with(Probe::Tcp { port: 1 });
        check.retries = retries;
        check.start_period = Duration::from_secs(start_period);
        check.interval = Duration::ZERO;
        Tally::new(&check)
    }

    fn count(tally: &mut Tally, well: bool, at: u64) -> Verdict {
        let answer = if well { Ok(()) } else { Err(String::new()) };
        tally.count(&answer, Duration::from_secs(at))
    }

    #[test]
    fn failures_in_a_row_count_and_a_good_answer_forgives() {
        let mut tally = tally(2, 0);
        assert_eq!(count(&mut tally, false, 1), Verdict::Unchanged);
        assert_eq!(count(&mut tally, true, 2), Verdict::Healthy);
        assert_eq!(count(&mut tally, true, 3), Verdict::Unchanged);
        assert_eq!(count(&mut tally, false, 4), Verdict::Unchanged);
        assert_eq!(count(&mut tally, true, 5), Verdict::Unchanged);
        assert_eq!(count(&mut tally, false, 6), Verdict::Unchanged);
        assert_eq!(count(&mut tally, false, 7), Verdict::Unhealthy);
        assert_eq!(count(&mut tally, false, 8), Verdict::Unchanged);
    }

    #[test]
    fn one_that_comes_up_slowly_is_given_its_time() {
        let mut tally = tally(1, 10);
        assert_eq!(count(&mut tally, false, 9), Verdict::Unchanged);
        assert_eq!(count(&mut tally, true, 9), Verdict::Healthy);
        // It was up: no more patience.
        assert_eq!(count(&mut tally, false, 9), Verdict::Unhealthy);
    }
}
