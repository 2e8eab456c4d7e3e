//! `strata project list`: the projects that the caller may see.

use clap::Args;
use strata_api::rest::Project;
use strata_client::rest::Query;

use crate::commands::watch;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List projects
#[derive(Args, Debug)]
#[command(after_help = "\
The quota follows the slash.

Examples:
  strata project list
  strata project list -o json | jq '.[].used'")]
pub struct List {
    /// Watch for changes
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let (format, query) = (self.output.format(), Query::new());
        if self.watch {
            return watch::watch(session, &rest, &query, format, |_: &mut Project| {}).await;
        }
        let found = rest.list(&query).await;
        let mut found: Vec<Project> = found.map_err(unable("list the projects"))?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        output::rows(session, format, &found, "no projects")
    }
}
