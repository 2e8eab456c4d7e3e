//! `strata whoami`: who the server says is calling.

use clap::Args;
use strata_api::strata::v1::WhoAmIRequest;
use strata_client::ServerClient;

use crate::failure::{Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::view::CallerView;

/// Show the current identity
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata whoami
  strata whoami --data-dir /var/lib/strata -o json")]
pub struct Whoami {
    #[command(flatten)]
    output: OutputArgs,
}

impl Whoami {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let server = session.server().await?;
        let caller = ask(&server).await?;
        output::one(session, self.output.format(), &caller)
    }
}

/// Asks a server who is calling.
pub(super) async fn ask(server: &ServerClient) -> Result<CallerView> {
    let answer = server
        .identity()
        .who_am_i(WhoAmIRequest {})
        .await
        .map_err(cannot(server, "show the current identity"))?;
    Ok(CallerView::new(
        answer.into_inner(),
        server.address().to_string(),
    ))
}
