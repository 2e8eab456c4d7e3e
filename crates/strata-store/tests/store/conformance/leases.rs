//! Keys that go with a lease.

use std::time::Duration;

use strata_store::{Change, LeaseId, StoreError, Transaction};

use crate::world::{World, next, until};

pub(crate) async fn expiry(world: &World) {
    let store = &world.store;
    let lease = store.grant(Duration::from_secs(1)).await.unwrap();
    let other = store.grant(Duration::from_secs(3600)).await.unwrap();
    let bound = Transaction::new()
        .put_with("l/b", "1", Some(lease))
        .put_with("l/a", "1", Some(lease))
        .put_with("l/freed", "1", Some(lease))
        .put_with("l/moved", "1", Some(lease))
        .put("l/free", "1");
    let bound = store.commit(bound).await.unwrap();
    assert_eq!(store.get("l/a").await.unwrap().unwrap().lease, Some(lease));
    let freed = Transaction::new()
        .put("l/freed", "2")
        .put_with("l/moved", "2", Some(other));
    let freed = store.commit(freed).await.unwrap();
    assert!(freed > bound);
    let mut watch = store.watch("l/", freed).await.unwrap();
    let gone = next(&mut watch).await.unwrap();
    let keys = ["l/a", "l/b"].map(|key| Change::Deleted { key: key.into() });
    assert_eq!(gone.changes, keys);
    let left = store.list("l/").await.unwrap();
    let left: Vec<_> = left.entries.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(left, ["l/free", "l/freed", "l/moved"]);
    ended(world, lease).await;
}

pub(crate) async fn kept_alive(world: &World) {
    let store = &world.store;
    let lease = store.grant(Duration::from_secs(1)).await.unwrap();
    // The measure: leases that no client renews end, one after the other.
    store
        .commit(Transaction::new().put_with("kept", "", Some(lease)))
        .await
        .unwrap();
    for _ in 0..3 {
        let measure = store.grant(Duration::from_secs(1)).await.unwrap();
        until("a lease to end that is not kept", || async {
            store.keep_alive(lease).await.unwrap();
            let bound = Transaction::new().put_with("probe", "", Some(measure));
            match store.get("probe").await.unwrap() {
                None => match store.commit(bound).await {
                    Ok(_) => None,
                    Err(error) => {
                        assert_eq!(error, StoreError::NoSuchLease(measure));
                        Some(())
                    }
                },
                Some(_) => None,
            }
        })
        .await;
    }
    assert!(store.get("kept").await.unwrap().is_some());
    until("the lease to end", || async {
        store.get("kept").await.unwrap().is_none().then_some(())
    })
    .await;
    ended(world, lease).await;
}

pub(crate) async fn revoked(world: &World) {
    let store = &world.store;
    let lease = store.grant(Duration::from_secs(3600)).await.unwrap();
    let bound = Transaction::new()
        .put_with("r/1", "", Some(lease))
        .put_with("r/2", "", Some(lease));
    let bound = store.commit(bound).await.unwrap();
    let mut watch = store.watch("r/", bound).await.unwrap();
    store.revoke(lease).await.unwrap();
    assert_eq!(store.list("r/").await.unwrap().entries, []);
    assert_eq!(next(&mut watch).await.unwrap().changes.len(), 2);
    store.revoke(lease).await.unwrap();
    ended(world, lease).await;
    ended(world, LeaseId(987_654_321)).await;
}

async fn ended(world: &World, lease: LeaseId) {
    let store = &world.store;
    let none = StoreError::NoSuchLease(lease);
    assert_eq!(store.keep_alive(lease).await, Err(none.clone()));
    let late = Transaction::new()
        .put_with("late", "", Some(lease))
        .put("also", "");
    assert_eq!(store.commit(late).await, Err(none));
    assert_eq!(store.get("also").await, Ok(None));
}
