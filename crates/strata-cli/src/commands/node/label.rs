//! `strata node label`: what people say of a node. Placement looks at it, and
//! at what the node measures of its host. The labels of a node's configuration
//! are requests: `--accept` sets them as they are shown at that moment.

use clap::Args;
use strata_api::rest::NodePatch;

use super::{NodeArg, change, current};
use crate::failure::Result;
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::LabelChange;

/// Set node labels
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strata node label rack1-7 zone=eu ssd=yes
  strata node label rack1-7 ssd-                 removes it
  strata node label rack1-7 --accept             those of its configuration")]
pub struct Label {
    #[command(flatten)]
    one: NodeArg,

    /// key=value sets a label, key- removes it
    #[arg(
        value_name = "LABEL",
        required_unless_present = "accept",
        allow_hyphen_values = false
    )]
    labels: Vec<LabelChange>,

    /// Accept the labels requested by the configuration of the node
    #[arg(long, conflicts_with = "labels")]
    accept: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Label {
    pub(crate) async fn run(mut self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.one.name;
        if self.accept {
            let node = current(&rest, name, "read").await?;
            let requested = node.requested_labels.into_iter();
            self.labels = requested.map(|(k, v)| LabelChange(k, Some(v))).collect();
            if self.labels.is_empty() {
                session.printer.note(&format!("{name} requests no labels"));
                return Ok(());
            }
        }
        if self.dry_run {
            let node = current(&rest, name, "read").await?;
            let mut text = format!("would label {name}\n");
            for LabelChange(key, value) in &self.labels {
                let line = match (node.labels.get(key), value) {
                    (Some(now), Some(value)) if now == value => format!("  {key}={value} is so\n"),
                    (Some(now), Some(value)) => format!("  {key}: {now} -> {value}\n"),
                    (None, Some(value)) => format!("  + {key}={value}\n"),
                    (Some(now), None) => format!("  - {key}={now}\n"),
                    (None, None) => format!("  {key} is not there\n"),
                };
                text.push_str(&line);
            }
            return Ok(session.printer.data(text.as_bytes())?);
        }
        let labels = self.labels.into_iter().map(|one| (one.0, one.1));
        let patch = NodePatch {
            labels: Some(labels.collect()),
            ..Default::default()
        };
        let node = change(&rest, name, &patch, "label").await?;
        session.printer.note(&format!("labelled {name}"));
        match self.output.requested() {
            Some(format) => output::one(session, format, &node),
            None => Ok(()),
        }
    }
}
