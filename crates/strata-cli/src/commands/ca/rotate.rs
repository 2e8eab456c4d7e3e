//! `strata ca rotate`: the first step of a rotation.

use clap::Args;
use strata_api::rest::{CaStepRequest, CertificateAuthority};

use crate::failure::{Result, unable};
use crate::session::Session;

/// Create a second root, trusted immediately
#[derive(Args, Debug)]
#[command(after_help = "\
The CA is rotated in three steps, while everything runs:
  strata ca rotate      a second root is trusted by the server and all nodes
  strata ca activate    it signs; nodes renew by themselves, people and
                        programs by `strata certificate renew`
  strata ca retire      the first root is trusted no more

Give clients that have a ca.crt and a token the new roots before the last step:
`strata login --refresh`, or `strata ca show -o json | jq -r .pem`.

Examples:
  strata ca rotate")]
pub struct Rotate {}

impl Rotate {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let request = CaStepRequest::default();
        let done = rest.act::<CertificateAuthority, CertificateAuthority>("rotate", &request);
        let ca = done.await.map_err(unable("rotate the CA"))?;
        let next = ca.next.map(|next| next.fingerprint).unwrap_or_default();
        session.printer.note(&format!(
            "root {next} is trusted beside {}; next: strata ca activate",
            ca.current.fingerprint
        ));
        Ok(())
    }
}
