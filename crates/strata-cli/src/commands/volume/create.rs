//! `strata volume create`: an empty volume.

use clap::Args;
use strata_api::strata::v1::{CreateVolumeRequest, GetVolumeRequest};
use tonic::Code;

use crate::failure::{Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::{Bytes, label_name};
use crate::view::VolumeView;

/// Create an empty volume
#[derive(Args, Debug)]
#[command(after_help = "\
Mount it in a pod with --volume NAME:/path. A missing volume that a pod refers
to is created without a quota.

Examples:
  strata volume create data
  strata volume create db --size 10GiB")]
pub struct Create {
    /// Name
    #[arg(value_parser = label_name)]
    name: String,

    /// Quota [default: unlimited]
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,

    /// Show what would change, without changing anything
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
                Ok(_) => format!("{name} already exists\n"),
                Err(status) if status.code() == Code::NotFound => {
                    format!("would create {name}\n")
                }
                Err(status) => {
                    return Err(cannot(&node, format!("read the volume {name}"))(status));
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
        match self.output.requested() {
            Some(format) => output::one(session, format, &VolumeView::from(volume.into_inner())),
            None => Ok(()),
        }
    }
}
