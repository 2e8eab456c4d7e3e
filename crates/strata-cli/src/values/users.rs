//! Whose users the processes of a pod have.

use clap::ValueEnum;

/// User namespace: its own, or that of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsersArg {
    /// Its own: unprivileged on the host
    Own,
    /// That of the host; admins only
    Host,
}

impl UsersArg {
    /// As specifications say it.
    pub(crate) fn are_own(self) -> bool {
        self == Self::Own
    }
}
