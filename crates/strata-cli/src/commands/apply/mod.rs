//! `strata apply`: makes things as a file describes them. What is there is
//! changed field by field, what is as described stays; so the same file can
//! be applied again and again.

mod document;
mod plan;

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde::Serialize;

use self::document::Document;
use self::plan::{Action, Step};
use super::instance::follow::{Goal, follow};
use super::spec::Difference;
use crate::failure::Result;
use crate::output::{self, Format, OutputArgs};
use crate::printer::Style;
use crate::session::Session;

/// Create or update the resources described in a file
#[derive(Args, Debug)]
#[command(after_help = "\
A file holds one document or several, each with kind (project, workload or
instance), name, project and spec, whose fields are those of the REST API:

  kind: instance
  name: web
  project: shop
  spec: {uri: nginx:1.27, ports: ['8080:80'], resources: {cpu: 500, memory: 256}}

Projects come first, then workloads, then instances.

Examples:
  strata apply -f shop.yaml
  strata apply -f shop.yaml -f more.json --dry-run
  cat shop.yaml | strata apply -f - --wait")]
pub struct Apply {
    /// YAML or JSON file; - is stdin. Repeatable
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    #[arg(value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Wait until created and updated instances run
    #[arg(long)]
    wait: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// Outcome of one document.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    kind: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<&'a str>,
    action: Action,
    changes: &'a [Difference],
}

impl Apply {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        // All is read before anything is done: a slip in the last document
        // must not leave the first ones made.
        let mut documents: Vec<Document> = Vec::new();
        for file in &self.files {
            documents.extend(document::read(file, &mut session.input)?);
        }
        documents.sort_by_key(Document::rank);
        let rest = session.rest().await?;
        let format = self.output.format();
        let mut steps = Vec::new();
        let mut made = Vec::new();
        for document in documents {
            let step = plan::plan(&rest, document).await?;
            if !self.dry_run
                && let Some(instance) = step.run(&rest).await?
            {
                made.push(instance);
            }
            if !matches!(format, Format::Json | Format::Yaml) {
                self.print(session, format, &step)?;
            }
            steps.push(step);
        }
        if let Format::Json | Format::Yaml = format {
            let outcomes: Vec<Outcome<'_>> = steps.iter().map(outcome).collect();
            output::document(session, format, &outcomes)?;
        }
        if self.wait {
            for instance in made {
                follow(session, &rest, &instance, Goal::Running).await?;
            }
        }
        Ok(())
    }

    fn print(&self, session: &mut Session, format: Format, step: &Step) -> Result {
        let reference = step.document.reference();
        if format == Format::Name {
            return Ok(session.printer.data(format!("{reference}\n").as_bytes())?);
        }
        let word = match (step.action, self.dry_run) {
            (Action::Created, false) => "created",
            (Action::Created, true) => "would be created",
            (Action::Changed, false) => "changed",
            (Action::Changed, true) => "would be updated",
            (Action::Unchanged, _) => "unchanged",
        };
        let style = match step.action {
            Action::Created => Style::Good,
            Action::Changed => Style::Warn,
            Action::Unchanged => Style::Dim,
        };
        let word = style.paint(word, session.printer.color);
        let mut text = format!("{reference} {word}\n");
        for change in &step.changes {
            text.push_str(&format!("  {change}\n"));
        }
        Ok(session.printer.data(text.as_bytes())?)
    }
}

fn outcome(step: &Step) -> Outcome<'_> {
    let document = &step.document;
    Outcome {
        kind: document.kind(),
        name: &document.name,
        project: document.scope(),
        action: step.action,
        changes: &step.changes,
    }
}
