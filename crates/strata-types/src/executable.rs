//! Executables: processes in a cell, what they are asked to be, how they end.
//!
//! ```text
//!   (none) ──Start──▶ Running ──Stop──▶ Stopping ──▶ Exited ──Start──▶ …
//!                        ├────────its own end────────▲
//!                        └──its own end──▶ Waiting ──┤ Stop
//!                          (restart policy)   └──────┴ back-off ends: another run
//! ```

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{CellName, CommandLine, Error, Label, RestartPolicy};

/// The name of an executable in its cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutableName(Label);

impl ExecutableName {
    /// The text of the name.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Reads a name from the field `field` of a request.
    pub fn from_field(field: &str, text: &str) -> Result<Self, Error> {
        text.parse().map(Self).map_err(|why| {
            let text: String = text.chars().take(80).collect();
            Error::invalid(field, format!("{text:?} {why}"))
        })
    }
}

impl FromStr for ExecutableName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::from_field("executable_name", text)
    }
}

impl fmt::Display for ExecutableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EnvironmentVariable(String);

impl EnvironmentVariable {
    /// The most variables one executable takes.
    pub const MAX_COUNT: usize = 100;
    const MAX_BYTES: usize = 32 * 1024;

    pub fn key(&self) -> &str {
        self.0.split_once('=').map_or(&self.0, |(key, _)| key)
    }

    /// `KEY=VALUE`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for EnvironmentVariable {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        let problem = match text.split_once('=') {
            _ if text.len() > Self::MAX_BYTES => "is longer than 32768 bytes",
            _ if text.contains('\0') => "has a NUL character in it",
            None => "has no =; KEY=VALUE is expected",
            Some(("", _)) => "has nothing before the =; KEY=VALUE is expected",
            Some(_) => return Ok(Self(text)),
        };
        Err(Error::invalid("environment", problem))
    }
}

impl From<EnvironmentVariable> for String {
    fn from(variable: EnvironmentVariable) -> Self {
        variable.0
    }
}

/// Who a process runs as.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The user; that of the node when none is given.
    pub uid: Option<u32>,
    /// The group; the same number as the user when none is given, and that of
    /// the node when neither is.
    pub gid: Option<u32>,
    #[serde(default)]
    pub groups: Vec<u32>,
}

/// What an executable is asked to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutableSpec {
    /// Its name in the cell.
    pub name: ExecutableName,
    /// The cell it runs in.
    pub cell: CellName,
    /// The words of its command.
    pub command: CommandLine,
    #[serde(default)]
    pub description: String,
    /// Who it runs as.
    #[serde(default)]
    pub identity: Identity,
    /// What it finds in its environment beside `PATH`.
    #[serde(default)]
    pub environment: Vec<EnvironmentVariable>,
    /// The directory it starts in; `/` when none is given.
    #[serde(default)]
    pub working_directory: Option<String>,
    /// Between SIGTERM and SIGKILL.
    #[serde(default = "ExecutableSpec::default_grace")]
    pub stop_grace: Duration,
    /// The signal that asks it to end; SIGTERM unless an image says otherwise.
    #[serde(default = "ExecutableSpec::default_stop_signal")]
    pub stop_signal: i32,
    /// What happens when it ends by itself.
    #[serde(default = "ExecutableSpec::default_restart")]
    pub restart: RestartPolicy,
}

impl ExecutableSpec {
    /// What an executable gets between SIGTERM and SIGKILL by default.
    pub const fn default_grace() -> Duration {
        Duration::from_secs(10)
    }

    pub const fn default_stop_signal() -> i32 {
        15
    }

    /// It stays as it is.
    pub const fn default_restart() -> RestartPolicy {
        RestartPolicy::Never
    }

    /// Whether somebody sees to it that it runs.
    pub fn is_supervised(&self) -> bool {
        self.restart != RestartPolicy::Never
    }
}

/// Where an executable is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutableState {
    Running,
    /// Its process has been told to end.
    Stopping,
    /// Its process has ended; it will be started again.
    Waiting,
    /// Its process has ended.
    Exited,
}

impl ExecutableState {
    /// Every state, for tables and tests.
    pub const ALL: [Self; 4] = [Self::Running, Self::Stopping, Self::Waiting, Self::Exited];

    /// Whether an executable may go from this state to `next`. A new run
    /// under the same name begins afresh and is no transition.
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Running, Self::Stopping | Self::Waiting | Self::Exited)
                | (Self::Stopping | Self::Waiting, Self::Exited)
        )
    }
}

impl fmt::Display for ExecutableState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Waiting => "waiting",
            Self::Exited => "exited",
        })
    }
}

/// How an executable ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It called exit with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// The kernel ended it because its cell was out of memory.
    OutOfMemory,
    /// Its cell's init went away with all it held; nobody saw the end.
    Lost,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit {code}"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {signal}"),
            },
            Self::OutOfMemory => f.write_str("killed: out of memory"),
            Self::Lost => f.write_str("lost: its cell's init ended"),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn environment_wants_key_and_value() {
        let parse = |text: &str| EnvironmentVariable::try_from(text.to_owned());
        assert_eq!(parse("A=b=c").unwrap().key(), "A");
        assert!(parse("A=").is_ok());
        for bad in ["", "A", "=b", "A=\0"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn endings_read_well() {
        assert_eq!(Ending::Code(3).to_string(), "exit 3");
        assert_eq!(Ending::Signal(15).to_string(), "killed by SIGTERM");
        assert_eq!(Ending::Signal(40).to_string(), "killed by signal 40");
    }

    proptest! {
        #[test]
        fn an_exited_executable_stays_so(path in proptest::collection::vec(0usize..4, 1..20)) {
            let mut state = ExecutableState::Running;
            for next in path.into_iter().map(|i| ExecutableState::ALL[i]) {
                let was = state;
                if state.may_become(next) {
                    state = next;
                }
                prop_assert!(was != ExecutableState::Exited || state == ExecutableState::Exited);
            }
        }

        #[test]
        fn a_variable_has_a_key_and_no_nul_or_is_refused(text in ".{0,100}") {
            if let Ok(variable) = EnvironmentVariable::try_from(text.clone()) {
                prop_assert!(!variable.key().is_empty());
                prop_assert!(!text.contains('\0'));
                prop_assert_eq!(variable.as_str(), text);
            }
        }

        #[test]
        fn any_text_is_refused_or_an_executable_name(text in ".{0,100}") {
            if let Ok(name) = ExecutableName::from_field("f", &text) {
                prop_assert_eq!(name.as_str(), text);
            }
        }
    }
}
