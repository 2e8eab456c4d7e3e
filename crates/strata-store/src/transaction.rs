//! What is to be written, and what must hold for it.

use bytes::Bytes;

use crate::{LeaseId, Revision};

/// What must hold for a transaction to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// There is no such key.
    Absent(String),
    /// The key was last written at this revision.
    Unchanged(String, Revision),
}

impl Condition {
    /// The key it is about.
    pub fn key(&self) -> &str {
        match self {
            Self::Absent(key) | Self::Unchanged(key, _) => key,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Put {
        key: String,
        value: Bytes,
        /// Gone with this lease.
        lease: Option<LeaseId>,
    },
    /// Deletes a key, if it is there.
    Delete { key: String },
}

impl Write {
    /// The key it is about.
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// All of the writes, if all of the conditions hold; nothing otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub conditions: Vec<Condition>,
    /// What is written. No key twice.
    pub writes: Vec<Write>,
}

impl Transaction {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only if there is no such key.
    #[must_use]
    pub fn if_absent(mut self, key: impl Into<String>) -> Self {
        self.conditions.push(Condition::Absent(key.into()));
        self
    }

    /// Only if the key was last written at `revision`.
    #[must_use]
    pub fn if_unchanged(mut self, key: impl Into<String>, revision: Revision) -> Self {
        self.conditions
            .push(Condition::Unchanged(key.into(), revision));
        self
    }

    #[must_use]
    pub fn put(self, key: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.put_with(key, value, None)
    }

    /// Writes a value that goes with a lease.
    #[must_use]
    pub fn put_with(
        mut self,
        key: impl Into<String>,
        value: impl Into<Bytes>,
        lease: Option<LeaseId>,
    ) -> Self {
        self.writes.push(Write::Put {
            key: key.into(),
            value: value.into(),
            lease,
        });
        self
    }

    /// Deletes a key, if it is there.
    #[must_use]
    pub fn delete(mut self, key: impl Into<String>) -> Self {
        self.writes.push(Write::Delete { key: key.into() });
        self
    }
}
