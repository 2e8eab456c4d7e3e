//! `strata hypervisor destroy`: takes hypervisors down as they are. Instances
//! there die and are started anew elsewhere; `drain` is the gentle way.

use clap::Args;
use serde_json::json;
use strata_client::rest::{Hypervisor, RestClient};

use super::HypervisorsArg;
use crate::commands::bulk::preview;
use crate::commands::machine::current;
use crate::commands::operation_wait::{ActionLabels, WaitArgs};
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Stop and wipe hypervisors without evicting instances
#[derive(Args, Debug)]
#[command(after_help = "\
Instances are not evicted: they stop, and are rescheduled to other nodes.
`strata hypervisor drain ID --destroy` evicts them first. Ctrl-C detaches; the
operation continues on the server.

Examples:
  strata hypervisor destroy rack1-7
  strata hypervisor destroy rack1-7 rack1-8 --yes --detach")]
pub struct Destroy {
    #[command(flatten)]
    which: HypervisorsArg,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    wait: WaitArgs,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

const LABELS: ActionLabels = ActionLabels {
    doing: "destroying",
    done: "destroyed",
};

impl Destroy {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let ids = &self.which.ids;
        if self.dry_run {
            return preview(session, ids, async |id| {
                let machine = current(&rest, id, "read").await?;
                Ok(match machine.instances {
                    0 => format!("would destroy {id}"),
                    n => {
                        let many = human::count(n, "instance");
                        format!("would destroy {id} with {many} on it")
                    }
                })
            })
            .await;
        }
        if !self.yes && session.interactive {
            self.ask(session, &rest).await?;
        }
        let begin = async |id: &str| {
            let begun = rest.begin::<Hypervisor>(id, "destroy", &json!({})).await;
            begun.map_err(unable(format!("destroy the hypervisor {id}")))
        };
        let wait = &self.wait;
        wait.each(session, &rest, &LABELS, ids, begin).await
    }

    /// A hypervisor without instances is destroyed without a prompt.
    async fn ask(&self, session: &mut Session, rest: &RestClient) -> Result {
        let mut instances = 0;
        for id in &self.which.ids {
            instances += current(rest, id, "read").await?.instances;
        }
        if instances == 0 {
            return Ok(());
        }
        let ids = self.which.ids.join(", ");
        session.printer.warn(&format!(
            "{} will be stopped and rescheduled: nothing is evicted first.\n\
             `strata hypervisor drain ID --destroy` evicts them first.",
            human::count(instances, "instance")
        ));
        session.confirm(&format!("Destroy {ids}?"), false)
    }
}
