//! A store that was exported at any moment is started from again: whatever had
//! not ended is removed, however much was written of it.

use std::sync::Arc;

use crate::support::{Build, World, house, operations};
use proptest::prelude::*;
use strata_store::{Memory, Store, Transaction, export, import};
use strata_workflow::{Filter, OperationId};

/// The most lines that are kept of one operation, and so as many as a backup
/// may find.
const MAX_LOG_LINES: usize = 500;

/// Adds lines to the log of an operation, as one does that runs for hours.
async fn lengthen(store: &Memory, id: OperationId, lines: usize) {
    let prefix = format!("operation-log/{id}/");
    let first = store.list(&prefix).await.unwrap().entries.remove(0);
    for number in 1..lines {
        let key = format!("{prefix}{number:020}");
        let put = Transaction::new().put(key, first.value.clone());
        store.commit(put).await.unwrap();
    }
}

/// What a restore reads from a backup of this store.
async fn moved(store: &Memory) -> Arc<Memory> {
    let mut text = Vec::new();
    export(store, &mut text).await.unwrap();
    let other = Arc::new(Memory::new());
    import(other.as_ref(), &mut text.as_slice()).await.unwrap();
    other
}

async fn begins_again(operations_open: &[(usize, bool)], interrupted: usize) {
    let (store, world) = (Arc::new(Memory::new()), Arc::new(World::default()));
    let asking = operations(&store, Build, &world);
    for (number, (lines, keyed)) in operations_open.iter().enumerate() {
        let key = keyed.then(|| format!("key-{number}"));
        let wanted = house(&format!("h{number}"), 1);
        let id = asking.submit::<Build>(&wanted, "ann", key.as_deref()).await;
        lengthen(&store, id.unwrap(), *lines).await;
    }
    let restored_export = moved(&store).await;
    let asking = operations(&restored_export, Build, &world);
    // A restore that was cut short is repeated.
    restored_export.fail_before(interrupted.min(1));
    let first = asking.delete_unfinished().await;
    let forgotten = match interrupted {
        0 => first.unwrap(),
        _ => asking.delete_unfinished().await.unwrap(),
    };
    assert!(forgotten <= operations_open.len());
    assert_eq!(asking.list(&Filter::default()).await.unwrap(), []);
    assert_eq!(restored_export.list("operation").await.unwrap().entries, []);
    for number in 0..operations_open.len() {
        let wanted = house(&format!("h{number}"), 1);
        let key = format!("key-{number}");
        let again = asking.submit::<Build>(&wanted, "ann", Some(&key)).await;
        again.unwrap();
    }
}

#[tokio::test]
async fn unfinished_operation_with_a_full_log_is_deleted() {
    begins_again(&[(MAX_LOG_LINES, true), (128, true), (127, false)], 0).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn export_taken_at_any_time_can_be_resumed(
        operations in prop::collection::vec((1..MAX_LOG_LINES, any::<bool>()), 0..5),
        interrupted in 0..2usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(begins_again(&operations, interrupted));
    }
}
