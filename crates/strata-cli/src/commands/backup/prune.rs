//! `strata backup prune`: forgets what no rule keeps, and frees what only that
//! had.

use clap::Args;
use strata_api::rest::{Backup, PrunePlan, PruneRequest};

use super::keep::KeepArgs;
use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Result, unable};
use crate::output::{self, Column, Format, Table, human};
use crate::printer::Printer;
use crate::session::Session;
use crate::view::short_id;

/// Delete old backups and free their data
#[derive(Args, Debug)]
#[command(after_help = "\
A backup is kept if any rule keeps it. Without rules, those of the server
configuration apply. Ctrl-C detaches; the operation continues on the server.

Examples:
  strata backup prune --dry-run
  strata backup prune --keep-last 3 --keep-daily 7 --keep-monthly 12 --yes")]
pub struct Prune {
    #[command(flatten)]
    keep: KeepArgs,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would be deleted, without deleting anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Prune {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let failed = || unable("prune the backups");
        let asked = PruneRequest {
            keep: self.keep.given(),
        };
        if self.dry_run || (session.interactive && !self.yes) {
            let plan = rest.plan::<Backup, PrunePlan>("", "prune", &asked).await;
            let plan = plan.map_err(failed())?;
            if self.dry_run {
                return print(session, self.wait.output().format(), &plan);
            }
            if !plan.forget.is_empty() {
                let ids: Vec<&str> = plan.forget.iter().map(|id| short_id(id)).collect();
                session.confirm(&format!("Delete {}?", ids.join(", ")), false)?;
            }
        }
        let begun = rest.begin::<Backup>("", "prune", &asked).await;
        let begun = begun.map_err(failed())?;
        let told = ("pruning the backups", "pruned the backups");
        self.wait.one(session, &rest, &begun, told).await
    }
}

fn print(session: &mut Session, format: Format, plan: &PrunePlan) -> Result {
    let text = match format {
        Format::Json | Format::Yaml => return output::document(session, format, plan),
        Format::Name => {
            let ids = plan.forget.iter();
            ids.map(|id| format!("backup/{id}\n")).collect()
        }
        Format::Table | Format::Wide => described(plan, &session.printer),
    };
    Ok(session.printer.data(text.as_bytes())?)
}

fn described(plan: &PrunePlan, printer: &Printer) -> String {
    let columns = ["ID", "WOULD", "BECAUSE"].map(Column::new);
    let mut table = Table::new(columns.to_vec());
    for id in &plan.forget {
        table.push(vec![
            short_id(id).into(),
            "go".into(),
            "no rule keeps it".into(),
        ]);
    }
    for kept in &plan.keep {
        let because = kept.because.join(", ");
        table.push(vec![
            short_id(&kept.id).into(),
            "stay".into(),
            because.into(),
        ]);
    }
    let mut text = String::new();
    if !(plan.forget.is_empty() && plan.keep.is_empty()) {
        text.push_str(&table.render(printer.width, printer.color, true));
    }
    let (go, stay) = (plan.forget.len(), plan.keep.len());
    let go = human::count(go, "backup");
    text.push_str(&format!("would delete {go} and keep {stay}\n"));
    text
}
