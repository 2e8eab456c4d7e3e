//! Why a step failed, by what the engine does about it.

use std::error::Error;

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// It may work later: the step is tried again, as its retry says.
    #[error("{message}")]
    Transient {
        /// The message, for people.
        message: String,
    },
    /// It will not work: what was done is undone.
    #[error("{message}")]
    Permanent {
        /// The message, for people.
        message: String,
    },
    /// The step saw at a safe point that the operation is to be cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl StepError {
    /// It may work later.
    pub fn transient(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Transient {
            message: chain(error.into().as_ref()),
        }
    }

    /// It will not work.
    pub fn permanent(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Permanent {
            message: chain(error.into().as_ref()),
        }
    }
}

/// The error and what caused it, in one line. A cause that its error quotes
/// already is not repeated.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
