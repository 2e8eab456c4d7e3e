//! `strata backup restore`: brings volumes back into a server that runs.

use clap::Args;
use strata_api::rest::{Backup, RestoreRequest};

use super::BackupArg;
use crate::commands::operation_wait::WaitArgs;
use crate::complete;
use crate::failure::{Exit, Failure, Result, unable};
use crate::session::Session;
use crate::values::label_name;
use crate::view::short_id;

/// Restore volumes or a file from a backup
#[derive(Args, Debug)]
#[command(after_help = "\
An existing volume is rejected without --replace, which keeps its contents as
a snapshot. Ctrl-C detaches; the operation continues on the server.
The control-plane state cannot be restored while the server runs; to rebuild a
server from a backup, see `strata restore --help`.

Examples:
  strata backup restore latest
  strata backup restore latest --volume data --as data-old
  strata backup restore 3f9a41c7 --volume data --path etc/app.toml --replace")]
pub struct Restore {
    #[command(flatten)]
    one: BackupArg,

    /// Volume to restore [default: all]
    #[arg(long, value_name = "VOLUME", value_parser = label_name)]
    #[arg(add = complete::pool_volumes())]
    volume: Option<String>,

    /// File or directory to restore, relative to the root of the volume
    #[arg(long, requires = "volume")]
    path: Option<String>,

    /// Name of the restored volume
    #[arg(long = "as", value_name = "NAME", requires = "volume", value_parser = label_name)]
    as_name: Option<String>,

    /// Replace an existing volume; its contents are kept as a snapshot
    #[arg(long)]
    replace: bool,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Restore {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let backup = self.one.find(&rest).await?;
        let what = self.what(&backup)?;
        let id = short_id(&backup.id);
        if self.dry_run {
            let line = format!("would restore {what} from {id}\n");
            return Ok(session.printer.data(line.as_bytes())?);
        }
        if self.replace {
            let question = format!("Replace existing data with {what} from {id}?");
            session.confirm(&question, self.yes)?;
        }
        let asked = RestoreRequest {
            volume: self.volume.unwrap_or_default(),
            path: self.path.unwrap_or_default(),
            as_name: self.as_name.unwrap_or_default(),
            replace: self.replace,
        };
        let begun = rest.begin::<Backup>(&backup.id, "restore", &asked).await;
        let begun = begun.map_err(unable(format!("restore {what} from {id}")))?;
        let told = (
            &*format!("restoring {what} from {id}"),
            &*format!("restored {what} from {id}"),
        );
        self.wait.one(session, &rest, &begun, told).await
    }

    /// What is brought back, in words. What the backup has not is refused
    /// here, where it can be said what it has.
    fn what(&self, backup: &Backup) -> Result<String> {
        let Some(volume) = &self.volume else {
            return Ok(match backup.volumes.as_slice() {
                [] => {
                    let what = format!("the backup {} has no volumes", short_id(&backup.id));
                    return Err(Failure::new(Exit::Refused, what));
                }
                several => several.join(", "),
            });
        };
        if !backup.volumes.contains(volume) {
            let what = format!("the backup {} has no volume {volume}", short_id(&backup.id));
            let has = format!("it has {}", backup.volumes.join(", "));
            return Err(Failure::new(Exit::Refused, what).hint(has));
        }
        let what = match &self.path {
            Some(path) => format!("{path} of {volume}"),
            None => volume.clone(),
        };
        Ok(match &self.as_name {
            Some(name) => format!("{what} as {name}"),
            None => what,
        })
    }
}
