//! `strata machine show`: one machine, all that is known of it.

use clap::Args;
use jiff::Timestamp;
use strata_api::rest::Machine;

use super::{MachineArg, current};
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs, human};
use crate::printer::Printer;
use crate::session::Session;
use crate::view::{can, capabilities, phase_style, phase_word, ram, text, time, time_ms};

/// Show a machine
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata machine show rack1-7
  strata machine show rack1-7 -o json | jq .failure")]
pub struct Show {
    #[command(flatten)]
    one: MachineArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let machine = current(&rest, &self.one.id, "show").await?;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&machine, session.now(), &session.printer);
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &machine),
        }
    }
}

fn describe(machine: &Machine, now: Timestamp, printer: &Printer) -> String {
    let mut details = Details::new(14);
    details.row("Id", &machine.id);
    let why = text(machine.message.clone());
    details.state(
        &phase_word(machine),
        why.as_deref(),
        phase_style(machine),
        printer.color,
    );
    if let Some(failure) = &machine.failure {
        let at = time_ms(failure.at_ms);
        let ago = at.map_or(String::new(), |_| format!(", {} ago", human::age(at, now)));
        let phase = failure.phase.as_str().to_ascii_lowercase();
        details.row("Failed", &format!("{phase}: {}{ago}", failure.why));
    }
    details.maybe("Can", can(machine));
    details.row("Operation", &machine.operation);
    details.row("Instances", &machine.instances.to_string());
    details.row("Power", &machine.power.as_str().to_ascii_lowercase());
    details.row("Provider", machine.provider.as_str());
    details.row("Handle", &machine.handle);
    details.row("Management", &machine.address);
    details.row("Credentials", &machine.credentials);
    if machine.cpu > 0 {
        let threads = usize::try_from(machine.cpu).unwrap_or(usize::MAX);
        let size = format!(
            "{}, memory {}",
            human::count(threads, "thread"),
            ram(machine)
        );
        details.row("Size", &size);
    }
    details.row("With", &capabilities(machine));
    details.row("Node", &machine.node_address);
    for (key, value) in &machine.labels {
        details.row("Label", &format!("{key}={value}"));
    }
    details.moment("Added", time(&machine.created_at), now);
    details.moment("Changed", time(&machine.changed_at), now);
    details.finish()
}
