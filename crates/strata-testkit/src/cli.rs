//! The binary as a user runs it: words in, an exit code and two texts out.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::netns::NetworkNamespace;

/// A command that has not ended by then hangs.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Where the binary looks for programs.
pub(crate) const PROGRAMS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A way to run the binary. Independent of the user that runs the tests.
#[derive(Clone, Debug)]
pub struct Cli {
    binary: PathBuf,
    home: PathBuf,
    /// What goes before the binary.
    prefix: Vec<String>,
    environment: Vec<(OsString, OsString)>,
}

impl Cli {
    /// Runs `binary` with `home` as the user's home.
    pub fn new(binary: impl Into<PathBuf>, home: &Path) -> Self {
        Self {
            binary: binary.into(),
            home: home.to_owned(),
            prefix: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Sets a variable for all commands.
    #[must_use]
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((key.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs everything in a network namespace.
    #[must_use]
    pub fn within(mut self, network: &NetworkNamespace) -> Self {
        self.prefix = network.prefix().to_vec();
        self
    }

    /// The command, not yet run, with pipes for its output.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = match self.prefix.split_first() {
            None => Command::new(&self.binary),
            Some((program, words)) => {
                let mut command = Command::new(program);
                command.args(words).arg(&self.binary);
                command
            }
        };
        command
            .args(arguments)
            .env_clear()
            .env("PATH", PROGRAMS)
            .env("HOME", &self.home)
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    pub async fn run<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> CommandOutput {
        let command = self.command(arguments);
        finish(command).await
    }
}

/// Starts a command and waits for its end.
///
/// # Panics
/// When it cannot be started or does not end.
pub(crate) async fn finish(mut command: Command) -> CommandOutput {
    let shown = format!("{command:?}");
    let child = command
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {shown}: {error}"));
    let pid = pid_of(&child);
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
    tokio::pin!(waiting);
    let output = match tokio::time::timeout(COMMAND_TIMEOUT, &mut waiting).await {
        Ok(output) => output,
        Err(_) => {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waiting.await;
            panic!("{shown} did not end within {COMMAND_TIMEOUT:?}");
        }
    };
    let output = output.expect("waiting does not panic");
    CommandOutput::new(shown, output.unwrap_or_else(|error| panic!("{error}")))
}

/// Copies files and directories with all that they are into a directory, which is
/// made when there are any.
pub(crate) fn copy_into(dir: &Path, all: &[PathBuf]) {
    for path in all {
        std::fs::create_dir_all(dir).expect("a directory can be made");
        let copied = Command::new("cp").arg("-a").arg(path).arg(dir).status();
        assert!(copied.expect("cp can be run").success(), "{path:?}");
    }
}

pub(crate) fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed()).expect("a child has a pid")
}

/// What came of a command.
#[derive(Debug)]
pub struct CommandOutput {
    shown: String,
    /// The exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// What it printed for scripts.
    pub stdout: String,
    /// What it printed for people.
    pub stderr: String,
}

impl CommandOutput {
    fn new(shown: String, output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            shown,
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Asserts the exit code.
    ///
    /// # Panics
    /// When it is another one.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        let Self {
            shown,
            stdout,
            stderr,
            ..
        } = &self;
        assert_eq!(
            self.code,
            Some(code),
            "{shown}\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        );
        self
    }

    /// Asserts success, and gives what was printed for scripts.
    ///
    /// # Panics
    /// When it failed.
    #[track_caller]
    pub fn ok(self) -> String {
        self.exits(0).stdout
    }

    /// What was printed, read as JSON.
    ///
    /// # Panics
    /// When it failed or is no JSON.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }
}
