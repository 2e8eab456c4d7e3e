//! `strata node label`: what people say of a node. It goes before what the
//! node says of itself, and placement looks at both.

use clap::Args;
use strata_api::rest::NodePatch;

use super::{One, change, current};
use crate::failure::Result;
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::LabelChange;

/// Say something about a node, for placement
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strata node label rack1-7 zone=eu ssd=yes
  strata node label rack1-7 ssd-                 takes it back")]
pub struct Label {
    #[command(flatten)]
    one: One,

    /// key=value, or key- to take it back
    #[arg(value_name = "LABEL", required = true, allow_hyphen_values = false)]
    labels: Vec<LabelChange>,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Label {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.one.name;
        if self.dry_run {
            let node = current(&rest, name, "look at").await?;
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
        match self.output.asked() {
            Some(format) => output::one(session, format, &node),
            None => Ok(()),
        }
    }
}
