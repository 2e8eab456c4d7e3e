//! Stores that are not for this server.

use std::sync::Arc;

use strata_server::core::Core;
use strata_store::{IMPORT_KEY, Memory, Store as _, Transaction};
use strata_types::ErrorKind;
use tokio_util::sync::CancellationToken;

use crate::world::{World, settings};

async fn refused(store: &Memory) -> String {
    let opened = Core::open(
        Arc::new(store.clone()),
        settings(),
        CancellationToken::new(),
    );
    let Err(error) = opened.await else {
        panic!("it was opened");
    };
    assert_eq!(error.kind(), ErrorKind::WrongState, "{error}");
    error.to_string()
}

#[tokio::test]
async fn records_of_a_later_version_are_left_alone() {
    let store = World::new().await.store.clone();
    let later = Transaction::new().put("schema", r#"{"version":2}"#);
    store.commit(later).await.unwrap();
    let revision = store.revision();
    assert!(refused(&store).await.contains("version 2"));
    assert_eq!(store.revision(), revision, "nothing was written");
}

#[tokio::test]
async fn half_imported_store_is_refused() {
    let store = Memory::new();
    let half = Transaction::new().put(IMPORT_KEY, "{}");
    store.commit(half).await.unwrap();
    assert!(refused(&store).await.contains("import"));
}
