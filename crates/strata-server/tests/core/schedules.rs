//! Backups that are due: begun once each, late rather than never, whatever the
//! clock did.

use std::sync::Arc;

use strata_server::operations::{Backups, CreateBackup, Storage};
use strata_server::reconcile::look_at_schedules;
use strata_types::ErrorKind;
use strata_types::backup::{BackupSchedule, Retention};
use strata_workflow::{Filter, Operations, Registry};

use crate::world::{World, admin};

const HOUR: i64 = 3600 * 1000;

fn hourly(name: &str) -> BackupSchedule {
    BackupSchedule {
        name: name.into(),
        when: "0 * * * *".into(),
        keep: Retention::default(),
        paused: false,
        last_at_ms: None,
        next_at_ms: None,
    }
}

/// Operations that are taken and, without an engine, never begun.
fn operations() -> Operations {
    let backups = Backups {
        storage: Storage::none(),
        store: Arc::new(strata_store::Memory::new()),
        engine: Arc::new(strata_store::Memory::new()),
        target: None,
        resting: Arc::new(|_| Ok(())),
    };
    let mut registry = Registry::new();
    registry.register(CreateBackup, Arc::new(backups)).unwrap();
    Operations::new(Arc::new(strata_store::Memory::new()), registry)
}

async fn begun(operations: &Operations) -> usize {
    operations.list(&Filter::default()).await.unwrap().len()
}

#[tokio::test]
async fn scheduled_backup_starts_once_when_due() {
    let (world, operations) = (World::new().await, operations());
    let core = &world.core;
    let made = core.schedules().put(&admin(), hourly("a")).await.unwrap();
    let due = made.next_at_ms.unwrap();
    look_at_schedules(core, &operations, due - 1).await.unwrap();
    assert_eq!(begun(&operations).await, 0, "it is not due yet");
    look_at_schedules(core, &operations, due).await.unwrap();
    look_at_schedules(core, &operations, due + 1).await.unwrap();
    assert_eq!(begun(&operations).await, 1);
    let now = core.schedules().get("a").await.unwrap();
    assert_eq!(now.last_at_ms, Some(due));
    assert_eq!(now.next_at_ms, Some(due + HOUR));
    // A server that was away for a day makes one, not twenty-four.
    look_at_schedules(core, &operations, due + 24 * HOUR + 1)
        .await
        .unwrap();
    assert_eq!(begun(&operations).await, 2);
    let now = core.schedules().get("a").await.unwrap();
    assert_eq!(now.next_at_ms, Some(due + 25 * HOUR));
}

/// A server that died after it was begun and before that was written begins no
/// second.
#[tokio::test]
async fn same_schedule_time_starts_one_backup() {
    let (world, operations) = (World::new().await, operations());
    let core = &world.core;
    let made = core.schedules().put(&admin(), hourly("a")).await.unwrap();
    let due = made.next_at_ms.unwrap();
    look_at_schedules(core, &operations, due).await.unwrap();
    core.schedules().put(&admin(), made).await.unwrap();
    look_at_schedules(core, &operations, due).await.unwrap();
    assert_eq!(begun(&operations).await, 1);
}

#[tokio::test]
async fn disabled_or_deleted_schedule_starts_nothing() {
    let (world, operations) = (World::new().await, operations());
    let core = &world.core;
    let paused = BackupSchedule {
        paused: true,
        ..hourly("rests")
    };
    let made = core.schedules().put(&admin(), paused).await.unwrap();
    let due = made.next_at_ms.unwrap();
    core.schedules()
        .put(&admin(), hourly("gone"))
        .await
        .unwrap();
    core.schedules().delete(&admin(), "gone").await.unwrap();
    look_at_schedules(core, &operations, due + HOUR)
        .await
        .unwrap();
    assert_eq!(begun(&operations).await, 0);
    let missing = core.schedules().get("gone").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

/// The clock was years ahead when the next time was computed.
#[tokio::test]
async fn schedule_is_repaired_after_a_clock_that_was_ahead() {
    let (world, operations) = (World::new().await, operations());
    let core = &world.core;
    let made = core.schedules().put(&admin(), hourly("a")).await.unwrap();
    let due = made.next_at_ms.unwrap();
    let ahead = due + 10_000 * HOUR;
    look_at_schedules(core, &operations, ahead).await.unwrap();
    assert!(core.schedules().get("a").await.unwrap().next_at_ms > Some(ahead));
    look_at_schedules(core, &operations, due - 1).await.unwrap();
    assert_eq!(
        core.schedules().get("a").await.unwrap().next_at_ms,
        Some(due)
    );
    // That one was made, by the clock that was ahead; the next is not waited for.
    look_at_schedules(core, &operations, due).await.unwrap();
    assert_eq!(begun(&operations).await, 1);
    look_at_schedules(core, &operations, due + HOUR)
        .await
        .unwrap();
    assert_eq!(begun(&operations).await, 2);
}
