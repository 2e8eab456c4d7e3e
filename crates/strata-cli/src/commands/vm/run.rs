//! `strata vm run`: makes virtual machines and switches them on.

use clap::Args;

use super::create::{VmCreateOptions, make};
use super::spec_args::VmSpecArgs;
use crate::failure::Result;
use crate::session::Session;

/// Create and start a virtual machine
#[derive(Args, Debug)]
#[command(after_help = "\
Files are on the host of the node, relative to your directory; they are
cloned, not changed.

Examples:
  strata vm run build --image debian.qcow2 --memory 2GiB -p 2222:22
  strata vm run tiny --kernel vmlinuz --machine microvm --no-network
  strata vm run -f vms.yaml")]
pub struct Run {
    #[command(flatten)]
    wanted: VmSpecArgs,

    #[command(flatten)]
    how: VmCreateOptions,
}

impl Run {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        make(session, self.wanted, self.how, true).await
    }
}
