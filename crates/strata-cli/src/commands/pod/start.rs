//! `strata pod start`: starts pods that were made or have ended.

use clap::Args;
use strata_api::strata::v1::StartPodRequest;

use super::current;
use crate::commands::last;
use crate::complete;
use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::values::label_name;

/// Start pods
#[derive(Args, Debug)]
#[command(after_help = "\
Answers once their processes run. Starting what runs already succeeds.

Examples:
  strata pod start web
  strata pod start web db")]
pub struct Start {
    /// The pods
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::pods())]
    names: Vec<String>,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Start {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let mut failures = Vec::new();
        for name in self.names {
            if self.dry_run {
                let pod = current(&node, &name, "look at").await?;
                let line = match pod.is_up() {
                    true => format!("{name} is {} already\n", pod.status.state),
                    false => format!("would start {name}\n"),
                };
                session.printer.data(line.as_bytes())?;
                continue;
            }
            let request = StartPodRequest { name: name.clone() };
            match node.pods().start(request).await {
                Ok(_) => session.printer.note(&format!("started {name}")),
                Err(status) => {
                    failures.push(cannot(&node, format!("start the pod {name}"))(status));
                }
            }
        }
        last(session, failures)
    }
}
