//! `strata vm show`: one virtual machine, all that is known of it.

use clap::Args;
use jiff::Timestamp;

use super::current;
use crate::complete;
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs, human};
use crate::printer::Printer;
use crate::session::Session;
use crate::values::label_name;
use crate::view::{VmView, state_style};

/// Show a virtual machine
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata vm show build
  strata vm show build -o yaml > build.yaml      # vm create -f takes it again")]
pub struct Show {
    /// Name of the virtual machine
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
    let mut details = Details::new(13);
    details.row("Name", &spec.name);
    let style = state_style(status.state);
    details.state(status.state, status.reason.as_deref(), style, printer.color);
    let memory = spec
        .memory
        .map_or(String::new(), |m| format!(", {m} memory"));
    let cpu = spec.cpu.map(|cpu| format!(", limited to {cpu}"));
    let hardware = format!(
        "{} cpus{}{memory}",
        spec.cpus.max(1),
        cpu.unwrap_or_default()
    );
    details.row("Hardware", &hardware);
    details.row("Accelerator", status.accelerator.word());
    details.maybe("Image", spec.image.as_deref());
    details.maybe("Kernel", spec.kernel.as_deref());
    details.maybe("Initrd", spec.initrd.as_deref());
    details.maybe("Command line", spec.command_line.as_deref());
    for disk in &spec.disks {
        details.row("Disk", &disk.to_string());
    }
    details.row("Id", &status.id);
    details.maybe("Address", status.address.as_deref());
    details.maybe("Mac", status.mac.as_deref());
    details.row("Ports", &spec.ports.join(", "));
    for (key, value) in &spec.labels {
        details.row("Label", &format!("{key}={value}"));
    }
    details.moment("Created", status.created_at, now);
    details.moment("Started", status.started_at, now);
    details.moment("Ended", status.ended_at, now);
    details.maybe("Restarts", (status.restarts > 0).then_some(status.restarts));
    let usage = format!(
        "{} memory, {} cpu, {} disk",
        human::bytes(status.usage.memory_bytes),
        human::cpu_time(status.usage.cpu_usec),
        human::bytes(status.disk_bytes)
    );
    details.row("Usage", &usage);
    details.finish()
}
