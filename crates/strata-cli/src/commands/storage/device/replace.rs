//! `strata storage device replace`: puts a spare in the place of a device that
//! fails or is gone.

use clap::Args;
use strata_api::rest::{PoolDevice, ReplaceRequest};

use crate::commands::operation_wait::{ActionLabels, WaitArgs};
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Replace a device with a spare
#[derive(Args, Debug)]
#[command(after_help = "\
Uses the smallest spare that is large enough by default. The pool stays
online. Ctrl-C detaches; the operation continues on the server.

Examples:
  strata storage device replace d1
  strata storage device replace d1 --with d4")]
pub struct Replace {
    /// Name of the device
    #[arg(add = complete::devices())]
    name: String,

    /// Name of the spare to use
    #[arg(long, value_name = "SPARE", add = complete::devices())]
    with: Option<String>,

    #[command(flatten)]
    wait: WaitArgs,
}

const LABELS: ActionLabels = ActionLabels {
    doing: "replacing",
    done: "replaced",
};

impl Replace {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let asked = ReplaceRequest {
            with: self.with.unwrap_or_default(),
        };
        let begin = async |name: &str| {
            let begun = rest.begin::<PoolDevice>(name, "replace", &asked).await;
            begun.map_err(unable(format!("replace the device {name}")))
        };
        let wait = &self.wait;
        wait.each(session, &rest, &LABELS, &[self.name], begin)
            .await
    }
}
