//! `strata token list`: the tokens that are good, without themselves.

use clap::Args;
use strata_api::strata::v1::ListTokensRequest;

use crate::failure::{Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::view::TokenView;

/// List valid tokens
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata token list
  strata token list -o wide")]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let server = session.server().await?;
        let answer = server
            .identity()
            .list_tokens(ListTokensRequest {})
            .await
            .map_err(cannot(&server, "list the tokens"))?;
        let tokens = answer.into_inner().tokens;
        let tokens: Vec<TokenView> = tokens.into_iter().map(Into::into).collect();
        let empty = "no tokens; create one with `strata token create`";
        output::rows(session, self.output.format(), &tokens, empty)
    }
}
