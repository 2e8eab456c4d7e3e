//! `strata storage device remove`: takes spares away.

use clap::Args;
use strata_api::rest::{DeviceState, PoolDevice};
use strata_client::rest::Query;

use crate::commands::each::{Deed, preview};
use crate::commands::storage::current;
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Take spares away
#[derive(Args, Debug)]
#[command(after_help = "\
A device that data is on is refused: `strata storage shrink` makes spares of
devices, `strata storage device replace` puts another in the place of one.

Examples:
  strata storage device remove d3
  strata storage device remove d3 d4 --yes")]
pub struct Remove {
    /// The spares
    #[arg(value_name = "NAME", required = true, add = complete::devices())]
    names: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Remove {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            let pool = current(&rest).await?;
            return preview(session, &self.names, async |name| {
                let found = pool.devices.iter().find(|device| device.name == name);
                Ok(match found.map(|device| device.state) {
                    None => format!("there is no device {name}"),
                    Some(DeviceState::Spare) => format!("would remove {name}"),
                    Some(state) => {
                        let state = state.as_str().to_ascii_lowercase();
                        format!("{name} would stay: it is {state}, no spare")
                    }
                })
            })
            .await;
        }
        session.confirm(&format!("Remove {}?", self.names.join(", ")), self.yes)?;
        DEED.of_each(session, self.names, async |_, name| {
            let answer = rest.delete::<PoolDevice>(&name, &Query::new()).await;
            answer.map_err(unable(format!("remove the device {name}")))
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "remove",
    done: "removed",
    noun: "device",
};
