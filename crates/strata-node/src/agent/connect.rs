//! Finds a server and stays with it: each in turn until one answers, slower
//! and slower while none does.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use strata_client::{Address, Error};

use super::AgentContext;
use super::follow::{SessionEnd, follow};

/// How long a server may take to take a connection, at most.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// What each other node adds to the first pause.
const SPREAD_PER_PEER: Duration = Duration::from_micros(250);
/// A server that comes back gives its nodes a lease's time to find it.
const ATTEMPTS_PER_LEASE: u32 = 4;

/// Follows one server after the other until the node ends.
pub(super) async fn run(context: &AgentContext) {
    let mut pauses = ReconnectBackoff::default();
    let mut complaint = String::new();
    let mut turn = 0;
    let mut redirected = None;
    while !context.closing.is_cancelled() {
        let known = context.known_servers();
        let server = redirected
            .take()
            .unwrap_or_else(|| known[turn % known.len()].clone());
        turn += 1;
        let ended = tokio::select! {
            () = context.closing.cancelled() => return,
            ended = run_session(context, &server) => ended,
        };
        let why = match ended {
            SessionEnd::Closing => return,
            // The same server again: it is the one that answers.
            SessionEnd::Renewed => {
                redirected = Some(server);
                continue;
            }
            SessionEnd::Redirected(leader) => {
                let why = format!("{server} says that {leader} leads");
                redirected = Some(leader);
                why
            }
            SessionEnd::Lost(error) => {
                pauses = ReconnectBackoff::default();
                tracing::warn!(%server, error = error.map(|e| e.to_string()), "connection to the server lost");
                complaint.clear();
                String::new()
            }
            SessionEnd::NotWelcome(error) => error.to_string(),
        };
        // Once for each reason, not once for each try.
        if !why.is_empty() && why != complaint {
            tracing::warn!(why, "no server followed");
            complaint = why;
        }
        let most = longest(context.liveness.lease());
        let peers = context.host.network().peer_count();
        tokio::select! {
            () = context.closing.cancelled() => return,
            () = tokio::time::sleep(pauses.next(known.len(), peers, most)) => {}
        }
    }
}

/// Connects to a server and follows it.
async fn run_session(context: &AgentContext, server: &Address) -> SessionEnd {
    let tried_at = context.liveness.now();
    let within = context.liveness.connect_timeout(CONNECT_TIMEOUT);
    match context.uplink.connect(server, within).await {
        Ok(connection) => follow(context, &connection).await,
        Err(error) => {
            if matches!(error, Error::Connect { refused: true, .. }) {
                let known = context.known_servers().len();
                let address = server.to_string();
                context.liveness.refused(&address, known, tried_at);
            }
            SessionEnd::NotWelcome(error)
        }
    }
}

/// How long a pause may be for a node with this lease; zero is a lease that was
/// never received.
fn longest(lease: Duration) -> Duration {
    match lease {
        Duration::ZERO => MAX_BACKOFF,
        lease => MAX_BACKOFF.min(lease / ATTEMPTS_PER_LEASE),
    }
}

/// How long to wait before the next try.
struct ReconnectBackoff {
    tries: usize,
    chance: RandomState,
}

impl Default for ReconnectBackoff {
    fn default() -> Self {
        Self {
            tries: 0,
            chance: RandomState::new(),
        }
    }
}

impl ReconnectBackoff {
    /// Each server is tried once before any wait grows. Nodes that lost the same
    /// server spread over the whole of the wait, which is longer from the
    /// beginning where there are many of them: a server takes a few thousand
    /// handshakes in a second, and not all at the same moment.
    fn next(&mut self, servers: usize, peers: usize, most: Duration) -> Duration {
        let rounds = self.tries / servers.max(1);
        self.tries += 1;
        let doubled = 1u32 << rounds.min(10);
        let many = SPREAD_PER_PEER.saturating_mul(u32::try_from(peers).unwrap_or(u32::MAX));
        let longest = MIN_BACKOFF.saturating_mul(doubled).max(many).min(most);
        let chance = self.chance.hash_one(self.tries) % 1001;
        longest * u32::try_from(chance).unwrap_or(0) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest and the mean of the first pauses of many nodes.
    fn spread(tries: usize, peers: usize) -> (Duration, Duration) {
        let nodes = 2000u32;
        let pauses = (0..nodes).map(|_| {
            let mut pauses = ReconnectBackoff {
                tries,
                ..ReconnectBackoff::default()
            };
            pauses.next(2, peers, MAX_BACKOFF)
        });
        let all: Vec<Duration> = pauses.collect();
        (
            *all.iter().max().unwrap(),
            all.iter().sum::<Duration>() / nodes,
        )
    }

    #[test]
    fn pauses_double_for_each_round_up_to_a_bound_and_are_spread_over_all_of_it() {
        for (tries, peers, longest) in [
            (0, 2, 200),
            (1, 2, 200),
            (2, 2, 400),
            (5, 2, 800),
            (39, 2, 5000),
            (0, 8000, 2000),
            (0, 100_000, 5000),
        ] {
            let (longest, (most, mean)) = (Duration::from_millis(longest), spread(tries, peers));
            assert!(
                most <= longest && most > longest * 9 / 10,
                "{tries}: {most:?}"
            );
            let middle = longest * 4 / 10..longest * 6 / 10;
            assert!(middle.contains(&mean), "{tries}: {mean:?}");
        }
    }

    #[test]
    fn a_server_that_comes_back_is_found_well_within_the_lease() {
        let seconds = Duration::from_secs;
        assert_eq!(longest(Duration::ZERO), seconds(5));
        assert_eq!(longest(seconds(3)), Duration::from_millis(750));
        assert_eq!(longest(seconds(60)), seconds(5));
    }
}
