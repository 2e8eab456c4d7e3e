//! `strata hypervisor autoscale plan`: what would be brought up or down now,
//! and why. Also while it is off, to see what on would do.

use clap::Args;
use strata_api::rest::{AutoscalePlan, Autoscaling};
use strata_client::rest::Query;

use super::room;
use crate::failure::{Result, unable};
use crate::output::{self, Column, Format, OutputArgs, Table};
use crate::session::Session;

/// Show what the autoscaler would do now, and why
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata hypervisor autoscale plan
  strata hypervisor autoscale plan -o json | jq .create")]
pub struct Plan {
    #[command(flatten)]
    output: OutputArgs,
}

impl Plan {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let all = Query::new();
        let plan = rest.part::<Autoscaling, AutoscalePlan>("", "plan", &all);
        let plan = plan.await.map_err(unable("preview the autoscaler"))?;
        let text = match self.output.format() {
            format @ (Format::Json | Format::Yaml) => {
                return output::document(session, format, &plan);
            }
            Format::Name => {
                let steps = plan.create.iter().chain(&plan.destroy);
                steps
                    .map(|step| format!("hypervisor/{}\n", step.machine))
                    .collect()
            }
            Format::Table | Format::Wide => {
                let wide = self.output.format() == Format::Wide;
                let width = if wide {
                    Some(usize::MAX)
                } else {
                    session.printer.width
                };
                described(&plan, width, session.printer.color)
            }
        };
        Ok(session.printer.data(text.as_bytes())?)
    }
}

fn described(plan: &AutoscalePlan, width: Option<usize>, color: bool) -> String {
    let mut text = String::new();
    if !(plan.create.is_empty() && plan.destroy.is_empty()) {
        let mut table = Table::new(vec![
            Column::new("ID"),
            Column::new("WOULD"),
            Column::text("WHY"),
        ]);
        let create = plan.create.iter().map(|step| (step, "create"));
        let destroy = plan.destroy.iter().map(|step| (step, "drain, destroy"));
        for (step, verb) in create.chain(destroy) {
            table.push(vec![
                (&step.machine).into(),
                verb.into(),
                (&step.why).into(),
            ]);
        }
        text.push_str(&table.render(width, color, true));
    }
    let (free, waiting, kept) = (&plan.free, &plan.waiting, &plan.settings);
    let free = room(free.cpu, free.memory, free.gpu);
    let kept = room(kept.cpu, kept.memory, kept.gpu);
    text.push_str(&format!("free: {free}; target: {kept}\n"));
    let waiting = room(waiting.cpu, waiting.memory, waiting.gpu);
    if waiting != "nothing" {
        text.push_str(&format!("unschedulable: {waiting}\n"));
    }
    if !plan.message.is_empty() {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        text.extend(plan.message.chars().map(plain));
        text.push('\n');
    }
    if !plan.settings.enabled {
        text.push_str("the autoscaler is disabled\n");
    }
    text
}
