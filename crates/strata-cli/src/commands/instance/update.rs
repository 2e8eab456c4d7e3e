//! `strata instance update`: changes what an instance is. It is changed as it
//! was seen: whoever changes it meanwhile wins, and we say so.

use clap::Args;
use strata_api::rest::Instance;

use super::InstanceArg;
use super::follow::{Goal, follow};
use crate::commands::spec::{SpecArgs, differences, merge_patch, spec_of, value};
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::label_name;

/// Update an instance; a running one is replaced
#[derive(Args, Debug)]
#[command(after_help = "\
Flags that are not given keep their value. Variables and labels are added to
the existing ones; ports, volumes and placement rules are replaced as a whole.

Examples:
  strata instance update web --image nginx:1.28
  strata instance update web --memory 512MB -e TZ=UTC --label old-
  strata instance update web --name shop-web --dry-run")]
pub struct Update {
    #[command(flatten)]
    one: InstanceArg,

    /// New name
    #[arg(id = "new_name", long = "name", value_name = "NAME", value_parser = label_name)]
    rename: Option<String>,

    #[command(flatten)]
    spec: SpecArgs,

    /// Return immediately, without waiting until it runs again
    #[arg(short, long)]
    detach: bool,

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
        let before = spec_of(&now.object);
        let mut spec = before.clone();
        self.spec.over(&mut spec)?;
        let (mut before, mut after) = (value(&before)?, value(&spec)?);
        before["name"] = now.object.name.clone().into();
        after["name"] = self.rename.unwrap_or(now.object.name.clone()).into();
        let different = differences(&before, &after);
        let name = &self.one.name;
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
            .update::<Instance>(&now.object.id, &self.one.scope.query(), &patch, tag)
            .await
            .map_err(unable(format!("update the instance {name}")))?;
        session.printer.note(&format!("updated {name}"));
        if !self.detach && changed.wanted == strata_api::rest::DesiredState::Running {
            follow(session, &rest, &changed, Goal::Running).await?;
        }
        match self.output.requested() {
            Some(format) => output::one(session, format, &changed),
            None => Ok(()),
        }
    }
}
