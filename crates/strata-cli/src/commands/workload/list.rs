//! `strata workload list`: the workloads of a project, once or as they
//! change.

use clap::Args;
use strata_api::rest::Workload;

use crate::commands::scope::ListScope;
use crate::commands::watch;
use crate::failure::{Result, unable};
use crate::output::{self, Format, OutputArgs};
use crate::session::Session;

/// List workloads
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata workload list
  strata workload list -A -o wide")]
pub struct List {
    #[command(flatten)]
    scope: ListScope,

    /// Watch for changes
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let format = self.output.format();
        let rename = |one: &mut Workload| {
            if !matches!(format, Format::Json | Format::Yaml) {
                one.name = self.scope.name(&one.project, &one.name);
            }
        };
        let query = self.scope.query();
        if self.watch {
            return watch::watch(session, &rest, &query, format, rename).await;
        }
        let found = rest.list(&query).await;
        let mut found: Vec<Workload> = found.map_err(unable("list the workloads"))?;
        found.iter_mut().for_each(rename);
        found.sort_by(|a, b| (&a.project, &a.name).cmp(&(&b.project, &b.name)));
        let empty = "no workloads; create one with `strata workload create NAME --image URI`";
        output::rows(session, format, &found, empty)
    }
}
