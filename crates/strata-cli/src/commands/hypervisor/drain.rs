//! `strata hypervisor drain`: moves the instances of a hypervisor elsewhere,
//! and takes it down then if told so.

use clap::Args;
use strata_api::rest::HypervisorDrain;
use strata_client::rest::Hypervisor;

use super::Several;
use crate::commands::begun::{Doing, Staying};
use crate::commands::each::preview;
use crate::commands::machine::current;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Move the instances of a hypervisor elsewhere
#[derive(Args, Debug)]
#[command(after_help = "\
Stays until nothing is left on it. Ctrl-C leaves it to the server.
`strata node undrain ID` lets it take instances again.

Examples:
  strata hypervisor drain rack1-7
  strata hypervisor drain rack1-7 --destroy --detach")]
pub struct Drain {
    #[command(flatten)]
    which: Several,

    /// Take it down when it is empty
    #[arg(long)]
    destroy: bool,

    #[command(flatten)]
    staying: Staying,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Drain {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let ids = &self.which.ids;
        if self.dry_run {
            return preview(session, ids, async |id| {
                let machine = current(&rest, id, "look at").await?;
                let many = human::count(machine.instances, "instance");
                let then = if self.destroy {
                    ", then destroy it"
                } else {
                    ""
                };
                Ok(format!("would move {many} from {id}{then}"))
            })
            .await;
        }
        let words = Doing {
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
        let staying = &self.staying;
        staying.each(session, &rest, &words, ids, begin).await
    }
}
