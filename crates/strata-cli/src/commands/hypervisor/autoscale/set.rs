//! `strata hypervisor autoscale set`: changes what the autoscaler goes by.
//! What is not said stays.

use clap::{ArgGroup, Args};
use serde_json::{Map, Value};
use strata_api::rest::Autoscaling;
use strata_client::rest::Query;

use super::current;
use super::show::print;
use crate::commands::spec::{differences, value};
use crate::failure::{Exit, Failure, Result, unable};
use crate::output::OutputArgs;
use crate::session::Session;
use crate::values::{Bytes, Millicpus};

/// Update the autoscaler settings
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("said").required(true).multiple(true)
    .args(["cpu", "memory", "gpu", "least", "most", "on", "off"]))]
#[command(after_help = "\
Settings that are not given keep their value. While the autoscaler is
disabled, it does nothing.

Examples:
  strata hypervisor autoscale set --cpu 4 --memory 8GB --on
  strata hypervisor autoscale set --least 1 --most 5
  strata hypervisor autoscale set --off")]
pub struct Set {
    /// Free CPU to keep, e.g. 4 or 500m
    #[arg(long, value_name = "N", value_parser = cpu)]
    cpu: Option<u64>,

    /// Free memory to keep
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,

    /// Free GPUs to keep
    #[arg(long, value_name = "N")]
    gpu: Option<u32>,

    /// Minimum number of hypervisors
    #[arg(long, value_name = "N")]
    least: Option<u32>,

    /// Maximum number of hypervisors; 0 for all machines
    #[arg(long, value_name = "N")]
    most: Option<u32>,

    /// Enable the autoscaler
    #[arg(long, conflicts_with = "off")]
    on: bool,

    /// Disable the autoscaler
    #[arg(long)]
    off: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// Millicores; unlike the limit of an instance, it may be 0.
fn cpu(text: &str) -> std::result::Result<u64, String> {
    match text {
        "0" => Ok(0),
        text => text.parse().map(|Millicpus(n)| n.into()),
    }
}

impl Set {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let patch = self.patch();
        if let (Some(least), Some(most)) = (self.least, self.most)
            && most > 0
            && least > most
        {
            let what = format!("--least {least} is more than --most {most}");
            return Err(Failure::new(Exit::Usage, what));
        }
        if self.dry_run {
            let now = value(&current(&rest).await?)?;
            let mut after = now.clone();
            if let Value::Object(fields) = &mut after {
                fields.extend(patch);
            }
            let lines = differences(&now, &after);
            let text: String = match lines.is_empty() {
                true => "the autoscaler settings are unchanged\n".to_owned(),
                false => lines
                    .iter()
                    .map(|line| format!("would change {line}\n"))
                    .collect(),
            };
            return Ok(session.printer.data(text.as_bytes())?);
        }
        let changed = rest
            .update::<Autoscaling>("", &Query::new(), &patch, None)
            .await;
        let changed = changed.map_err(unable("update the autoscaler settings"))?;
        session.printer.note("updated the autoscaler settings");
        match self.output.requested() {
            Some(format) => print(session, format, &changed),
            None => Ok(()),
        }
    }

    fn patch(&self) -> Map<String, Value> {
        let enabled = match (self.on, self.off) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        };
        let memory = self.memory.map(|Bytes(n)| n.div_ceil(1_000_000));
        let said = [
            ("enabled", enabled.map(Value::from)),
            ("cpu", self.cpu.map(Value::from)),
            ("memory", memory.map(Value::from)),
            ("gpu", self.gpu.map(Value::from)),
            ("least", self.least.map(Value::from)),
            ("most", self.most.map(Value::from)),
        ];
        let said = said.into_iter();
        said.filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    }
}
