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

/// Make an instance, and see it through until it runs
#[derive(Args, Debug)]
#[command(after_help = "\
Ctrl-C leaves the rest to the server. The same instance again is fine; another
of the same name is refused. Exits with 7 when it cannot run.

Examples:
  strata instance create web --image nginx:1.27 -p 8080:80 --memory 256MB
  strata instance create job --image alpine --restart never -- sh -c 'sleep 9'
  strata instance create db --image postgres --cpu 500m --constraint zone=eu
  strata instance create web-2 --workload web --project shop --detach
  strata instance create vm1 --type vm --image /srv/debian.qcow2 --memory 2GB")]
pub struct Create {
    /// Its name
    #[arg(value_parser = label_name)]
    name: String,

    #[command(flatten)]
    scope: Scope,

    /// Make it as this workload says, which then says everything
    #[arg(long, value_parser = object_name, add = complete::workloads())]
    #[arg(conflicts_with = "SpecArgs")]
    workload: Option<String>,

    #[command(flatten)]
    spec: SpecArgs,

    /// Let it rest until it is started
    #[arg(long)]
    stopped: bool,

    /// Do not wait for it; print its id
    #[arg(short, long)]
    detach: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        if self.workload.is_none() && self.spec.image.is_none() {
            let what = "an instance needs --image URI, or --workload to be made from";
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
            project: self.scope.said().map(str::to_owned),
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
        let asked = self.output.asked();
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

/// What making it would come to.
async fn dry_run(rest: &RestClient, new: &NewInstance, scope: &Scope) -> Result<String> {
    let name = new.name.as_deref().unwrap_or_default();
    if let Some(spec) = &new.spec {
        spec.check().map_err(|why| {
            let what = format!("{name} would be refused");
            Failure::new(Exit::Refused, what).because(why.to_string())
        })?;
    }
    let there = match rest.get::<Instance>(name, &scope.query()).await {
        Ok(found) => found.object,
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
            return Ok(format!("would create {}\n", scope.full(name)));
        }
        Err(error) => return Err(unable(format!("look at the instance {name}"))(error)),
    };
    let different = match &new.spec {
        Some(spec) => differences(&value(&spec_of(&there))?, &value(spec)?),
        None => Vec::new(),
    };
    if different.is_empty() {
        return Ok(format!("{name} is there already\n"));
    }
    let failure = Failure::new(Exit::Refused, format!("another {name} is there already"));
    let failure = different
        .iter()
        .fold(failure, |failure, one| failure.because(one.to_string()));
    Err(failure.hint(format!("change it with `strata instance update {name}`")))
}
