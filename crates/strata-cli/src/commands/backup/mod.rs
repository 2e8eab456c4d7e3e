//! `strata backup`: what can be brought back, made by hand or by a schedule.
//! All but the looking is an operation of the server, which is followed here.

mod create;
mod keep;
mod list;
mod prune;
mod rate;
mod repair;
mod restore;
mod schedule;
mod show;
mod verify;

use clap::{Args, Subcommand};
use strata_api::rest::Backup;
use strata_client::rest::{Query, RestClient};

use crate::complete;
use crate::failure::{Exit, Failure, Result, unable};
use crate::session::Session;

/// The verbs of a backup.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Save the pool and Strata's own state now
    Create(create::Create),
    /// Backups, the latest last
    #[command(visible_alias = "ls")]
    List(list::List),
    /// One backup, all that is known of it
    Show(show::Show),
    /// Bring volumes, a volume, or a file of one back
    Restore(restore::Restore),
    /// Look whether a backup can be restored
    Verify(verify::Verify),
    /// Store again what is damaged in the repository
    Repair(repair::Repair),
    /// Forget old backups and free what only they had
    Prune(prune::Prune),
    /// When backups are made by themselves
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
}

impl BackupCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Create(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Restore(command) => command.run(session).await,
            Self::Verify(command) => command.run(session).await,
            Self::Repair(command) => command.run(session).await,
            Self::Prune(command) => command.run(session).await,
            Self::Schedule(command) => command.run(session).await,
        }
    }
}

/// The newest, whichever that is.
const LATEST: &str = "latest";

/// Which backup.
#[derive(Args, Clone, Debug)]
struct One {
    /// The backup: its id, the beginning of it, or latest
    #[arg(add = complete::backups())]
    id: String,
}

/// All of them, the latest last.
async fn all(rest: &RestClient) -> Result<Vec<Backup>> {
    let found = rest.list::<Backup>(&Query::new()).await;
    let mut found = found.map_err(unable("list the backups"))?;
    found.sort_by(|a, b| (a.taken_at_ms, &a.id).cmp(&(b.taken_at_ms, &b.id)));
    Ok(found)
}

impl One {
    /// The backup that is meant.
    async fn find(&self, rest: &RestClient) -> Result<Backup> {
        meant(all(rest).await?, &self.id)
    }
}

/// By its id, or by as much of it as only one has.
fn meant(mut all: Vec<Backup>, id: &str) -> Result<Backup> {
    if id == LATEST {
        let none = || {
            Failure::new(Exit::Refused, "there is no backup yet")
                .hint("make one with `strata backup create`")
        };
        return all.pop().ok_or_else(none);
    }
    all.retain(|backup| backup.id.starts_with(id));
    match all.len() {
        0 => Err(
            Failure::new(Exit::Refused, format!("there is no backup {id}"))
                .hint("see those there are with `strata backup list`"),
        ),
        1 => Ok(all.remove(0)),
        n => Err(
            Failure::new(Exit::Refused, format!("{n} backups begin with {id}"))
                .hint("write more of the id; `strata backup list -o wide` has all of it"),
        ),
    }
}
