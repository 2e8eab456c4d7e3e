//! `strata workload update`: changes a template. What was made of it stays.

use clap::Args;
use strata_api::rest::Workload;

use super::WorkloadArg;
use crate::commands::spec::{SpecArgs, differences, merge_patch, value};
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs, human};
use crate::session::Session;
use crate::values::label_name;

/// Update a workload; its instances are not changed
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata workload update web --image nginx:1.28
  strata workload update web --memory 512MB --dry-run")]
pub struct Update {
    #[command(flatten)]
    one: WorkloadArg,

    /// New name
    #[arg(id = "new_name", long = "name", value_name = "NAME", value_parser = label_name)]
    rename: Option<String>,

    #[command(flatten)]
    spec: SpecArgs,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Update {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let now = self.one.get(&rest, "update").await?;
        let name = &self.one.name;
        let mut spec = now.object.spec.clone();
        self.spec.over(&mut spec)?;
        let (mut before, mut after) = (value(&now.object.spec)?, value(&spec)?);
        before["name"] = now.object.name.clone().into();
        after["name"] = self.rename.unwrap_or(now.object.name.clone()).into();
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
        let (query, tag) = (self.one.scope.query(), now.etag.as_deref());
        let changed = rest.update::<Workload>(&now.object.id, &query, &patch, tag);
        let changed = changed.await;
        let changed = changed.map_err(unable(format!("update the workload {name}")))?;
        session.printer.note(&format!("updated {name}"));
        if changed.instances > 0 {
            let many = human::count(changed.instances, "instance");
            session
                .printer
                .note(&format!("existing instances are not changed: {many}"));
        }
        match self.output.requested() {
            Some(format) => output::one(session, format, &changed),
            None => Ok(()),
        }
    }
}
