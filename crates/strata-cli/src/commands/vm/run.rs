//! `strata vm run`: makes virtual machines and switches them on.

use clap::Args;

use super::create::{How, make};
use super::wanted::Wanted;
use crate::failure::Result;
use crate::session::Session;

/// Make a virtual machine and switch it on
#[derive(Args, Debug)]
#[command(after_help = "\
Files are those of the node's machine, seen from your folder; they are cloned,
not changed.

Examples:
  strata vm run build --image debian.qcow2 --memory 2GiB -p 2222:22
  strata vm run tiny --kernel vmlinuz --machine microvm --no-network
  strata vm run -f vms.yaml")]
pub struct Run {
    #[command(flatten)]
    wanted: Wanted,

    #[command(flatten)]
    how: How,
}

impl Run {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        make(session, self.wanted, self.how, true).await
    }
}
