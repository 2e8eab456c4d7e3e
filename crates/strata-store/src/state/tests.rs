//! What a state guarantees, without an engine around it.

use std::time::Duration;

use super::{HistoryBounds, State};
use crate::{Change, LeaseId, StoreError, Transaction};

const START: Duration = Duration::ZERO;

fn state() -> State {
    State::new(HistoryBounds::default())
}

fn commit(state: &mut State, transaction: Transaction) -> Result<u64, StoreError> {
    let mut batch = state.batch();
    let answer = batch.commit(transaction);
    let delta = batch.finish();
    state.apply(delta, START);
    answer
}

#[test]
fn a_transaction_sees_those_before_it_in_the_batch() {
    let mut state = state();
    let mut batch = state.batch();
    assert_eq!(
        batch.commit(Transaction::new().if_absent("a").put("a", "1")),
        Ok(1)
    );
    let conflict = batch.commit(Transaction::new().if_absent("a").put("a", "2"));
    assert_eq!(conflict, Err(StoreError::Conflict { key: "a".into() }));
    assert_eq!(
        batch.commit(Transaction::new().if_unchanged("a", 1).put("a", "3")),
        Ok(2)
    );
    let delta = batch.finish();
    assert_eq!(
        state.get("a"),
        None,
        "nothing is there before it is applied"
    );
    state.apply(delta, START);
    let entry = state.get("a").unwrap();
    assert_eq!(
        (entry.value.as_ref(), entry.created, entry.changed),
        (&b"3"[..], 1, 2)
    );
}

#[test]
fn commit_without_changes_gets_no_revision() {
    let mut state = state();
    commit(&mut state, Transaction::new().put("a", "1")).unwrap();
    assert_eq!(commit(&mut state, Transaction::new().delete("b")), Ok(1));
    assert_eq!(commit(&mut state, Transaction::new()), Ok(1));
    assert_eq!(state.changes_after(0, "").unwrap().changes.len(), 1);
}

#[test]
fn a_key_granted_bound_and_ended_in_one_batch_is_gone() {
    let mut state = state();
    let mut batch = state.batch();
    let lease = batch.grant(Duration::from_secs(1));
    batch
        .commit(
            Transaction::new()
                .put_with("a", "1", Some(lease))
                .put("b", "1"),
        )
        .unwrap();
    batch.end(lease);
    let late = batch.commit(Transaction::new().put_with("c", "1", Some(lease)));
    assert_eq!(late, Err(StoreError::NoSuchLease(lease)));
    let delta = batch.finish();
    state.apply(delta, START);
    assert_eq!(state.get("a"), None);
    assert!(state.get("b").is_some());
    assert_eq!(state.next_end(), None);
}

#[test]
fn a_key_that_changes_its_lease_goes_with_the_new_one_only() {
    let mut state = state();
    let mut batch = state.batch();
    let (old, new) = (
        batch.grant(Duration::from_secs(1)),
        batch.grant(Duration::from_secs(9)),
    );
    batch
        .commit(Transaction::new().put_with("a", "1", Some(old)))
        .unwrap();
    batch
        .commit(Transaction::new().put_with("a", "2", Some(new)))
        .unwrap();
    let delta = batch.finish();
    state.apply(delta, START);
    assert_eq!(state.expired(Duration::from_secs(1)), [old]);
    let mut batch = state.batch();
    batch.end(old);
    let delta = batch.finish();
    state.apply(delta, START);
    assert!(state.get("a").is_some());
    let mut batch = state.batch();
    batch.end(new);
    let delta = batch.finish();
    state.apply(delta, START);
    assert_eq!(state.get("a"), None);
}

#[test]
fn a_lease_whose_time_is_over_is_not_kept_alive() {
    let mut state = state();
    let mut batch = state.batch();
    let lease = batch.grant(Duration::from_secs(5));
    let delta = batch.finish();
    state.apply(delta, START);
    state.keep_alive(lease, Duration::from_secs(4)).unwrap();
    assert_eq!(state.next_end(), Some(Duration::from_secs(9)));
    let gone = Err(StoreError::NoSuchLease(lease));
    assert_eq!(state.keep_alive(lease, Duration::from_secs(9)), gone);
    state.set_ending(&[lease], true);
    assert_eq!(state.keep_alive(lease, Duration::from_secs(5)), gone);
    assert_eq!(
        state.keep_alive(LeaseId(77), START),
        Err(StoreError::NoSuchLease(LeaseId(77)))
    );
}

#[test]
fn the_past_is_bounded_by_revisions_and_by_bytes() {
    let bounds = HistoryBounds {
        revisions: 3,
        bytes: 100,
    };
    let mut state = State::new(bounds);
    for _ in 0..5 {
        commit(&mut state, Transaction::new().put("a", "1")).unwrap();
    }
    assert_eq!(
        state.changes_after(1, ""),
        Err(StoreError::Compacted { oldest: 2 })
    );
    assert_eq!(state.changes_after(2, "").unwrap().changes.len(), 3);
    commit(&mut state, Transaction::new().put("a", vec![0; 200])).unwrap();
    assert_eq!(
        state.changes_after(5, ""),
        Err(StoreError::Compacted { oldest: 6 })
    );
    assert!(state.changes_after(6, "").unwrap().complete);
    assert_eq!(
        state.changes_after(7, ""),
        Err(StoreError::Compacted { oldest: 6 })
    );
}

#[test]
fn the_past_comes_in_parts_and_only_what_was_asked_for() {
    let mut state = state();
    for n in 0..1200 {
        let name = if n % 2 == 0 { "even/x" } else { "odd/x" };
        commit(
            &mut state,
            Transaction::new().put(name, n.to_string()).put("z", ""),
        )
        .unwrap();
    }
    let (mut seen, mut after, mut parts) = (Vec::new(), 0, 0);
    loop {
        let part = state.changes_after(after, "odd/").unwrap();
        after = part.upto;
        parts += 1;
        seen.extend(part.changes);
        if part.complete {
            break;
        }
    }
    assert_eq!((seen.len(), parts, after), (600, 3, 1200));
    let only_asked = |change: &Change| matches!(change, Change::Put(e) if e.key == "odd/x");
    assert!(seen.iter().all(|it| it.changes.iter().all(only_asked)));
}
