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

#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Create a backup of the storage pool and the control-plane state
    Create(create::Create),
    /// List backups, oldest first
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show a backup
    Show(show::Show),
    /// Restore volumes or a file from a backup
    Restore(restore::Restore),
    /// Verify that a backup can be restored
    Verify(verify::Verify),
    /// Repair damaged data in the repository
    Repair(repair::Repair),
    /// Delete old backups and free their data
    Prune(prune::Prune),
    /// Manage backup schedules
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

/// Selects the newest backup.
const LATEST: &str = "latest";

#[derive(Args, Clone, Debug)]
struct BackupArg {
    /// Backup ID, a unique prefix of it, or latest
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

impl BackupArg {
    /// Resolves a backup.
    async fn find(&self, rest: &RestClient) -> Result<Backup> {
        meant(all(rest).await?, &self.id)
    }
}

/// Resolves an ID or a unique prefix.
fn meant(mut all: Vec<Backup>, id: &str) -> Result<Backup> {
    if id == LATEST {
        let none = || {
            Failure::new(Exit::Refused, "no backup exists")
                .hint("create one with `strata backup create`")
        };
        return all.pop().ok_or_else(none);
    }
    all.retain(|backup| backup.id.starts_with(id));
    match all.len() {
        0 => Err(
            Failure::new(Exit::Refused, format!("there is no backup {id}"))
                .hint("list backups with `strata backup list`"),
        ),
        1 => Ok(all.remove(0)),
        n => Err(
            Failure::new(Exit::Refused, format!("{n} backups match the prefix {id}"))
                .hint("use a longer prefix; `strata backup list -o wide` shows full IDs"),
        ),
    }
}
