//! Whose users the processes of a pod have.

use clap::ValueEnum;

/// The users of a user namespace of its own, or those of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsersArg {
    /// Unprivileged on the host
    Own,
    /// Those of the host; for admins
    Host,
}

impl UsersArg {
    /// As specifications say it.
    pub(crate) fn are_own(self) -> bool {
        self == Self::Own
    }
}
