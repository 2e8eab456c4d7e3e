//! `strata spawn show`: one machine, all that is known of it.

use std::fmt::Write as _;

use clap::Args;
use jiff::Timestamp;

use super::current;
use crate::complete;
use crate::failure::Result;
use crate::output::{self, Format, OutputArgs, human};
use crate::session::Session;
use crate::values::label_name;
use crate::view::MachineView;

/// One machine, all that is known of it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata spawn show n1
  strata spawn show n1 -o json | jq -r .status.endpoint")]
pub struct Show {
    /// The machine
    #[arg(value_parser = label_name, add = complete::machines())]
    name: String,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let machine = current(&node, &self.name, "show").await?;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&machine, session.now());
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &machine),
        }
    }
}

fn describe(machine: &MachineView, now: Timestamp) -> String {
    let status = &machine.status;
    let mut text = String::new();
    let mut row = |label: &str, value: &str| {
        if !value.is_empty() {
            // What others wrote must not steer the terminal.
            let plain = |c: char| if c.is_control() { ' ' } else { c };
            let value: String = value.chars().map(plain).collect();
            let _ = writeln!(text, "{label:<11}{value}");
        }
    };
    let state = match &status.reason {
        Some(reason) => format!("{} ({reason})", status.state),
        None => status.state.to_owned(),
    };
    row("Name", &machine.name);
    row("State", &state);
    row("Endpoint", status.endpoint.as_deref().unwrap_or_default());
    row("Address", status.address.as_deref().unwrap_or_default());
    row(
        "Cpus",
        &machine.cpus.map(|c| c.to_string()).unwrap_or_default(),
    );
    row(
        "Memory",
        &machine.memory.map(|m| m.to_string()).unwrap_or_default(),
    );
    row("Server", machine.server.as_deref().unwrap_or_default());
    row("Id", &status.id);
    for (key, value) in &machine.labels {
        row("Label", &format!("{key}={value}"));
    }
    if let Some(at) = status.created_at {
        let created = format!("{at} ({} ago)", human::age(Some(at), now));
        row("Created", &created);
    }
    text
}
