//! `strata token revoke`: makes a token worthless, at once.

use clap::Args;
use strata_api::strata::v1::RevokeTokenRequest;

use crate::failure::{Result, cannot};
use crate::session::Session;

/// Revoke a token
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata token revoke 0192f0c1-7a44-7000-8000-000000000001")]
pub struct Revoke {
    /// Token ID as shown by `strata token list`
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,
}

impl Revoke {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let server = session.server().await?;
        let question = format!("Revoke {}?", self.ids.join(", "));
        session.confirm(&question, self.yes)?;
        for id in self.ids {
            server
                .identity()
                .revoke_token(RevokeTokenRequest { id: id.clone() })
                .await
                .map_err(cannot(&server, format!("revoke the token {id}")))?;
            session.printer.note(&format!("revoked {id}"));
        }
        Ok(())
    }
}
