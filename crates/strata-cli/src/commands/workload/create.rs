//! `strata workload create`: makes a template of instances.

use clap::Args;
use strata_api::rest::{NewWorkload, Workload};
use strata_types::ErrorKind;
use strata_types::instance::InstanceSpec;

use crate::commands::scope::Scope;
use crate::commands::spec::{SpecArgs, differences, value};
use crate::failure::{Exit, Failure, Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::label_name;

/// Create a workload, without instances
#[derive(Args, Debug)]
#[command(after_help = "\
Creating the same workload again succeeds; one that differs is rejected.

Examples:
  strata workload create web --image nginx:1.27 -p 8080:80 --memory 256MB
  strata workload create job --image alpine --spread node -- sh -c 'sleep 9'")]
pub struct Create {
    /// Name
    #[arg(value_parser = label_name)]
    name: String,

    #[command(flatten)]
    scope: Scope,

    #[command(flatten)]
    spec: SpecArgs,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        if self.spec.image.is_none() {
            return Err(Failure::new(Exit::Usage, "a workload needs --image URI"));
        }
        let mut spec = InstanceSpec::default();
        self.spec.over(&mut spec)?;
        let rest = session.rest().await?;
        let name = self.scope.full(&self.name);
        if self.dry_run {
            spec.check().map_err(|why| {
                let what = format!("{name} would be rejected");
                Failure::new(Exit::Refused, what).because(why.to_string())
            })?;
            let line = match rest.get::<Workload>(&self.name, &self.scope.query()).await {
                Ok(there) => {
                    let there = value(&there.object.spec)?;
                    match differences(&there, &value(&spec)?).as_slice() {
                        [] => format!("{name} already exists\n"),
                        [first, ..] => {
                            let what = format!("another {name} already exists");
                            return Err(
                                Failure::new(Exit::Refused, what).because(first.to_string())
                            );
                        }
                    }
                }
                Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
                    format!("would create {name}\n")
                }
                Err(error) => return Err(unable(format!("read the workload {name}"))(error)),
            };
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let new = NewWorkload {
            id: None,
            name: self.name,
            project: self.scope.given().map(str::to_owned),
            spec,
        };
        let made = rest.create::<Workload>(&new).await;
        let made = made.map_err(unable(format!("create the workload {name}")))?;
        session.printer.note(&format!("created {name}"));
        match self.output.requested() {
            Some(format) => output::one(session, format, &made),
            None => Ok(()),
        }
    }
}
