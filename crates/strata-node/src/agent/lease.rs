//! How long a node goes on without a server.
//!
//! A server that receives nothing from a node for the length of the lease
//! starts the node's instances elsewhere. So that nothing runs twice, the node
//! has stopped them by then: the daemon begins after three quarters of the
//! lease, and an eighth later the shim kills what is left, with or without the
//! daemon. The last eighth is for the killing itself and for clocks that
//! differ.

use std::time::Duration;

use strata_cell::Lease;

/// What a node knows of its servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerContact {
    /// None was ever granted when zero.
    pub(super) lease: Duration,
    /// When the last message was sent that a server answered.
    pub(super) heard_at: Duration,
    /// It was promised that nothing is started elsewhere.
    pub(super) waived: bool,
}

/// How long the silence may be.
pub(super) fn max_wait(lease: Duration) -> Duration {
    lease * 3 / 4
}

/// How long an instance may take to end when the lease is about to end.
pub(super) fn grace(lease: Duration) -> Duration {
    lease / 8
}

/// Whether the node's instances may be started elsewhere soon, so that they
/// must end here.
pub(super) fn must_stop(contact: &ServerContact, now: Duration) -> bool {
    let silence = now.saturating_sub(contact.heard_at);
    !contact.lease.is_zero() && !contact.waived && silence >= max_wait(contact.lease)
}

/// Until when they may run, whatever becomes of the daemon.
pub(super) fn deadline(contact: &ServerContact) -> Lease {
    match contact {
        ServerContact { waived: true, .. } => Lease::Waived,
        ServerContact { lease, .. } if lease.is_zero() => Lease::Unset,
        ServerContact {
            lease, heard_at, ..
        } => Lease::Until(*heard_at + max_wait(*lease) + grace(*lease)),
    }
}

/// When a server last answered, according to the lease that ends then.
pub(super) fn heard_at(deadline: Duration, lease: Duration) -> Duration {
    deadline.saturating_sub(max_wait(lease) + grace(lease))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);
    const NOW: Duration = Duration::from_secs(1000);

    /// Silent for so long, with a lease that holds.
    fn silent(seconds: u64) -> ServerContact {
        ServerContact {
            lease: LEASE,
            heard_at: NOW - Duration::from_secs(seconds),
            waived: false,
        }
    }

    #[test]
    fn instances_stop_when_the_lease_is_nearly_over_and_was_not_waived() {
        let without = |seconds| ServerContact {
            lease: Duration::ZERO,
            ..silent(seconds)
        };
        let waived = |seconds| ServerContact {
            waived: true,
            ..silent(seconds)
        };
        let table = [
            ("answered just now", silent(0), false),
            ("not nearly over", silent(7), false),
            ("nearly over", silent(8), true),
            ("long over", silent(60), true),
            ("never granted", without(60), false),
            ("waived", waived(60), false),
        ];
        for (what, contact, stops) in table {
            assert_eq!(must_stop(&contact, NOW), stops, "{what}");
        }
    }

    #[test]
    fn the_shim_kills_after_the_grace_period_and_before_the_lease_ends() {
        let Lease::Until(end) = deadline(&silent(0)) else {
            panic!("it has no end");
        };
        assert!(end >= NOW + max_wait(LEASE) + grace(LEASE));
        assert!(end < NOW + LEASE);
        assert_eq!(heard_at(end, LEASE), NOW);
        let waived = ServerContact {
            waived: true,
            ..silent(60)
        };
        assert_eq!(deadline(&waived), Lease::Waived);
    }
}
