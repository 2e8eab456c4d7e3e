//! `strata instance exec`: a further process in an instance, wherever it is,
//! with our terminal or our pipes. Its exit code is ours.

use clap::Args;

use super::InstanceArg;
use crate::commands::interactive::ExecArgs;
use crate::failure::Result;
use crate::session::Session;

/// Run a command in an instance
#[derive(Args, Debug)]
#[command(after_help = "\
Exits with the code of the command, or 128 plus the signal number. Without -t,
Ctrl-C is sent to the command, and a second one detaches.

Examples:
  strata instance exec web -- nginx -s reload
  strata instance exec -it shop/web -- sh
  strata instance exec -i db -- psql shop")]
pub struct Exec {
    #[command(flatten)]
    one: InstanceArg,

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
