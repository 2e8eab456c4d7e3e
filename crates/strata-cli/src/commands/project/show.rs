//! `strata project show`: what one project has and may have.

use clap::Args;
use strata_api::rest::Project;

use super::{ProjectArg, current};
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs, human};
use crate::session::Session;
use crate::view::time;

/// Show a project: quota and usage
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata project show shop
  strata project show shop -o json | jq .used")]
pub struct Show {
    #[command(flatten)]
    one: ProjectArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let project = current(&rest, &self.one.name, "show").await?;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&project, session.now());
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &project),
        }
    }
}

fn describe(project: &Project, now: jiff::Timestamp) -> String {
    let (used, quota) = (&project.used, &project.quota);
    let mut details = Details::new(12);
    details.row("Name", &project.name);
    let mut share = |label: &str, used: i64, most: Option<i64>, words: fn(i64) -> String| {
        let words = |n: i64| if n == 0 { "0".to_owned() } else { words(n) };
        let most = most.map_or("unlimited".to_owned(), |n| format!("of {}", words(n)));
        details.row(label, &format!("{} ({most})", words(used)));
    };
    share("Instances", used.instances, quota.instances, |n| {
        n.to_string()
    });
    share("Cpus", used.cpu, quota.cpu, human::cores);
    share("Memory", used.memory, quota.memory, human::megabytes);
    share("Disk", used.disk, quota.disk, human::gigabytes);
    share("Processes", used.pids, quota.pids, |n| n.to_string());
    let own = &project.defaults;
    let defaults = [
        own.cpu.map(|n| format!("{} cpus", human::cores(n.into()))),
        own.memory
            .map(|n| format!("{} memory", human::megabytes(n.into()))),
        own.disk
            .map(|n| format!("{} disk", human::gigabytes(n.into()))),
        own.pids.map(|n| format!("{n} processes")),
    ];
    let defaults: Vec<String> = defaults.into_iter().flatten().collect();
    if !defaults.is_empty() {
        details.row("Defaults", &defaults.join(", "));
    }
    if !project.allow_from.is_empty() {
        details.row("Allows from", &project.allow_from.join(", "));
    }
    if project.privileged_ports {
        details.row("Ports", "all, including those below 1024");
    }
    details.moment("Created", time(&project.created_at), now);
    details.finish()
}
