//! `strata instance create`: makes an instance and sees it through until it
//! runs, or says what it would do.

use clap::Args;
use strata_api::rest::{Instance, InstanceState, NewInstance};
use strata_client::rest::RestClient;
use strata_types::ErrorKind;
use strata_types::instance::InstanceSpec;

use super::follow::{Goal, follow, full};
use crate::commands::scope::Scope;
use crate::commands::spec::{SpecArgs, differences, spec_of, value};
use crate::complete;
use crate::failure::{Exit, Failure, Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::{label_name, object_name};

/// Create an instance and wait until it runs
#[derive(Args, Debug)]
#[command(after_help = "\
Ctrl-C detaches; the server continues. Creating the same instance again
succeeds; one that differs is rejected. Exits with 7 if it cannot run.

Examples:
  strata instance create web --image nginx:1.27 -p 8080:80 --memory 256MB
  strata instance create job --image alpine --restart never -- sh -c 'sleep 9'
  strata instance create db --image postgres --cpu 500m --constraint zone=eu
  strata instance create web-2 --workload web --project shop --detach
  strata instance create vm1 --type vm --image /srv/debian.qcow2 --memory 2GB")]
pub struct Create {
    /// Name
    #[arg(value_parser = label_name)]
    name: String,

    #[command(flatten)]
    scope: Scope,

    /// Create it from this workload, which provides the whole specification
    #[arg(long, value_parser = object_name, add = complete::workloads())]
    #[arg(conflicts_with = "SpecArgs")]
    workload: Option<String>,

    #[command(flatten)]
    spec: SpecArgs,

    /// Create without starting
    #[arg(long)]
    stopped: bool,

    /// Return immediately and print its ID
    #[arg(short, long)]
    detach: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        if self.workload.is_none() && self.spec.image.is_none() {
            let what = "an instance requires --image URI or --workload";
            return Err(Failure::new(Exit::Usage, what));
        }
        let spec = match self.workload {
            Some(_) => None,
            None => {
                let mut spec = InstanceSpec::default();
                self.spec.over(&mut spec)?;
                Some(spec)
            }
        };
        let new = NewInstance {
            id: None,
            name: Some(self.name.clone()),
            project: self.scope.given().map(str::to_owned),
            workload_id: self.workload,
            status: self.stopped.then_some(InstanceState::Stopped),
            spec,
        };
        let rest = session.rest().await?;
        if self.dry_run {
            let line = dry_run(&rest, &new, &self.scope).await?;
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let made: Instance = rest
            .create(&new)
            .await
            .map_err(unable(format!("create the instance {}", self.name)))?;
        session.printer.note(&format!("created {}", full(&made)));
        let asked = self.output.requested();
        if self.detach || self.stopped {
            return match asked {
                Some(format) => output::one(session, format, &made),
                None if self.detach => {
                    Ok(session.printer.data(format!("{}\n", made.id).as_bytes())?)
                }
                None => Ok(()),
            };
        }
        follow(session, &rest, &made, Goal::Running).await?;
        match asked {
            Some(format) => {
                let now = rest.get::<Instance>(&made.id, &Default::default()).await;
                let now = now.map_err(unable(format!("show the instance {}", self.name)))?;
                output::one(session, format, &now.object)
            }
            None => Ok(()),
        }
    }
}

/// Result of a dry run.
async fn dry_run(rest: &RestClient, new: &NewInstance, scope: &Scope) -> Result<String> {
    let name = new.name.as_deref().unwrap_or_default();
    if let Some(spec) = &new.spec {
        spec.check().map_err(|why| {
            let what = format!("{name} would be rejected");
            Failure::new(Exit::Refused, what).because(why.to_string())
        })?;
    }
    let there = match rest.get::<Instance>(name, &scope.query()).await {
        Ok(found) => found.object,
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
            return Ok(format!("would create {}\n", scope.full(name)));
        }
        Err(error) => return Err(unable(format!("read the instance {name}"))(error)),
    };
    let different = match &new.spec {
        Some(spec) => differences(&value(&spec_of(&there))?, &value(spec)?),
        None => Vec::new(),
    };
    if different.is_empty() {
        return Ok(format!("{name} already exists\n"));
    }
    let failure = Failure::new(
        Exit::Refused,
        format!("{name} already exists with a different specification"),
    );
    let failure = different
        .iter()
        .fold(failure, |failure, one| failure.because(one.to_string()));
    Err(failure.hint(format!("change it with `strata instance update {name}`")))
}
