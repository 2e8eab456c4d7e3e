//! `strata instance logs`: what an instance wrote, wherever it is. The server
//! passes the node's words on.

use clap::Args;

use super::InstanceArg;
use crate::commands::logs::{self, LogsArgs};
use crate::failure::{Result, cannot};
use crate::session::Session;

/// Show the logs of an instance
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata instance logs web
  strata instance logs shop/web -f --tail 20
  strata instance logs web --since 10m --stderr --timestamps
  strata instance logs web --previous            the run before the latest")]
pub struct Logs {
    #[command(flatten)]
    one: InstanceArg,

    #[command(flatten)]
    logs: LogsArgs,
}

impl Logs {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let server = session.server().await?;
        let verb = "read the logs of";
        let what = format!("{verb} the instance {}", self.one.name);
        let id = self.one.get(&server.rest(), verb).await?.object.id;
        let request = self.logs.request(id, session.now());
        let answer = server.instances().logs(request).await;
        let lines = answer.map_err(cannot(&server, &*what))?.into_inner();
        logs::print(session, &server, &what, lines, self.logs.timestamps).await
    }
}
