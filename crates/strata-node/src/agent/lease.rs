//! How long a node goes on without a server.
//!
//! A server that hears nothing of a node for the length of the lease starts
//! the node's instances elsewhere. So that nothing runs twice, the node has
//! stopped them by then: it begins after three quarters of the lease, and what
//! does not end by itself is killed an eighth of it later.

use std::time::Duration;

/// What became of the tries to reach a server since the last one answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tries {
    /// None was made.
    #[default]
    None,
    /// Each machine said that nobody listens there.
    Refused,
    /// At least one led to no such clear word.
    Unclear,
}

impl Tries {
    /// After one more.
    #[must_use]
    pub(super) fn and(self, refused: bool) -> Self {
        match (self, refused) {
            (Self::None | Self::Refused, true) => Self::Refused,
            _ => Self::Unclear,
        }
    }
}

/// What a node knows of its servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contact {
    /// None was ever told when zero.
    pub(super) lease: Duration,
    /// Since it last said something that a server answered.
    pub(super) silence: Duration,
    /// There are other nodes.
    pub(super) peers: bool,
    /// The last server said that it ends on purpose.
    pub(super) farewell: bool,
    /// There is one server and no other.
    pub(super) alone: bool,
    pub(super) tries: Tries,
}

/// How long the silence may be.
pub(super) fn patience(lease: Duration) -> Duration {
    lease * 3 / 4
}

/// How long an instance may take to end when the patience is over.
pub(super) fn grace(lease: Duration) -> Duration {
    lease / 8
}

/// Whether the node's instances may be started elsewhere soon, so that they
/// must end here.
pub(super) fn must_stop(contact: &Contact) -> bool {
    let over = !contact.lease.is_zero() && contact.silence >= patience(contact.lease);
    // Nobody is there who could start anything: the only server is down, as
    // the machine it was on says itself.
    let nobody = contact.alone && contact.tries == Tries::Refused;
    over && contact.peers && !contact.farewell && !nobody
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    /// Silent for so long, with peers, no farewell, several servers, no try.
    fn silent(seconds: u64) -> Contact {
        Contact {
            lease: LEASE,
            silence: Duration::from_secs(seconds),
            peers: true,
            farewell: false,
            alone: false,
            tries: Tries::None,
        }
    }

    #[test]
    fn the_table() {
        let long = silent(60);
        let table = [
            ("a beat came just now", silent(0), false),
            ("the lease is not nearly over", silent(7), false),
            ("it is nearly over", silent(8), true),
            ("long over", long, true),
            (
                "no lease was ever told",
                Contact {
                    lease: Duration::ZERO,
                    ..long
                },
                false,
            ),
            (
                "there is no other node",
                Contact {
                    peers: false,
                    ..long
                },
                false,
            ),
            (
                "the server said farewell",
                Contact {
                    farewell: true,
                    ..long
                },
                false,
            ),
            (
                "it hangs, and is the only one",
                Contact {
                    alone: true,
                    ..long
                },
                true,
            ),
            (
                "the only one, and its machine says that it is down",
                Contact {
                    alone: true,
                    tries: Tries::Refused,
                    ..long
                },
                false,
            ),
            (
                "the only one, and no answer comes back",
                Contact {
                    alone: true,
                    tries: Tries::Unclear,
                    ..long
                },
                true,
            ),
            (
                "one of several is down",
                Contact {
                    tries: Tries::Refused,
                    ..long
                },
                true,
            ),
        ];
        for (what, contact, stops) in table {
            assert_eq!(must_stop(&contact), stops, "{what}");
        }
    }

    #[test]
    fn one_unclear_try_is_enough_for_doubt() {
        assert_eq!(Tries::None.and(true).and(true), Tries::Refused);
        assert_eq!(Tries::None.and(true).and(false).and(true), Tries::Unclear);
        assert_eq!(Tries::None.and(false), Tries::Unclear);
    }

    #[test]
    fn all_is_over_before_the_lease_is() {
        assert!(patience(LEASE) + grace(LEASE) < LEASE);
    }
}
