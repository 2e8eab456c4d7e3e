//! What an operation must have to itself while it runs.
//!
//! A claim is a name, such as `machine/m1`, that means nothing here but that
//! two operations with the same one may be in each other's way. An operation
//! takes all its claims at once when it becomes active and gives them back
//! when it has ended and nothing of it is left, so none ever waits with some
//! of its claims in hand: there is no deadlock.

use serde::{Deserialize, Serialize};

/// Whether others may have the claim too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// No other operation.
    Exclusive,
    Shared,
}

/// A name that an operation holds while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub key: String,
    pub mode: Mode,
}

impl Claim {
    /// To have for oneself.
    pub fn exclusive(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            mode: Mode::Exclusive,
        }
    }

    /// To have beside others that share it.
    pub fn shared(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            mode: Mode::Shared,
        }
    }

    /// Whether both cannot be held at once.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.key == other.key && (self.mode == Mode::Exclusive || other.mode == Mode::Exclusive)
    }
}

/// Whether any of these cannot be held beside any of those.
pub(crate) fn conflict(these: &[Claim], those: &[Claim]) -> bool {
    these
        .iter()
        .any(|this| those.iter().any(|that| this.conflicts_with(that)))
}

#[cfg(test)]
mod tests {
    use super::{Claim, conflict};

    #[test]
    fn shared_claims_of_one_key_do_not_conflict() {
        let shared = [Claim::shared("a")];
        let exclusive = [Claim::exclusive("a")];
        assert!(!conflict(&shared, &shared));
        assert!(conflict(&shared, &exclusive));
        assert!(conflict(&exclusive, &exclusive));
        assert!(!conflict(&exclusive, &[Claim::exclusive("b")]));
    }
}
