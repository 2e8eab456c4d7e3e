//! What a command runs in: the printer, the keyboard, the clock, and the way
//! to the daemons. Injected, so that tests run whole commands in a process.

use std::io::{self, BufRead, BufReader, IsTerminal as _};
use std::path::PathBuf;

use jiff::Timestamp;
use strata_client::rest::RestClient;
use strata_client::{Discovery, NodeClient, Places, ServerClient};
use strata_identity::Clock;

use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::printer::Printer;

/// The surroundings of one command.
pub struct Session {
    /// Where output goes.
    pub printer: Printer,
    /// Where to connect to.
    pub discovery: Discovery,
    /// What time it is.
    pub clock: Clock,
    /// What people answer with.
    pub input: Box<dyn BufRead + Send>,
    /// Whether there is somebody to ask.
    pub interactive: bool,
    /// Whether the input is a terminal of this process, which can be taken
    /// over.
    pub terminal: bool,
}

impl Session {
    /// That of this process.
    pub fn of_process(global: &Global) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let token = std::env::var("STRATA_TOKEN")
            .ok()
            .filter(|token| !token.is_empty());
        Self {
            printer: Printer::of_process(global.color, global.quiet),
            discovery: global.discovery(Places::new(home.as_deref()), token),
            clock: Clock::system(),
            input: Box::new(BufReader::new(io::stdin())),
            interactive: io::stdin().is_terminal() && io::stderr().is_terminal(),
            terminal: io::stdin().is_terminal(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) async fn node(&self) -> Result<NodeClient> {
        let target = self.discovery.node()?;
        Ok(NodeClient::connect(&target).await?)
    }

    pub(crate) async fn server(&self) -> Result<ServerClient> {
        let target = self.discovery.server()?;
        Ok(ServerClient::connect(&target).await?)
    }

    /// The REST API of the server, connected.
    pub(crate) async fn rest(&self) -> Result<RestClient> {
        Ok(self.server().await?.rest())
    }

    /// Whether lines that somebody sees can be written over.
    pub(crate) fn redraws(&self) -> bool {
        self.interactive && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// Asks before something is destroyed. Where nobody can be asked, the
    /// command itself is the answer.
    pub(crate) fn confirm(&mut self, question: &str, yes: bool) -> Result {
        if yes || !self.interactive {
            return Ok(());
        }
        self.printer.ask(&format!("{question} [y/N] "));
        let mut answer = String::new();
        self.input.read_line(&mut answer).map_err(|why| {
            Failure::new(Exit::Unexpected, "cannot read the answer").because(why.to_string())
        })?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(
                Failure::new(Exit::Refused, "cancelled, nothing was changed")
                    .hint("answer y, or pass --yes"),
            ),
        }
    }
}
