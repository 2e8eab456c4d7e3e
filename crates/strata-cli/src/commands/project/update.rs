//! `strata project update`: changes what a project may have. What it has
//! stays.

use clap::Args;
use strata_api::rest::Project;
use strata_client::rest::Query;

use super::One;
use super::quota::{QuotaArgs, RuleArgs, Settings};
use crate::commands::spec::{differences, merge_patch, value};
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// Change what a project may have
#[derive(Args, Debug)]
#[command(after_help = "\
What is not said stays; none takes a limit away. What it has stays as well.

Examples:
  strata project update shop --memory 32GB
  strata project update shop --default-memory 512MB --pids 20000
  strata project update shop --allow-from front
  strata project update shop --instances none --dry-run")]
pub struct Update {
    #[command(flatten)]
    one: One,

    #[command(flatten)]
    quota: QuotaArgs,

    #[command(flatten)]
    rules: RuleArgs,

    /// Only say what would be changed
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
            session.printer.note(&format!("{name} is so already"));
            return Ok(());
        }
        if self.dry_run {
            let lines: String = different.iter().map(|one| format!("  {one}\n")).collect();
            let text = format!("would change {name}\n{lines}");
            return Ok(session.printer.data(text.as_bytes())?);
        }
        let patch = merge_patch(&before, &after);
        let tag = now.etag.as_deref();
        let changed = rest
            .update::<Project>(name, &Query::new(), &patch, tag)
            .await;
        let changed = changed.map_err(failed())?;
        session.printer.note(&format!("changed {name}"));
        match self.output.asked() {
            Some(format) => output::one(session, format, &changed),
            None => Ok(()),
        }
    }
}
