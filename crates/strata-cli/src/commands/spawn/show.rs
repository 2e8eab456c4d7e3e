//! `strata spawn show`: one machine, all that is known of it.

use clap::Args;
use jiff::Timestamp;

use super::current;
use crate::complete;
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs};
use crate::session::Session;
use crate::values::label_name;
use crate::view::MachineView;

/// Show a nested node
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata spawn show n1
  strata spawn show n1 -o json | jq -r .status.endpoint")]
pub struct Show {
    /// Name of the nested node
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
    let mut details = Details::new(11);
    let state = match &status.reason {
        Some(reason) => format!("{} ({reason})", status.state),
        None => status.state.to_owned(),
    };
    details.row("Name", &machine.name);
    details.row("State", &state);
    details.maybe("Endpoint", status.endpoint.as_deref());
    details.maybe("Address", status.address.as_deref());
    details.maybe("Cpus", machine.cpus);
    details.maybe("Memory", machine.memory);
    details.maybe("Server", machine.server.as_deref());
    details.row("Id", &status.id);
    for (key, value) in &machine.labels {
        details.row("Label", &format!("{key}={value}"));
    }
    details.moment("Created", status.created_at, now);
    details.finish()
}
