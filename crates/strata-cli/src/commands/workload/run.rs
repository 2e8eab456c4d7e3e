//! `strata workload run`: makes instances of a workload, and sees each of
//! them through.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use clap::Args;
use strata_api::rest::{Instance, NewInstance};

use super::WorkloadArg;
use crate::commands::instance::follow::{Goal, follow, full};
use crate::commands::last;
use crate::failure::{Exit, Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::label_name;

/// Create instances of a workload
#[derive(Args, Debug)]
#[command(after_help = "\
Without --as each instance gets a generated name. Exits with 7 if one of them
cannot run.

Examples:
  strata workload run web
  strata workload run web --count 3 --detach -o name
  strata workload run web --as web-1")]
pub struct Run {
    #[command(flatten)]
    one: WorkloadArg,

    /// Number of instances
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,

    /// Name; with several instances, the prefix of their names
    #[arg(long = "as", value_name = "NAME", value_parser = label_name)]
    alias: Option<String>,

    /// Return immediately, without waiting for them
    #[arg(short, long)]
    detach: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Run {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let workload = self.one.get(&rest, "run").await?.object;
        if self.dry_run {
            let what = format!("would create {} of {}\n", self.count, self.one.name);
            return Ok(session.printer.data(what.as_bytes())?);
        }
        let mut made = Vec::new();
        let mut failures = Vec::new();
        for number in 1..=self.count {
            let new = NewInstance {
                name: Some(self.name(&workload.name, number)),
                project: Some(workload.project.clone()),
                workload_id: Some(workload.id.clone()),
                ..Default::default()
            };
            let answer = rest.create::<Instance>(&new).await;
            match answer.map_err(unable(format!("run the workload {}", self.one.name))) {
                Ok(instance) => {
                    session
                        .printer
                        .note(&format!("created {}", full(&instance)));
                    made.push(instance);
                }
                Err(failure) => {
                    // What is refused once is refused again: a quota, most likely.
                    failures.push(failure);
                    break;
                }
            }
        }
        if !self.detach {
            for instance in &made {
                match follow(session, &rest, instance, Goal::Running).await {
                    Err(failure) if failure.exit() == Exit::Interrupted => return Err(failure),
                    Err(failure) => failures.push(failure),
                    Ok(()) => {}
                }
            }
        }
        if let Some(format) = self.output.requested() {
            output::rows(session, format, &made, "")?;
        }
        last(session, failures)
    }

    fn name(&self, workload: &str, number: u32) -> String {
        match (&self.alias, self.count) {
            (Some(alias), 1) => alias.clone(),
            (Some(alias), _) => format!("{alias}-{number}"),
            (None, _) => own_name(workload),
        }
    }
}

/// A name for one of many: short enough for tables, and nobody else's.
fn own_name(workload: &str) -> String {
    const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let start: String = workload.chars().take(56).collect();
    let mut name = format!("{}-", start.trim_end_matches('-'));
    // The keys of hash maps are what the standard library has of chance.
    let mut chance = RandomState::new().build_hasher().finish();
    for _ in 0..6 {
        name.push(char::from(DIGITS[(chance % 36) as usize]));
        chance /= 36;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instance_has_a_name_of_its_own_that_is_one() {
        let long = format!("{}-{}", "x".repeat(55), "y".repeat(7));
        for workload in ["web", "a", &long] {
            let names: std::collections::BTreeSet<String> =
                (0..100).map(|_| own_name(workload)).collect();
            assert_eq!(names.len(), 100);
            for name in names {
                assert_eq!(label_name(&name), Ok(name));
            }
        }
    }
}
