//! `strata pod exec`: a further process in a pod, with our terminal or our
//! pipes. Its exit code is ours.

use clap::Args;

use crate::commands::talk::ExecArgs;
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::label_name;

/// Run a further command in a pod
#[derive(Args, Debug)]
#[command(after_help = "\
Exits as the command does; by a signal with 128 and its number. Without -t,
Ctrl-C goes to the command, and a second one leaves it.

Examples:
  strata pod exec web -- nginx -s reload
  strata pod exec -it web -- sh
  strata pod exec -i db -- psql shop
  strata pod exec web --user 1000 --workdir /srv -e TZ=UTC -- ls -l")]
pub struct Exec {
    /// The pod
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
