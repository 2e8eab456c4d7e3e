//! `strata cluster upgrade`: brings a cluster to another version, machine by
//! machine, while it is in use.

use clap::Args;
use strata_api::rest::{Cluster, UpgradePlan, UpgradeRequest, UpgradeTargets};
use strata_client::rest::{Query, RestClient};

use super::One;
use crate::commands::begun::Staying;
use crate::failure::{Exit, Failure, Result, unable};
use crate::output::{self, Format, human};
use crate::session::Session;

/// Bring a cluster to another version, while it is in use
#[derive(Args, Debug)]
#[command(after_help = "\
One minor version at a time: what controls the cluster first, one machine after
the other, then its workers, each emptied before. What fails stops it there; the
same command goes on. Without VERSION, tells where it can go.

Examples:
  strata cluster upgrade dev
  strata cluster upgrade dev 1.35 --dry-run
  strata cluster upgrade dev v1.35.4")]
pub struct Upgrade {
    #[command(flatten)]
    one: One,

    /// Of Kubernetes: v1.35.4, or 1.35 for the newest of these there is
    #[arg(add = crate::complete::kubernetes())]
    version: Option<String>,

    /// Only say what would be done, and what is in the way
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    staying: Staying,
}

impl Upgrade {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.one.name;
        let failed = || unable(format!("upgrade the cluster {name}"));
        let Some(version) = &self.version else {
            return targets(session, &rest, name, self.staying.output().format()).await;
        };
        if self.dry_run {
            let query = Query::new().with("version", version);
            let plan = rest.part::<Cluster, UpgradePlan>(name, "upgrade", &query);
            let plan = plan.await.map_err(failed())?;
            return print(session, self.staying.output().format(), &plan);
        }
        let version = version.clone();
        let asked = UpgradeRequest { version };
        let begun = rest.begin::<Cluster>(name, "upgrade", &asked).await;
        let begun = begun.map_err(failed())?;
        let told = (
            &*format!("upgrading the cluster {name} to {}", asked.version),
            &*format!("upgraded the cluster {name} to {}", asked.version),
        );
        self.staying.one(session, &rest, &begun, told).await
    }
}

async fn targets(session: &mut Session, rest: &RestClient, name: &str, format: Format) -> Result {
    let query = Query::new();
    let found = rest.part::<Cluster, UpgradeTargets>(name, "upgrade", &query);
    let failed = unable(format!("look where the cluster {name} can go"));
    let found = found.await.map_err(failed)?;
    if matches!(format, Format::Json | Format::Yaml) {
        return output::document(session, format, &found);
    }
    if found.versions.is_empty() {
        let note =
            format!("{name} can go nowhere now; `strata cluster versions` tells what is here");
        session.printer.note(&note);
        return Ok(());
    }
    let lines: String = found.versions.iter().map(|v| format!("{v}\n")).collect();
    Ok(session.printer.data(lines.as_bytes())?)
}

/// What is in the way makes it fail, as it would the upgrade.
fn print(session: &mut Session, format: Format, plan: &UpgradePlan) -> Result {
    match format {
        Format::Json | Format::Yaml => output::document(session, format, plan)?,
        Format::Table | Format::Wide | Format::Name => {
            if !plan.steps.is_empty() {
                output::rows(session, format, &plan.steps, "")?;
            }
            if format != Format::Name {
                let many = human::count(plan.steps.len(), "machine");
                let line = format!("would bring {many} from {} to {}\n", plan.from, plan.to);
                session.printer.data(line.as_bytes())?;
            }
        }
    }
    let Some(first) = plan.blockers.first() else {
        return Ok(());
    };
    let what = human::count(plan.blockers.len(), "thing");
    let mut failure = Failure::new(Exit::Refused, format!("{what} in the way of {}", plan.to));
    for blocker in &plan.blockers {
        failure = failure.because(&blocker.what);
    }
    Err(match first.hint.as_str() {
        "" => failure,
        hint => failure.hint(hint),
    })
}
