//! `strata workload show`: one workload, all that is known of it.

use clap::Args;
use jiff::Timestamp;
use strata_api::rest::Workload;

use super::WorkloadArg;
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs};
use crate::session::Session;
use crate::view::{resources, time};

/// Show a workload
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata workload show web
  strata workload show shop/web -o yaml")]
pub struct Show {
    #[command(flatten)]
    one: WorkloadArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let workload = self.one.get(&rest, "show").await?.object;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&workload, session.now());
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &workload),
        }
    }
}

fn describe(one: &Workload, now: Timestamp) -> String {
    let spec = &one.spec;
    let mut details = Details::new(12);
    details.row("Name", &one.name);
    details.row("Project", &one.project);
    details.row("Instances", &one.instances.to_string());
    details.row("Type", &spec.kind.as_str().to_ascii_lowercase());
    details.row("Image", &spec.uri);
    details.row("Id", &one.id);
    details.row("Ports", &spec.ports.join(", "));
    details.row("Command", &spec.command.join(" "));
    details.row("Arguments", &spec.arguments.join(" "));
    details.row("Limits", &resources(&spec.resources));
    for volume in &spec.volumes {
        details.row("Volume", volume);
    }
    for variable in &spec.environment {
        details.row("Env", variable);
    }
    for (key, value) in &spec.labels {
        details.row("Label", &format!("{key}={value}"));
    }
    for constraint in &spec.placement.constraints {
        details.row("Constraint", constraint);
    }
    details.row("Owner", &one.owner);
    details.moment("Created", time(&one.created_at), now);
    details.moment("Changed", time(&one.changed_at), now);
    details.finish()
}
