//! `strata backup restore`: brings volumes back into a server that runs.

use clap::Args;
use strata_api::rest::{Backup, RestoreRequest};

use super::One;
use crate::commands::begun::Staying;
use crate::complete;
use crate::failure::{Exit, Failure, Result, unable};
use crate::session::Session;
use crate::values::label_name;
use crate::view::short_id;

/// Bring volumes, a volume, or a file of one back
#[derive(Args, Debug)]
#[command(after_help = "\
A volume that is there is refused without --replace, which keeps what was
there as a snapshot. Ctrl-C leaves it to the server.
Strata's own state cannot be brought back while it is in use; to bring all of
it back on an empty machine, see `strata restore --help`.

Examples:
  strata backup restore latest
  strata backup restore latest --volume data --as data-old
  strata backup restore 3f9a41c7 --volume data --path etc/app.toml --replace")]
pub struct Restore {
    #[command(flatten)]
    one: One,

    /// Only this volume; all of them unless told
    #[arg(long, value_name = "VOLUME", value_parser = label_name)]
    #[arg(add = complete::pool_volumes())]
    volume: Option<String>,

    /// Only this file or folder of the volume, from its root
    #[arg(long, requires = "volume")]
    path: Option<String>,

    /// Restore it under this name
    #[arg(long = "as", value_name = "NAME", requires = "volume", value_parser = label_name)]
    as_name: Option<String>,

    /// Replace what is there; it is kept as a snapshot
    #[arg(long)]
    replace: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    staying: Staying,
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
            let question = format!("Replace what is there with {what} from {id}?");
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
        self.staying.one(session, &rest, &begun, told).await
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
