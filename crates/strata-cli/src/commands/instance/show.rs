//! `strata instance show`: one instance, all that is known of it.

use clap::Args;
use jiff::Timestamp;
use strata_api::rest::Instance;

use super::InstanceArg;
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs};
use crate::printer::Printer;
use crate::session::Session;
use crate::view::{resources, status_style, status_word, text, time};

/// Show an instance
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata instance show web
  strata instance show shop/web -o json | jq -r .ip")]
pub struct Show {
    #[command(flatten)]
    one: InstanceArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let instance = self.one.get(&rest, "show").await?.object;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&instance, session.now(), &session.printer);
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &instance),
        }
    }
}

fn describe(one: &Instance, now: Timestamp, printer: &Printer) -> String {
    let mut details = Details::new(12);
    details.row("Name", &one.name);
    details.row("Project", &one.project);
    let why = text(one.description.clone());
    let style = status_style(one.status);
    details.state(
        &status_word(one.status),
        why.as_deref(),
        style,
        printer.color,
    );
    details.maybe(
        "Health",
        one.healthy
            .map(|well| if well { "healthy" } else { "unhealthy" }),
    );
    details.maybe("Last exit", one.exit_code);
    details.row("Type", &one.kind.as_str().to_ascii_lowercase());
    details.row("Image", &one.uri);
    details.row("Id", &one.id);
    details.maybe("Node", one.node.as_deref());
    details.maybe("Address", one.ip.as_deref());
    details.row("Ports", &one.ports.join(", "));
    details.maybe("Workload", one.workload_id.as_deref());
    details.row("Command", &one.command.join(" "));
    details.row("Arguments", &one.arguments.join(" "));
    details.maybe("User", one.user.as_deref());
    details.maybe("Workdir", one.working_directory.as_deref());
    details.row("Limits", &resources(&one.resources.max));
    details.row("Usage", &resources(&one.resources.usage));
    for volume in &one.volumes {
        details.row("Volume", volume);
    }
    for secret in &one.secrets {
        details.row("Secret", secret);
    }
    for variable in &one.environment {
        details.row("Env", variable);
    }
    for (key, value) in &one.labels {
        details.row("Label", &format!("{key}={value}"));
    }
    placement(&mut details, one);
    details.maybe("Restarts", (one.restarts > 0).then_some(one.restarts));
    details.row("Owner", &one.owner);
    details.moment("Created", time(&one.created_at), now);
    details.moment("Changed", time(&one.changed_at), now);
    details.finish()
}

fn placement(details: &mut Details, one: &Instance) {
    let rules = &one.placement;
    for constraint in &rules.constraints {
        details.row("Constraint", constraint);
    }
    for prefer in &rules.preferences {
        details.row(
            "Preference",
            &format!("{} (worth {})", prefer.test, prefer.weight),
        );
    }
    for spread in &rules.spread {
        details.row("Spread", &format!("over {}", spread.over));
    }
    if let Some(gpus) = &rules.gpus {
        let kind = gpus.kind.as_deref().unwrap_or("of any kind");
        details.row("GPUs", &format!("{} {kind}", gpus.count));
    }
    details.maybe("Priority", (rules.priority != 0).then_some(rules.priority));
}
