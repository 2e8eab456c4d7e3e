//! Finds a server and stays with it: each in turn until one answers, slower
//! and slower while none does.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use strata_client::{Address, Error, ServerClient, Target};

use super::Parts;
use super::follow::{Ended, follow};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// What each other node adds to the first pause.
const SPREAD_PER_PEER: Duration = Duration::from_micros(250);
/// More servers than that are not remembered.
const MOST_SERVERS: usize = 16;
/// A server that comes back gives its nodes a lease's time to find it.
const PAUSES_IN_A_LEASE: u32 = 4;

/// Follows one server after the other until the node ends.
pub(super) async fn run(parts: &Parts) {
    let mut pauses = Pauses::default();
    let mut complaint = String::new();
    let mut turn = 0;
    let mut redirected = None;
    while !parts.closing.is_cancelled() {
        let known = known_servers(parts);
        let server = redirected
            .take()
            .unwrap_or_else(|| known[turn % known.len()].clone());
        turn += 1;
        let ended = tokio::select! {
            () = parts.closing.cancelled() => return,
            ended = converse(parts, &server) => ended,
        };
        let why = match ended {
            Ended::Closing => return,
            // The same server again: it is the one that answers.
            Ended::Renewed => {
                redirected = Some(server);
                continue;
            }
            Ended::Redirected(leader) => {
                let why = format!("{server} says that {leader} leads");
                redirected = Some(leader);
                why
            }
            Ended::Lost(error) => {
                pauses = Pauses::default();
                tracing::warn!(%server, error = error.map(|e| e.to_string()), "lost the server");
                complaint.clear();
                String::new()
            }
            Ended::NotWelcome(error) => error.to_string(),
        };
        // Once for each reason, not once for each try.
        if !why.is_empty() && why != complaint {
            tracing::warn!(why, "no server is followed");
            complaint = why;
        }
        let most = longest(parts.liveness.lease());
        let peers = parts.node.network.peer_count();
        tokio::select! {
            () = parts.closing.cancelled() => return,
            () = tokio::time::sleep(pauses.next(known.len(), peers, most)) => {}
        }
    }
}

/// Those of the configuration, then those that a server named.
fn known_servers(parts: &Parts) -> Vec<Address> {
    let mut known = parts.config.servers.clone();
    let (named, _) = parts.liveness.servers();
    for server in named.iter().filter_map(|text| text.parse().ok()) {
        if !known.contains(&server) && known.len() < MOST_SERVERS {
            known.push(server);
        }
    }
    known
}

/// Connects to a server and follows it.
async fn converse(parts: &Parts, server: &Address) -> Ended {
    let target = Target::Live {
        address: server.clone(),
        ca_pem: parts.config.trust.pem(),
        identity: parts.config.identity.clone(),
    };
    let tried_at = parts.liveness.now();
    match ServerClient::connect(&target).await {
        Ok(client) => {
            parts.node.images.follow_server(Some(target));
            follow(parts, &client).await
        }
        Err(error) => {
            if matches!(error, Error::Connect { refused: true, .. }) {
                parts.liveness.refused(tried_at);
            }
            Ended::NotWelcome(error)
        }
    }
}

/// How long a pause may be for a node with this lease; none was ever told when
/// zero.
fn longest(lease: Duration) -> Duration {
    match lease {
        Duration::ZERO => LONGEST_PAUSE,
        lease => LONGEST_PAUSE.min(lease / PAUSES_IN_A_LEASE),
    }
}

/// How long to wait before the next try.
struct Pauses {
    tries: usize,
    chance: RandomState,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            tries: 0,
            chance: RandomState::new(),
        }
    }
}

impl Pauses {
    /// Each server is tried once before any wait grows. Nodes that lost the same
    /// server spread over the whole of the wait, which is longer from the
    /// beginning where there are many of them: a server takes a few thousand
    /// handshakes in a second, and not all at the same moment.
    fn next(&mut self, servers: usize, peers: usize, most: Duration) -> Duration {
        let rounds = self.tries / servers.max(1);
        self.tries += 1;
        let doubled = 1u32 << rounds.min(10);
        let many = SPREAD_PER_PEER.saturating_mul(u32::try_from(peers).unwrap_or(u32::MAX));
        let longest = FIRST_PAUSE.saturating_mul(doubled).max(many).min(most);
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
            let mut pauses = Pauses {
                tries,
                ..Pauses::default()
            };
            pauses.next(2, peers, LONGEST_PAUSE)
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
