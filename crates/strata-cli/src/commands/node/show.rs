//! `strata node show`: one node, all that is known of it.

use clap::Args;
use jiff::Timestamp;
use strata_api::rest::Node;

use super::{NodeArg, current};
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs};
use crate::printer::Printer;
use crate::session::Session;
use crate::view::{node_style, resources, text, time};

/// Show a node
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strata node show rack1-7
  strata node show rack1-7 -o json | jq .labels")]
pub struct Show {
    #[command(flatten)]
    one: NodeArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let node = current(&rest, &self.one.name, "show").await?;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&node, session.now(), &session.printer);
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &node),
        }
    }
}

fn describe(node: &Node, now: Timestamp, printer: &Printer) -> String {
    let mut details = Details::new(12);
    details.row("Name", &node.name);
    let why = text(node.description.clone());
    let status = node.status.as_str().to_ascii_lowercase();
    details.state(
        &status,
        why.as_deref(),
        node_style(node.status),
        printer.color,
    );
    details.row("Instances", &node.instances.to_string());
    details.row("Capacity", &resources(&node.capacity));
    details.row("Reserved", &resources(&node.reserved));
    details.row("Used", &resources(&node.usage));
    for (kind, count) in &node.gpus {
        details.row("GPUs", &format!("{count} {kind}"));
    }
    details.row("VMs", if node.runs_vms { "yes" } else { "no" });
    details.row("Address", &node.address);
    details.row("Subnet", &node.subnet);
    if !node.overlay_encryption.is_empty() {
        details.row("Encryption", &node.overlay_encryption);
    }
    for (key, value) in &node.labels {
        details.row("Label", &format!("{key}={value}"));
    }
    for (key, value) in &node.requested_labels {
        details.row("Requested", &format!("{key}={value} (not accepted)"));
    }
    for one in &node.unknown_instances {
        let runs = if one.runs { "runs" } else { "rests" };
        let whose = match one.control_plane.as_str() {
            "" => "no record".to_owned(),
            id => format!("of control plane {id}"),
        };
        details.row("Unknown", &format!("{} ({runs}, {whose})", one.id));
    }
    details.row("Version", &node.version);
    details.moment("Joined", time(&node.created_at), now);
    details.moment("Changed", time(&node.changed_at), now);
    details.finish()
}
