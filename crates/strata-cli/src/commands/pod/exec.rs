//! `strata pod exec`: a further process in a pod, with our terminal or our
//! pipes. Its exit code is ours.

use clap::Args;

use crate::commands::interactive::ExecArgs;
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::label_name;

/// Run a command in a pod
#[derive(Args, Debug)]
#[command(after_help = "\
Exits with the code of the command, or 128 plus the signal number. Without -t,
Ctrl-C is sent to the command, and a second one detaches.

Examples:
  strata pod exec web -- nginx -s reload
  strata pod exec -it web -- sh
  strata pod exec -i db -- psql shop
  strata pod exec web --user 1000 --workdir /srv -e TZ=UTC -- ls -l")]
pub struct Exec {
    /// Name of the pod
    #[arg(value_parser = label_name, add = complete::pods())]
    name: String,

    #[command(flatten)]
    exec: ExecArgs,
}

impl Exec {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        self.exec.check(session)?;
        let node = session.node().await?;
        let of = ("pod", self.name.clone(), self.name);
        self.exec
            .run(session, of, &node, async |input| {
                node.pods().exec(input).await
            })
            .await
    }
}
