//! Where a cell is, with the moments that no caller sees: a cell that is
//! being made is reserved but not shown, one that is gone is only waited for.

use std::sync::Arc;

use strata_types::CellState;

/// The state of a cell, and the two ends of its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Allocating,
    /// Executables can be started.
    Ready,
    /// Its init died; why.
    Dead(Arc<str>),
    /// On its way out.
    Freeing,
    /// No more, or never came to be.
    Gone,
}

impl Phase {
    /// What callers are shown.
    pub(crate) fn state(&self) -> CellState {
        match self {
            Self::Allocating | Self::Ready => CellState::Ready,
            Self::Dead(_) => CellState::Dead,
            Self::Freeing | Self::Gone => CellState::Freeing,
        }
    }

    /// Whether a cell may go from this phase to `next`.
    pub(crate) fn may_become(&self, next: &Self) -> bool {
        match (self, next) {
            (Self::Allocating, Self::Ready | Self::Gone) | (Self::Freeing, Self::Gone) => true,
            (Self::Allocating | Self::Freeing | Self::Gone, _)
            | (_, Self::Allocating | Self::Gone) => false,
            _ => self.state().may_become(next.state()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_legal_steps_are_taken() {
        let dead = || Phase::Dead("why".into());
        for (from, to) in [
            (Phase::Allocating, Phase::Ready),
            (Phase::Allocating, Phase::Gone),
            (Phase::Ready, dead()),
            (Phase::Ready, Phase::Freeing),
            (dead(), Phase::Ready),
            (dead(), Phase::Freeing),
            (Phase::Freeing, Phase::Gone),
        ] {
            assert!(from.may_become(&to), "{from:?} {to:?}");
        }
        for (from, to) in [
            (Phase::Freeing, Phase::Ready),
            (Phase::Freeing, dead()),
            (Phase::Gone, Phase::Ready),
            (Phase::Ready, Phase::Gone),
            (Phase::Ready, Phase::Ready),
            (Phase::Allocating, Phase::Freeing),
        ] {
            assert!(!from.may_become(&to), "{from:?} {to:?}");
        }
    }
}
