//! `strata vm show`: one virtual machine, all that is known of it.

use std::fmt::Write as _;

use clap::Args;
use jiff::Timestamp;

use super::current;
use crate::complete;
use crate::failure::Result;
use crate::output::{self, Format, OutputArgs, human};
use crate::printer::Printer;
use crate::session::Session;
use crate::values::label_name;
use crate::view::{VmView, state_tone};

/// One virtual machine, all that is known of it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata vm show build
  strata vm show build -o yaml > build.yaml      # vm create -f takes it again")]
pub struct Show {
    /// The virtual machine
    #[arg(value_parser = label_name, add = complete::vms())]
    name: String,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let vm = current(&node, &self.name, "show").await?;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&vm, session.now(), &session.printer);
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &vm),
        }
    }
}

fn describe(vm: &VmView, now: Timestamp, printer: &Printer) -> String {
    let (spec, status) = (&vm.spec, &vm.status);
    let mut text = String::new();
    // What others wrote must not steer the terminal.
    let plain = |text: &str| -> String {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        text.chars().map(plain).collect()
    };
    let state = match &status.reason {
        Some(reason) => format!("{} ({reason})", status.state),
        None => status.state.to_owned(),
    };
    let state = state_tone(status.state).paint(&plain(&state), printer.color);
    let _ = writeln!(text, "{:<13}{}", "Name", spec.name);
    let _ = writeln!(text, "{:<13}{state}", "State");
    let mut row = |label: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{label:<13}{}", plain(value));
        }
    };
    let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
    let memory = spec
        .memory
        .map_or(String::new(), |m| format!(", {m} memory"));
    row("Hardware", &format!("{} cpus{memory}", spec.cpus.max(1)));
    row("Accelerator", status.accelerator.word());
    row("Image", &or_empty(&spec.image));
    row("Kernel", &or_empty(&spec.kernel));
    row("Initrd", &or_empty(&spec.initrd));
    row("Command line", &or_empty(&spec.command_line));
    for disk in &spec.disks {
        row("Disk", &disk.to_string());
    }
    row("Id", &status.id);
    row("Address", &or_empty(&status.address));
    row("Mac", &or_empty(&status.mac));
    row("Ports", &spec.ports.join(", "));
    for (key, value) in &spec.labels {
        row("Label", &format!("{key}={value}"));
    }
    let at = |time: Option<Timestamp>| {
        time.map_or(String::new(), |at| {
            format!("{at} ({} ago)", human::age(Some(at), now))
        })
    };
    row("Created", &at(status.created_at));
    row("Started", &at(status.started_at));
    row("Ended", &at(status.ended_at));
    if status.restarts > 0 {
        row("Restarts", &status.restarts.to_string());
    }
    let usage = format!(
        "{} memory, {} cpu, {} disk",
        human::bytes(status.usage.memory_bytes),
        human::cpu_time(status.usage.cpu_usec),
        human::bytes(status.disk_bytes)
    );
    row("Usage", &usage);
    text
}
