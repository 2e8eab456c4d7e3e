//! `strata cluster upgrade`: brings a cluster to another version, machine by
//! machine, while it is in use.

use clap::Args;
use strata_api::rest::{Cluster, UpgradePlan, UpgradeRequest, UpgradeTargets};
use strata_client::rest::{Query, RestClient};

use super::ClusterArg;
use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Exit, Failure, Result, unable};
use crate::output::{self, Format, human};
use crate::session::Session;

/// Upgrade a cluster without downtime
#[derive(Args, Debug)]
#[command(after_help = "\
ClusterArg minor version at a time: control-plane machines first, one after the
other, then workers, each drained first. A failure stops the upgrade; the same
command resumes it. Without VERSION, lists the versions it can be upgraded to.

Examples:
  strata cluster upgrade dev
  strata cluster upgrade dev 1.35 --dry-run
  strata cluster upgrade dev v1.35.4")]
pub struct Upgrade {
    #[command(flatten)]
    one: ClusterArg,

    /// Kubernetes version, e.g. v1.35.4, or 1.35 for its newest patch release
    #[arg(add = crate::complete::kubernetes())]
    version: Option<String>,

    /// Show the steps and what blocks them, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Upgrade {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.one.name;
        let failed = || unable(format!("upgrade the cluster {name}"));
        let Some(version) = &self.version else {
            return targets(session, &rest, name, self.wait.output().format()).await;
        };
        if self.dry_run {
            let query = Query::new().with("version", version);
            let plan = rest.part::<Cluster, UpgradePlan>(name, "upgrade", &query);
            let plan = plan.await.map_err(failed())?;
            return print(session, self.wait.output().format(), &plan);
        }
        let version = version.clone();
        let asked = UpgradeRequest { version };
        let begun = rest.begin::<Cluster>(name, "upgrade", &asked).await;
        let begun = begun.map_err(failed())?;
        let told = (
            &*format!("upgrading the cluster {name} to {}", asked.version),
            &*format!("upgraded the cluster {name} to {}", asked.version),
        );
        self.wait.one(session, &rest, &begun, told).await
    }
}

async fn targets(session: &mut Session, rest: &RestClient, name: &str, format: Format) -> Result {
    let query = Query::new();
    let found = rest.part::<Cluster, UpgradeTargets>(name, "upgrade", &query);
    let failed = unable(format!("list the upgrade targets of the cluster {name}"));
    let found = found.await.map_err(failed)?;
    if matches!(format, Format::Json | Format::Yaml) {
        return output::document(session, format, &found);
    }
    if found.versions.is_empty() {
        let note = format!(
            "no newer version available for {name}; `strata cluster versions` lists the installable versions"
        );
        session.printer.note(&note);
        return Ok(());
    }
    let lines: String = found.versions.iter().map(|v| format!("{v}\n")).collect();
    Ok(session.printer.data(lines.as_bytes())?)
}

/// Blockers make it fail, as they would the upgrade.
fn print(session: &mut Session, format: Format, plan: &UpgradePlan) -> Result {
    match format {
        Format::Json | Format::Yaml => output::document(session, format, plan)?,
        Format::Table | Format::Wide | Format::Name => {
            if !plan.steps.is_empty() {
                output::rows(session, format, &plan.steps, "")?;
            }
            if format != Format::Name {
                let many = human::count(plan.steps.len(), "machine");
                let line = format!("would upgrade {many} from {} to {}\n", plan.from, plan.to);
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
