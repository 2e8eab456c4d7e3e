//! `strata project create`: makes a project.

use clap::Args;
use strata_api::rest::{NewProject, Project};

use super::quota::{QuotaArgs, RuleArgs, Settings};
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::label_name;

/// Create a project
#[derive(Args, Debug)]
#[command(after_help = "\
Amounts that are not given are unlimited. Creating the same project again
succeeds.

Examples:
  strata project create shop
  strata project create shop --cpu 8 --memory 16GB --disk 1TB --instances 50")]
pub struct Create {
    /// Name
    #[arg(value_parser = label_name)]
    name: String,

    #[command(flatten)]
    quota: QuotaArgs,

    #[command(flatten)]
    rules: RuleArgs,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.name;
        if self.dry_run {
            let all: Vec<Project> = rest
                .list(&Default::default())
                .await
                .map_err(unable("list the projects"))?;
            let line = match all.iter().any(|project| project.name == *name) {
                true => format!("{name} already exists\n"),
                false => format!("would create {name}\n"),
            };
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let said = self.rules.over(self.quota, Settings::default());
        let new = NewProject {
            name: name.clone(),
            quota: said.quota,
            defaults: said.defaults,
            allow_from: said.allow_from,
            privileged_ports: said.privileged_ports,
        };
        let made = rest.create::<Project>(&new).await;
        let made = made.map_err(unable(format!("create the project {name}")))?;
        session.printer.note(&format!("created {name}"));
        match self.output.requested() {
            Some(format) => output::one(session, format, &made),
            None => Ok(()),
        }
    }
}
