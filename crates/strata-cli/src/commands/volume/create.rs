//! `strata volume create`: an empty volume.

use clap::Args;
use strata_api::strata::v1::{CreateVolumeRequest, GetVolumeRequest};
use tonic::Code;

use crate::failure::{Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::{Bytes, label_name};
use crate::view::VolumeView;

/// Make an empty volume
#[derive(Args, Debug)]
#[command(after_help = "\
A pod has it with --volume NAME:/path. A volume that a pod asks for and that
is not there is made without a size.

Examples:
  strata volume create data
  strata volume create db --size 10GiB")]
pub struct Create {
    /// Its name
    #[arg(value_parser = label_name)]
    name: String,

    /// What it may hold; as much as the disk unless told
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let name = self.name;
        let node = session.node().await?;
        if self.dry_run {
            let request = GetVolumeRequest { name: name.clone() };
            let line = match node.volumes().get(request).await {
                Ok(_) => format!("there is a volume {name} already\n"),
                Err(status) if status.code() == Code::NotFound => {
                    format!("would create {name}\n")
                }
                Err(status) => {
                    return Err(cannot(&node, format!("look at the volume {name}"))(status));
                }
            };
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let request = CreateVolumeRequest {
            name: name.clone(),
            size_bytes: self.size.map(|Bytes(n)| n),
        };
        let answer = node.volumes().create(request).await;
        let volume = answer.map_err(cannot(&node, format!("create the volume {name}")))?;
        session.printer.note(&format!("created {name}"));
        match self.output.asked() {
            Some(format) => output::one(session, format, &VolumeView::from(volume.into_inner())),
            None => Ok(()),
        }
    }
}
