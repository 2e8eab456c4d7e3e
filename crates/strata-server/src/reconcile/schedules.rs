//! Makes backups when they are due. One that was missed, because no server was
//! there, is made once, late.

use std::time::Duration;

use strata_tasks::TaskGroup;
use strata_types::Label;
use strata_types::backup::BackupSchedule;
use strata_workflow::Operations;

use crate::core::{Core, Lead, now_ms};
use crate::cron::Cron;
use crate::operations::{BackupInput, CreateBackup};

/// Times are whole minutes; this is how late one may be noticed.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(5);
const OWNER: &str = "schedule";

/// Starts the reconciler of schedules; it acts while this server leads.
pub fn start(core: Core, operations: Operations, tasks: &TaskGroup) {
    tasks.restart("backup-schedules", move || {
        run(core.clone(), operations.clone())
    });
}

async fn run(core: Core, operations: Operations) {
    let mut tick = tokio::time::interval(RECONCILE_INTERVAL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if !matches!(core.lead(), Lead::Leading(_)) {
            continue;
        }
        if let Err(error) = reconcile(&core, &operations, now_ms()).await {
            tracing::warn!(%error, "schedules of backups cannot be followed");
        }
    }
}

/// Begins what is due.
pub async fn reconcile(core: &Core, operations: &Operations, now: i64) -> strata_types::Result<()> {
    for schedule in core.schedules().list().await? {
        let Some(due) = due(&schedule, now) else {
            repair(core, schedule, now).await?;
            continue;
        };
        let name = schedule.name.clone();
        // One that cannot be followed does not hold the others up.
        if let Err(error) = begin(core, operations, schedule, due, now).await {
            tracing::warn!(schedule = name, %error, "scheduled backup not started");
        }
    }
    Ok(())
}

fn due(schedule: &BackupSchedule, now: i64) -> Option<i64> {
    let next = schedule.next_at_ms?;
    (!schedule.paused && next <= now).then_some(next)
}

/// Where the clock was ahead when the next time was computed, it is sooner.
async fn repair(core: &Core, schedule: BackupSchedule, now: i64) -> strata_types::Result<()> {
    let cron = schedule.when.parse::<Cron>().ok();
    let next = cron.and_then(|cron| cron.after(now));
    if schedule.paused || next >= schedule.next_at_ms {
        return Ok(());
    }
    let name = Label::from_field("name", &schedule.name)?;
    let right = BackupSchedule {
        next_at_ms: next,
        ..schedule
    };
    core.schedules().advance(&name, &right).await
}

async fn begin(
    core: &Core,
    operations: &Operations,
    schedule: BackupSchedule,
    due: i64,
    now: i64,
) -> strata_types::Result<()> {
    let input = BackupInput {
        keep: Some(schedule.keep).filter(|keep| !keep.keeps_all()),
        ..BackupInput::default()
    };
    // A server that dies before the schedule is written begins the same backup
    // again.
    let rules = schedule.keep;
    let (last, daily) = (rules.last.unwrap_or(0), rules.daily.unwrap_or(0));
    let (weekly, monthly) = (rules.weekly.unwrap_or(0), rules.monthly.unwrap_or(0));
    let key = format!("{}-{due}-{last}-{daily}-{weekly}-{monthly}", schedule.name);
    let begun = operations
        .submit::<CreateBackup>(&input, OWNER, Some(&key))
        .await;
    let id = begun.map_err(|error| crate::operations::public(&error))?;
    tracing::info!(schedule = schedule.name, operation = %id, "scheduled backup started");
    let name = Label::from_field("name", &schedule.name)?;
    let next = schedule.when.parse::<Cron>().ok();
    let next = BackupSchedule {
        last_at_ms: Some(now),
        next_at_ms: next.and_then(|cron| cron.after(now)),
        ..schedule
    };
    core.schedules().advance(&name, &next).await
}
