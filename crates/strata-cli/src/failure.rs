//! Why a command failed, for people and for scripts: what failed, why, what
//! to do next, and the exit code that says it to a shell. Printed in one
//! place, once.

use std::io;
use std::process::ExitCode;

use strata_client::{Error as ClientError, NodeClient, ServerClient};
use strata_types::ErrorKind;
use tonic::Status;

/// A result of a command.
pub type Result<T = ()> = std::result::Result<T, Failure>;

/// The published exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok,
    /// Nobody planned for this.
    Unexpected,
    /// The command line is wrong.
    Usage,
    CannotConnect,
    /// It answered that it is in trouble itself.
    Server,
    /// It answered that the caller may not.
    NotAllowed,
    /// It answered no: not found, conflict, wrong state, invalid.
    Refused,
    /// What was waited for ended badly.
    Failed,
    /// Ctrl-C, as every program tells it.
    Interrupted,
    /// That of a program which ran in the caller's place.
    Program(u8),
}

impl Exit {
    /// As a shell sees it.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Unexpected => 1,
            Self::Usage => 2,
            Self::CannotConnect => 3,
            Self::Server => 4,
            Self::NotAllowed => 5,
            Self::Refused => 6,
            Self::Failed => 7,
            Self::Interrupted => 130,
            Self::Program(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// What failed, why, and what to do next.
#[derive(Debug)]
pub struct Failure {
    pub(crate) exit: Exit,
    /// Empty where the exit code says it all.
    pub(crate) what: String,
    pub(crate) why: Vec<String>,
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// A failure that names what failed.
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            exit,
            what: what.into(),
            why: Vec::new(),
            hint: None,
        }
    }

    /// An exit code that needs no words.
    pub fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why.push(why.into());
        self
    }

    /// Says what a person can do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// A file could not be used.
    pub(crate) fn file(verb: &str, path: &std::path::Path, why: &io::Error) -> Self {
        Self::new(
            Exit::Unexpected,
            format!("cannot {verb} {}", path.display()),
        )
        .because(why.to_string())
    }

    /// What a call that was to `what` came to.
    pub(crate) fn of(error: &ClientError, what: &str) -> Self {
        let failure = match error {
            ClientError::Answer(answer) => {
                Self::new(exit_of(answer.kind()), format!("cannot {what}"))
                    .because(answer.to_string())
            }
            other => Self::from(other),
        };
        Self {
            hint: error.hint().or(failure.hint),
            ..failure
        }
    }
}

impl From<strata_types::Error> for Failure {
    fn from(error: strata_types::Error) -> Self {
        let failure = Self::new(exit_of(error.kind()), error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<&ClientError> for Failure {
    fn from(error: &ClientError) -> Self {
        let failure = match error {
            ClientError::Connect {
                address, reason, ..
            } => Self::new(Exit::CannotConnect, format!("cannot connect to {address}"))
                .because(reason),
            ClientError::Lost { address, reason } => Self::new(
                Exit::CannotConnect,
                format!("lost the connection to {address}"),
            )
            .because(reason),
            ClientError::Untrusted { address, reason } => Self::new(
                Exit::NotAllowed,
                format!("TLS authentication with {address} failed"),
            )
            .because(reason),
            ClientError::Nowhere { tried, .. } => Self {
                why: tried.clone(),
                ..Self::new(Exit::CannotConnect, error.to_string())
            },
            ClientError::NoProof { .. } => Self::new(Exit::NotAllowed, error.to_string()),
            ClientError::File { source, .. } => {
                Self::new(Exit::Unexpected, error.to_string()).because(source.to_string())
            }
            ClientError::Damaged { .. } => Self::new(Exit::Unexpected, error.to_string()),
            ClientError::Answer(answer) => Self::new(exit_of(answer.kind()), answer.to_string()),
        };
        Self {
            hint: error.hint(),
            ..failure
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::from(&error)
    }
}

/// Output that cannot be written. A reader that has seen enough, as `head`,
/// is no failure.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(Exit::Ok),
            _ => Self::new(Exit::Unexpected, "cannot write the output").because(error.to_string()),
        }
    }
}

fn exit_of(kind: ErrorKind) -> Exit {
    match kind {
        ErrorKind::Unauthenticated | ErrorKind::PermissionDenied => Exit::NotAllowed,
        ErrorKind::Invalid
        | ErrorKind::NotFound
        | ErrorKind::AlreadyExists
        | ErrorKind::WrongState
        | ErrorKind::Exhausted
        | ErrorKind::Aborted => Exit::Refused,
        ErrorKind::Unavailable | ErrorKind::Internal => Exit::Server,
    }
}

/// Something that answers calls with statuses.
pub(crate) trait Peer {
    /// The error that a status of one of its calls tells of.
    fn failure(&self, status: &Status, what: &str) -> Failure;
}

impl Peer for NodeClient {
    fn failure(&self, status: &Status, what: &str) -> Failure {
        Failure::of(&self.error(status), what)
    }
}

impl Peer for ServerClient {
    fn failure(&self, status: &Status, what: &str) -> Failure {
        Failure::of(&self.error(status), what)
    }
}

/// For `map_err` on a call that was to `what`: "free the cell web".
pub(crate) fn cannot<'a>(
    peer: &'a (impl Peer + ?Sized),
    what: impl Into<String>,
) -> impl Fn(Status) -> Failure + 'a {
    let what = what.into();
    move |status| peer.failure(&status, &what)
}

/// For `map_err` on a question to a server's REST API, as [`cannot`].
pub(crate) fn unable(what: impl Into<String>) -> impl Fn(ClientError) -> Failure {
    let what = what.into();
    move |error| Failure::of(&error, &what)
}
