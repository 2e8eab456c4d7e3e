//! `strata storage device replace`: puts a spare in the place of a device that
//! fails or is gone.

use clap::Args;
use strata_api::rest::{PoolDevice, ReplaceRequest};

use crate::commands::begun::{Doing, Staying};
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Put a spare in the place of a device
#[derive(Args, Debug)]
#[command(after_help = "\
Takes the smallest spare that is large enough unless told. The pool stays in
use. Ctrl-C leaves it to the server.

Examples:
  strata storage device replace d1
  strata storage device replace d1 --with d4")]
pub struct Replace {
    /// The device
    #[arg(add = complete::devices())]
    name: String,

    /// The spare that takes its place
    #[arg(long, value_name = "SPARE", add = complete::devices())]
    with: Option<String>,

    #[command(flatten)]
    staying: Staying,
}

const WORDS: Doing = Doing {
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
        let staying = &self.staying;
        staying
            .each(session, &rest, &WORDS, &[self.name], begin)
            .await
    }
}
