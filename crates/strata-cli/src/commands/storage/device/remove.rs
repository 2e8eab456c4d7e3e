//! `strata storage device remove`: takes spares away.

use clap::Args;
use strata_api::rest::{DeviceState, PoolDevice};
use strata_client::rest::Query;

use crate::commands::bulk::{BulkAction, preview};
use crate::commands::storage::current;
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Remove spares
#[derive(Args, Debug)]
#[command(after_help = "\
A device in use is rejected: `strata storage shrink` turns devices into
spares, `strata storage device replace` replaces one.

Examples:
  strata storage device remove d3
  strata storage device remove d3 d4 --yes")]
pub struct Remove {
    /// Names of the spares
    #[arg(value_name = "NAME", required = true, add = complete::devices())]
    names: Vec<String>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
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
                        format!("{name} would not be removed: it is {state}, not a spare")
                    }
                })
            })
            .await;
        }
        session.confirm(&format!("Remove {}?", self.names.join(", ")), self.yes)?;
        ACTION
            .each_with(session, self.names, async |_, name| {
                let answer = rest.delete::<PoolDevice>(&name, &Query::new()).await;
                answer.map_err(unable(format!("remove the device {name}")))
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "remove",
    done: "removed",
    noun: "device",
};
