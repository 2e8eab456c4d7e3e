//! `strata ca activate`: the second step of a rotation.

use clap::Args;
use strata_api::rest::{CaStepRequest, CertificateAuthority};

use super::remaining;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Issue certificates from the new root
#[derive(Args, Debug)]
#[command(after_help = "\
Connected nodes renew at once, others when they reconnect. Certificates of
users and programs are renewed with `strata certificate renew`; `strata ca
show` lists what is left.

Examples:
  strata ca activate")]
pub struct Activate {}

impl Activate {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let request = CaStepRequest::default();
        let done = rest.act::<CertificateAuthority, CertificateAuthority>("activate", &request);
        let ca = done.await.map_err(unable("activate the new root"))?;
        let next = ca.next.as_ref().map(|next| next.fingerprint.clone());
        session.printer.note(&format!(
            "root {} signs; {} depend on the old one; next: strata ca retire",
            next.unwrap_or_default(),
            remaining(&ca)
        ));
        Ok(())
    }
}
