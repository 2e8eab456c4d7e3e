//! Finds a server and stays with it: each in turn until one answers, slower
//! and slower while none does.

use std::time::Duration;

use strata_client::{Address, Error, ServerClient, Target};

use super::Parts;
use super::follow::{Ended, follow};
use crate::clock::now_ns;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
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
        tokio::select! {
            () = parts.closing.cancelled() => return,
            () = tokio::time::sleep(pauses.next(known.len(), most)) => {}
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
        Ok(client) => follow(parts, &client).await,
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
#[derive(Default)]
struct Pauses {
    tries: usize,
}

impl Pauses {
    /// Each server is tried once before any wait grows. Nodes that lost the
    /// same server do not all come back at the same moment.
    fn next(&mut self, servers: usize, most: Duration) -> Duration {
        let rounds = self.tries / servers.max(1);
        self.tries += 1;
        let doubled = 1u32 << rounds.min(10);
        let longest = FIRST_PAUSE.saturating_mul(doubled).min(most);
        let spread = u32::try_from(now_ns() % 1000).unwrap_or(0);
        longest * 3 / 4 + longest * spread / 4000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_for_each_round_up_to_a_bound() {
        let mut pauses = Pauses::default();
        let all: Vec<_> = (0..40).map(|_| pauses.next(2, LONGEST_PAUSE)).collect();
        for (n, longest) in [(0, 200), (1, 200), (2, 400), (5, 800), (39, 5000)] {
            let longest = Duration::from_millis(longest);
            assert!(
                all[n] <= longest && all[n] >= longest * 3 / 4,
                "{n}: {:?}",
                all[n]
            );
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
