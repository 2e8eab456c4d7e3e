//! `strata project update`: changes what a project may have. What it has
//! stays.

use clap::Args;
use strata_api::rest::Project;
use strata_client::rest::Query;

use super::ProjectArg;
use super::quota::{QuotaArgs, RuleArgs, Settings};
use crate::commands::spec::{differences, merge_patch, value};
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// Update a project
#[derive(Args, Debug)]
#[command(after_help = "\
Flags that are not given keep their value; none removes a limit. Existing
instances are not changed.

Examples:
  strata project update shop --memory 32GB
  strata project update shop --default-memory 512MB --pids 20000
  strata project update shop --allow-from front
  strata project update shop --instances none --dry-run")]
pub struct Update {
    #[command(flatten)]
    one: ProjectArg,

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

impl Update {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.one.name;
        let failed = || unable(format!("update the project {name}"));
        let now = rest.get::<Project>(name, &Query::new()).await;
        let now = now.map_err(failed())?;
        let before = Settings::from(&now.object);
        let after = self.rules.over(self.quota, before.clone());
        let (before, after) = (value(&before)?, value(&after)?);
        let different = differences(&before, &after);
        if different.is_empty() {
            session.printer.note(&format!("{name} is unchanged"));
            return Ok(());
        }
        if self.dry_run {
            let lines: String = different.iter().map(|one| format!("  {one}\n")).collect();
            let text = format!("would update {name}\n{lines}");
            return Ok(session.printer.data(text.as_bytes())?);
        }
        let patch = merge_patch(&before, &after);
        let tag = now.etag.as_deref();
        let changed = rest
            .update::<Project>(name, &Query::new(), &patch, tag)
            .await;
        let changed = changed.map_err(failed())?;
        session.printer.note(&format!("updated {name}"));
        match self.output.requested() {
            Some(format) => output::one(session, format, &changed),
            None => Ok(()),
        }
    }
}
