//! `strata operation show`: one long action, step by step.

use clap::Args;
use jiff::Timestamp;
use strata_api::rest::Operation;

use super::progress::step_lines;
use super::{OperationArg, current};
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs};
use crate::printer::Printer;
use crate::session::Session;
use crate::view::{operation_style, operation_word, text, time};

/// Show an operation and its steps
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata operation show 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e
  strata operation show 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e -o json")]
pub struct Show {
    #[command(flatten)]
    one: OperationArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let operation = current(&rest, &self.one.id, "show").await?;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&operation, session.now(), &session.printer);
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &operation),
        }
    }
}

fn describe(operation: &Operation, now: Timestamp, printer: &Printer) -> String {
    let mut details = Details::new(12);
    details.row("Id", &operation.id);
    details.row("Kind", &operation.kind);
    let message = text(operation.message.clone());
    details.state(
        &operation_word(operation.status),
        message.as_deref(),
        operation_style(operation.status),
        printer.color,
    );
    for about in &operation.about {
        details.row("About", about);
    }
    for step in &operation.steps {
        for (at, line) in step_lines(step).iter().enumerate() {
            details.row(if at == 0 { "Step" } else { "" }, line);
        }
    }
    for left in &operation.leftovers {
        details.row("Left", left);
    }
    details.row("Owner", &operation.owner);
    details.moment("Asked", time(&operation.created_at), now);
    let ended = operation.ended_at.as_deref().and_then(time);
    details.moment("Ended", ended, now);
    details.finish()
}
