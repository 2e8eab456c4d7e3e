//! `strata pod show`: one pod, all that is known of it.

use clap::Args;
use jiff::Timestamp;

use super::current;
use crate::complete;
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs, human};
use crate::printer::Printer;
use crate::session::Session;
use crate::values::label_name;
use crate::view::{PodView, state_style};

/// Show a pod
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata pod show web
  strata pod show web -o json | jq -r .status.address
  strata pod show web -o yaml > web.yaml     # pod create -f takes it again")]
pub struct Show {
    /// Name of the pod
    #[arg(value_parser = label_name, add = complete::pods())]
    name: String,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let pod = current(&node, &self.name, "show").await?;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&pod, session.now(), &session.printer);
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &pod),
        }
    }
}

fn describe(pod: &PodView, now: Timestamp, printer: &Printer) -> String {
    let (spec, status) = (&pod.spec, &pod.status);
    let mut details = Details::new(12);
    details.row("Name", &spec.name);
    let style = state_style(status.state);
    details.state(status.state, status.reason.as_deref(), style, printer.color);
    details.maybe("Health", status.health);
    details.row("Image", &spec.image);
    details.row("Digest", &status.image_digest);
    details.row("Id", &status.id);
    details.maybe("Address", status.address.as_deref());
    details.row("Ports", &spec.ports.join(", "));
    details.row("Entrypoint", &spec.entrypoint.join(" "));
    details.row("Arguments", &spec.arguments.join(" "));
    details.maybe("User", spec.user.as_deref());
    details.maybe("Workdir", spec.working_directory.as_deref());
    details.row("Limits", &limits(pod));
    for volume in &spec.volumes {
        details.row("Volume", &volume.to_string());
    }
    for tmpfs in &spec.tmpfs {
        details.row("Tmpfs", &tmpfs.to_string());
    }
    for variable in &spec.environment {
        details.row("Env", variable);
    }
    for (key, value) in &spec.labels {
        details.row("Label", &format!("{key}={value}"));
    }
    details.moment("Created", status.created_at, now);
    details.moment("Started", status.started_at, now);
    details.moment("Ended", status.ended_at, now);
    details.maybe("Restarts", (status.restarts > 0).then_some(status.restarts));
    details.row("Usage", &usage(pod));
    details.finish()
}

fn limits(pod: &PodView) -> String {
    let limits = &pod.spec.limits;
    let parts = [
        limits.cpus.map(|cpus| format!("{cpus} cpus")),
        limits.memory.map(|size| format!("memory {size}")),
        limits.disk.map(|size| format!("disk {size}")),
        limits.pids.map(|pids| format!("{pids} pids")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn usage(pod: &PodView) -> String {
    let usage = &pod.status.usage;
    format!(
        "{} memory, {} cpu, {} disk, {} received, {} sent, {} pids",
        human::bytes(usage.cell.memory_bytes),
        human::cpu_time(usage.cell.cpu_usec),
        human::bytes(usage.disk_bytes),
        human::bytes(usage.network_received_bytes),
        human::bytes(usage.network_sent_bytes),
        usage.cell.pids
    )
}
