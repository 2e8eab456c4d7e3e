//! `strata instance exec`: a further process in an instance, wherever it is,
//! with our terminal or our pipes. Its exit code is ours.

use clap::Args;

use super::One;
use crate::commands::talk::ExecArgs;
use crate::failure::Result;
use crate::session::Session;

/// Run a further command in an instance
#[derive(Args, Debug)]
#[command(after_help = "\
Exits as the command does; by a signal with 128 and its number. Without -t,
Ctrl-C goes to the command, and a second one leaves it.

Examples:
  strata instance exec web -- nginx -s reload
  strata instance exec -it shop/web -- sh
  strata instance exec -i db -- psql shop")]
pub struct Exec {
    #[command(flatten)]
    one: One,

    #[command(flatten)]
    exec: ExecArgs,
}

impl Exec {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        self.exec.check(session)?;
        let server = session.server().await?;
        let verb = "run a command in";
        let instance = self.one.get(&server.rest(), verb).await?.object;
        let of = ("instance", self.one.name, instance.id);
        self.exec
            .run(session, of, &server, async |input| {
                server.instances().exec(input).await
            })
            .await
    }
}
