//! `strata storage volume create`: makes a volume, empty or as a copy that
//! takes no room until it differs.

use clap::{Args, ValueEnum};
use strata_api::rest::{NewPoolVolume, PoolVolume, VolumeKind};
use strata_client::rest::Query;

use crate::complete;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::{Bytes, label_name};

/// Create a volume, empty or as a copy
#[derive(Args, Debug)]
#[command(after_help = "\
A copy uses no space until it differs. Creating the same volume again
succeeds.

Examples:
  strata storage volume create data --size 10GB
  strata storage volume create guest --kind disk --size 20GB
  strata storage volume create trial --from data@monday")]
pub struct Create {
    /// Name
    #[arg(value_parser = label_name)]
    name: String,

    /// Quota [default: unlimited]. Required for a disk
    #[arg(long, value_name = "SIZE", required_if_eq("kind", "disk"))]
    size: Option<Bytes>,

    /// Type: files for containers, disk for a virtual machine
    #[arg(long, value_enum, default_value_t, hide_possible_values = true)]
    kind: Kind,

    /// Volume or VOLUME@SNAPSHOT to copy
    #[arg(long, value_name = "VOLUME[@SNAPSHOT]", value_parser = origin)]
    #[arg(add = complete::pool_volumes())]
    from: Option<String>,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Kind {
    #[default]
    Files,
    Disk,
}

fn origin(text: &str) -> std::result::Result<String, String> {
    let (volume, snapshot) = text.split_once('@').unwrap_or((text, "none"));
    label_name(volume)?;
    label_name(snapshot)?;
    Ok(text.to_owned())
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.name;
        if self.dry_run {
            let all = rest.list::<PoolVolume>(&Query::new()).await;
            let all = all.map_err(unable("list the volumes"))?;
            let line = match all.iter().any(|volume| volume.name == *name) {
                true => format!("{name} already exists\n"),
                false => format!("would create {name}\n"),
            };
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let asked = NewPoolVolume {
            name: name.clone(),
            kind: match self.kind {
                Kind::Files => VolumeKind::Files,
                Kind::Disk => VolumeKind::Disk,
            },
            quota_bytes: self.size.map(|Bytes(n)| n),
            from: self.from.unwrap_or_default(),
        };
        let made = rest.create::<PoolVolume>(&asked).await;
        let made = made.map_err(unable(format!("create the volume {name}")))?;
        session.printer.note(&format!("created {name}"));
        match self.output.requested() {
            Some(format) => output::one(session, format, &made),
            None => Ok(()),
        }
    }
}
