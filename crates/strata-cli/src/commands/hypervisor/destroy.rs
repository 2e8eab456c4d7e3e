//! `strata hypervisor destroy`: takes hypervisors down as they are. Instances
//! there die and are started anew elsewhere; `drain` is the gentle way.

use clap::Args;
use serde_json::json;
use strata_client::rest::{Hypervisor, RestClient};

use super::Several;
use crate::commands::begun::{Doing, Staying};
use crate::commands::each::preview;
use crate::commands::machine::current;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Take hypervisors down at once; what is on them is not moved
#[derive(Args, Debug)]
#[command(after_help = "\
Nothing is migrated: instances there end, and the server starts them anew on
others. `strata hypervisor drain ID --destroy` moves them first.
Ctrl-C leaves it to the server.

Examples:
  strata hypervisor destroy rack1-7
  strata hypervisor destroy rack1-7 rack1-8 --yes --detach")]
pub struct Destroy {
    #[command(flatten)]
    which: Several,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    staying: Staying,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

const WORDS: Doing = Doing {
    doing: "destroying",
    done: "destroyed",
};

impl Destroy {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let ids = &self.which.ids;
        if self.dry_run {
            return preview(session, ids, async |id| {
                let machine = current(&rest, id, "look at").await?;
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
        let staying = &self.staying;
        staying.each(session, &rest, &WORDS, ids, begin).await
    }

    /// An empty one is nobody's loss: it can be created again.
    async fn ask(&self, session: &mut Session, rest: &RestClient) -> Result {
        let mut instances = 0;
        for id in &self.which.ids {
            instances += current(rest, id, "look at").await?.instances;
        }
        if instances == 0 {
            return Ok(());
        }
        let ids = self.which.ids.join(", ");
        session.printer.warn(&format!(
            "{} there will end: nothing is migrated, they start anew elsewhere.\n\
             `strata hypervisor drain ID --destroy` moves them first.",
            human::count(instances, "instance")
        ));
        session.confirm(&format!("Destroy {ids}?"), false)
    }
}
