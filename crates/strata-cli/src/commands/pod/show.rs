//! `strata pod show`: one pod, all that is known of it.

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
use crate::view::{PodView, state_tone};

/// One pod, all that is known of it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata pod show web
  strata pod show web -o json | jq -r .status.address
  strata pod show web -o yaml > web.yaml     # pod create -f takes it again")]
pub struct Show {
    /// The pod
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
    let mut text = String::new();
    let state = match &status.reason {
        Some(reason) => format!("{} ({reason})", status.state),
        None => status.state.to_owned(),
    };
    let state = state_tone(status.state).paint(&plain(&state), printer.color);
    let _ = writeln!(text, "{:<12}{}", "Name", spec.name);
    let _ = writeln!(text, "{:<12}{state}", "State");
    let mut row = |label: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{label:<12}{}", plain(value));
        }
    };
    row("Health", status.health.unwrap_or_default());
    row("Image", &spec.image);
    row("Digest", &status.image_digest);
    row("Id", &status.id);
    row("Address", status.address.as_deref().unwrap_or_default());
    row("Ports", &spec.ports.join(", "));
    row("Entrypoint", &spec.entrypoint.join(" "));
    row("Arguments", &spec.arguments.join(" "));
    row("User", spec.user.as_deref().unwrap_or_default());
    row(
        "Workdir",
        spec.working_directory.as_deref().unwrap_or_default(),
    );
    row("Limits", &limits(pod));
    for volume in &spec.volumes {
        row("Volume", &volume.to_string());
    }
    for tmpfs in &spec.tmpfs {
        row("Tmpfs", &tmpfs.to_string());
    }
    for variable in &spec.environment {
        row("Env", variable);
    }
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
    row("Usage", &usage(pod));
    text
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

/// What others wrote must not steer the terminal.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
