//! `strata ca retire`: the last step of a rotation.

use clap::Args;
use strata_api::rest::{CertificateAuthority, RetireCaRequest};

use crate::failure::{Result, unable};
use crate::session::Session;

/// Trust the first root no more, and destroy its key
#[derive(Args, Debug)]
#[command(after_help = "\
Refused while nodes or certificates depend on the old root. With --force they
are locked out, and what they have open is closed: such nodes join again with a
token of `strata token create --join --replace`.

Examples:
  strata ca retire
  strata ca retire --force --yes")]
pub struct Retire {
    /// Lock out what still depends on the old root
    #[arg(long)]
    force: bool,

    /// Do not ask
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
