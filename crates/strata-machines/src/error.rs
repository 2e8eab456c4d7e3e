//! Why a provider could not do what was requested, by what to do about it.

/// Why a provider could not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// It did not answer, or not yet: later it may.
    #[error("{0}")]
    Unavailable(String),
    /// It knows no such machine.
    #[error("{0}")]
    NoSuchMachine(String),
    /// The machine belongs to another caller.
    #[error("{0}")]
    Taken(String),
    /// It will not do this, however often it is requested.
    #[error("{0}")]
    Refused(String),
    /// The driver cannot do this at all.
    #[error("{0}")]
    Unsupported(String),
}

impl ProviderError {
    /// Whether trying again may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}
