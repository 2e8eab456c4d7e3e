//! Runs whole commands in this process, against a fake node on a socket in a
//! directory of its own.

mod backends;
pub mod clusters;
mod data;
mod exec;
mod fake;
mod images;
mod objects;
pub mod operations;
mod pods;
mod rest;
mod services;
mod tls;
mod vms;
mod volumes;

use std::io::{self, Cursor, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand};
use jiff::Timestamp;
use strata_cli::{Command, Global, NodeCommand, Printer, Session, run_in};
use strata_client::Places;
use strata_identity::Clock;

pub use self::data::{NOW, line};
pub use self::fake::{FakeNode, State};

#[derive(Debug, Parser)]
#[command(name = "strata", term_width = 80)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    typed: Typed,
}

/// As the binary has it: `node` is the daemon too, and hands its verbs over.
#[derive(Debug, Subcommand)]
enum Typed {
    /// The nodes of the server
    #[command(subcommand)]
    Node(NodeCommand),
    #[command(flatten)]
    Other(Command),
}

impl Cli {
    pub fn command(self) -> Command {
        match self.typed {
            Typed::Node(verb) => Command::Node(verb),
            Typed::Other(command) => command,
        }
    }
}

/// A directory in which commands run, and the node they reach.
pub struct World {
    pub directory: tempfile::TempDir,
    pub node: FakeNode,
    /// What a person at the terminal answers; nobody is there when `None`.
    pub answer: Option<&'static str>,
    /// What is piped in, where nobody is there.
    pub piped: &'static str,
    /// How wide tables may be; none for a pipe.
    pub columns: Option<usize>,
    /// Breaks stdout after so many bytes.
    pub stdout_breaks_after: Option<usize>,
    pub stdout: Captured,
    pub stderr: Captured,
}

impl World {
    /// A node with a few cells.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A node with a few cells, changed.
    pub fn with(change: impl FnOnce(&mut State)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let node = FakeNode::start(directory.path().join("node.sock"), change);
        Self {
            directory,
            node,
            answer: None,
            piped: "",
            columns: Some(80),
            stdout_breaks_after: None,
            stdout: Captured::default(),
            stderr: Captured::default(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a command as it would be typed; `{}` is the world's directory.
    pub async fn run(&self, line: &str) -> String {
        let exit = self.exit(line).await;
        let text = format!(
            "exit {exit}\n--- stdout\n{}--- stderr\n{}",
            self.stdout.take(),
            self.stderr.take()
        );
        text.replace(self.directory.path().to_str().unwrap(), "{}")
    }

    /// Runs a command and gives its exit code.
    pub async fn exit(&self, line: &str) -> u8 {
        let line = line.replace("{}", self.directory.path().to_str().unwrap());
        let words = shell_words(&line);
        let parsed = <Cli as CommandFactory>::command()
            .color(clap::ColorChoice::Never)
            .try_get_matches_from(words)
            .and_then(|matches| Cli::from_arg_matches(&matches));
        let cli = match parsed {
            Ok(cli) => cli,
            Err(error) => {
                let mut out = if error.use_stderr() {
                    self.stderr.clone()
                } else {
                    self.stdout.clone()
                };
                write!(out, "{}", error.render()).unwrap();
                return u8::try_from(error.exit_code()).unwrap();
            }
        };
        let mut session = self.session(&cli.global);
        run_in(cli.command(), &mut session).await.code()
    }

    fn session(&self, global: &Global) -> Session {
        let places = Places {
            node_socket: self.path("node.sock"),
            data_dir: self.path("no-data"),
            logins: Some(self.path("home/config.toml")),
        };
        let out = Breaking {
            inner: self.stdout.clone(),
            left: self.stdout_breaks_after,
        };
        Session {
            printer: Printer::plain(out, self.stderr.clone())
                .columns(self.columns)
                .quiet(global.quiet),
            discovery: global.discovery(places, None),
            clock: Clock::from_fn(|| NOW.parse::<Timestamp>().unwrap()),
            input: Box::new(Cursor::new(self.answer.unwrap_or(self.piped))),
            interactive: self.answer.is_some(),
            terminal: false,
        }
    }
}

pub fn shell_words(line: &str) -> Vec<String> {
    let command = strata_types::CommandLine::from_field("line", line).unwrap();
    command.into()
}

/// Bytes that were written.
#[derive(Clone, Default)]
pub struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    pub fn take(&self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A pipe whose reader leaves.
struct Breaking {
    inner: Captured,
    left: Option<usize>,
}

impl Write for Breaking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.left {
            None => self.inner.write(bytes),
            Some(0) => Err(io::ErrorKind::BrokenPipe.into()),
            Some(left) => {
                let written = self.inner.write(&bytes[..bytes.len().min(*left)])?;
                *left -= written;
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
