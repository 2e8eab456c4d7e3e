//! `strata hypervisor drain`: moves the instances of a hypervisor elsewhere,
//! and takes it down then if told so.

use clap::Args;
use strata_api::rest::HypervisorDrain;
use strata_client::rest::Hypervisor;

use super::HypervisorsArg;
use crate::commands::bulk::preview;
use crate::commands::machine::current;
use crate::commands::operation_wait::{ActionLabels, WaitArgs};
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Evict the instances of a hypervisor to other nodes
#[derive(Args, Debug)]
#[command(after_help = "\
Waits until nothing is left on it. Ctrl-C detaches; the operation continues on
the server. `strata node undrain ID` makes it schedulable again.

Examples:
  strata hypervisor drain rack1-7
  strata hypervisor drain rack1-7 --destroy --detach")]
pub struct Drain {
    #[command(flatten)]
    which: HypervisorsArg,

    /// Destroy it once it is drained
    #[arg(long)]
    destroy: bool,

    #[command(flatten)]
    wait: WaitArgs,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Drain {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let ids = &self.which.ids;
        if self.dry_run {
            return preview(session, ids, async |id| {
                let machine = current(&rest, id, "read").await?;
                let many = human::count(machine.instances, "instance");
                let then = if self.destroy {
                    ", then destroy it"
                } else {
                    ""
                };
                Ok(format!("would evict {many} from {id}{then}"))
            })
            .await;
        }
        let words = ActionLabels {
            doing: "draining",
            done: match self.destroy {
                true => "drained and destroyed",
                false => "drained",
            },
        };
        let asked = HypervisorDrain {
            destroy: self.destroy,
        };
        let begin = async |id: &str| {
            let begun = rest.begin::<Hypervisor>(id, "drain", &asked).await;
            begun.map_err(unable(format!("drain the hypervisor {id}")))
        };
        let wait = &self.wait;
        wait.each(session, &rest, &words, ids, begin).await
    }
}
