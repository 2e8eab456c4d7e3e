//! `strata machine power`: switches a machine by hand.

use clap::{Args, ValueEnum};
use strata_api::rest::{Machine, PowerAction, PowerRequest};

use super::{MachineArg, current};
use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Power a machine on or off, or power-cycle it
#[derive(Args, Debug)]
#[command(after_help = "\
A machine that hosts instances is rejected without --force; they are not
evicted. Ctrl-C detaches; the operation continues on the server.

Examples:
  strata machine power rack1-7 on
  strata machine power rack1-7 cycle --force")]
pub struct Power {
    #[command(flatten)]
    one: MachineArg,

    /// Power action: on, off or cycle
    #[arg(value_enum, hide_possible_values = true)]
    power: Switch,

    /// Also if it hosts instances
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    wait: WaitArgs,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Switch {
    On,
    Off,
    Cycle,
}

impl Switch {
    fn action(self) -> PowerAction {
        match self {
            Self::On => PowerAction::On,
            Self::Off => PowerAction::Off,
            Self::Cycle => PowerAction::Cycle,
        }
    }

    /// Behind `switch` and before the name: `switched on`.
    fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Cycle => "off and on",
        }
    }
}

impl Power {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let (id, word) = (&self.one.id, self.power.word());
        if self.dry_run {
            let machine = current(&rest, id, "read").await?;
            let many = human::count(machine.instances, "instance");
            let power = machine.power.as_str().to_ascii_lowercase();
            let line = format!("would power {word} {id}, which is {power} and has {many}\n");
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let asked = PowerRequest {
            power: self.power.action(),
            force: self.force,
        };
        let begun = rest.begin::<Machine>(id, "power", &asked).await;
        let begun = begun.map_err(unable(format!("power {word} the machine {id}")))?;
        let told = (
            &*format!("powering {word} {id}"),
            &*format!("powered {word} {id}"),
        );
        self.wait.one(session, &rest, &begun, told).await
    }
}
