//! Which version of Kubernetes may follow which, and which may be together.
//!
//! The rules are Kubernetes' own: an API server goes up, one minor version at
//! a time; a kubelet is never newer than the API server, and at most three
//! minor versions older. So an upgrade begins with the control plane, one
//! machine at a time, and the workers follow.

use strata_types::cluster::{ClusterRole, KubernetesVersion, Member};

/// How many minor versions a kubelet may be behind.
const MAX_SKEW: u16 = 3;

/// Why a version may not follow, or not be together with another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkewError {
    /// It has it already.
    #[error("the control plane has {0} already")]
    Same(KubernetesVersion),
    /// Older than what there is.
    #[error("{to} is older than {from}; a control plane never goes back to an older version")]
    Back {
        /// The version it starts from.
        from: KubernetesVersion,
        to: KubernetesVersion,
    },
    /// More than one minor version at once.
    #[error("{to} is more than one minor version after {from}; go to v{}.{} first", from.major, from.minor.saturating_add(1))]
    Skips {
        /// The version it starts from.
        from: KubernetesVersion,
        to: KubernetesVersion,
    },
    /// Another Kubernetes altogether.
    #[error("{to} is another major version than {from}; there is no way from one to the other")]
    Major {
        /// The version it starts from.
        from: KubernetesVersion,
        to: KubernetesVersion,
    },
    /// A kubelet that is newer than the API server.
    #[error("a kubelet of {kubelet} is newer than the API server, which has {server}")]
    KubeletNewer {
        kubelet: KubernetesVersion,
        /// Of the API server.
        server: KubernetesVersion,
    },
    /// A kubelet that is too old.
    #[error(
        "a kubelet of {kubelet} is more than {MAX_SKEW} minor versions older than an API server of {server}; bring the workers up first"
    )]
    KubeletTooOld {
        kubelet: KubernetesVersion,
        /// Of the API server.
        server: KubernetesVersion,
    },
}

/// Whether a control plane may go from one version to another.
pub fn may_upgrade(from: KubernetesVersion, to: KubernetesVersion) -> Result<(), SkewError> {
    if from == to {
        return Err(SkewError::Same(from));
    }
    if from.major != to.major {
        return Err(SkewError::Major { from, to });
    }
    if to < from {
        return Err(SkewError::Back { from, to });
    }
    match to.minor - from.minor {
        0 | 1 => Ok(()),
        _ => Err(SkewError::Skips { from, to }),
    }
}

/// Whether a kubelet may be in a cluster with this API server.
pub fn may_join(kubelet: KubernetesVersion, server: KubernetesVersion) -> Result<(), SkewError> {
    if kubelet > server {
        return Err(SkewError::KubeletNewer { kubelet, server });
    }
    if kubelet.major != server.major || server.minor - kubelet.minor > MAX_SKEW {
        return Err(SkewError::KubeletTooOld { kubelet, server });
    }
    Ok(())
}

/// Whether a whole cluster may go there: its control plane, and with the
/// oldest kubelet that it has.
pub fn may_go(
    current: KubernetesVersion,
    oldest_kubelet: KubernetesVersion,
    to: KubernetesVersion,
) -> Result<(), SkewError> {
    may_upgrade(current, to)?;
    may_join(oldest_kubelet, to)
}

/// The versions of `available` that can be reached now, the oldest first.
pub fn targets(
    current: KubernetesVersion,
    oldest_kubelet: KubernetesVersion,
    available: &[KubernetesVersion],
) -> Vec<KubernetesVersion> {
    let all = available.iter().copied();
    let mut reached: Vec<_> = all
        .filter(|to| may_go(current, oldest_kubelet, *to).is_ok())
        .collect();
    reached.sort_unstable();
    reached.dedup();
    reached
}

/// The oldest version among the joined members; none without any.
pub fn oldest(members: &[Member]) -> Option<KubernetesVersion> {
    let joined = members.iter().filter(|member| member.joined);
    joined.map(|member| member.version).min()
}

/// The joined members in the order in which they are upgraded: the control
/// plane by number, then the workers, pool after pool, by number.
///
/// It does not depend on the members' versions: an operation that goes on after
/// a stop finds the same order, and the same first one.
pub fn order(members: &[Member]) -> Vec<&Member> {
    let mut turn: Vec<_> = members.iter().filter(|member| member.joined).collect();
    turn.sort_by_key(|member| match member.role {
        ClusterRole::ControlPlane => (0, "", member.number),
        ClusterRole::Worker => (1, member.pool.as_str(), member.number),
    });
    turn
}
