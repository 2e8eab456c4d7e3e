//! `strata ca retire`: the last step of a rotation.

use clap::Args;
use strata_api::rest::{CertificateAuthority, RetireCaRequest};

use crate::failure::{Result, unable};
use crate::session::Session;

/// Stop trusting the old root and destroy its key
#[derive(Args, Debug)]
#[command(after_help = "\
Rejected while nodes or certificates depend on the old root. With --force they
are locked out and their connections are closed: such nodes join again with a
token of `strata token create --join --replace`.

Examples:
  strata ca retire
  strata ca retire --force --yes")]
pub struct Retire {
    /// Retire the root even if certificates depend on it; they are rejected
    /// from then on
    #[arg(long)]
    force: bool,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,
}

impl Retire {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        session.confirm("Retire the old root of the CA?", self.yes)?;
        let rest = session.rest().await?;
        let request = RetireCaRequest { force: self.force };
        let done = rest.act::<CertificateAuthority, CertificateAuthority>("retire", &request);
        let ca = done.await.map_err(unable("retire the old root"))?;
        let root = ca.current.fingerprint;
        session.printer.note(&format!(
            "{root} is the only root; the key of the old one is destroyed"
        ));
        Ok(())
    }
}
