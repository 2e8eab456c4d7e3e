//! Which connection makes room for which.

use super::*;

const ATTACKER: Source = Source::V4(1);
const OTHER: Source = Source::V4(2);

fn table() -> Arc<ConnectionTable> {
    ConnectionTable::new(Limits {
        handshakes: 6,
        handshakes_per_source: 4,
        unauthenticated: 6,
        unauthenticated_per_source: 4,
        ..Limits::default()
    })
}

fn is_evicted(connection: &Connection) -> bool {
    connection.seat.evicted.is_cancelled()
}

/// As if it had been there since this moment.
fn since(connection: &Connection, moment: u64) {
    connection.seat.idle_since.store(moment, Ordering::Relaxed);
}

fn accept_since(table: &Arc<ConnectionTable>, source: Source, moment: u64) -> Connection {
    let connection = table.accept(source);
    since(&connection, moment);
    connection
}

#[test]
fn full_source_closes_its_own_oldest_handshake() {
    let table = table();
    let other = accept_since(&table, OTHER, 0);
    let crowd: Vec<_> = (1..=10)
        .map(|moment| accept_since(&table, ATTACKER, moment))
        .collect();
    assert_eq!(table.count(&Group::Handshake(ATTACKER)), 4);
    assert!(crowd[..6].iter().all(is_evicted));
    assert!(!crowd[6..].iter().any(is_evicted));
    assert!(!is_evicted(&other), "the oldest, but of another source");
}

#[test]
fn handshake_that_began_is_closed_after_those_that_are_silent() {
    let table = table();
    let begun = accept_since(&table, ATTACKER, 0);
    begun.has_said_hello();
    let crowd: Vec<_> = (1..=10)
        .map(|moment| accept_since(&table, ATTACKER, moment))
        .collect();
    assert!(!is_evicted(&begun));
    assert!(crowd[..7].iter().all(is_evicted));
}

#[test]
fn many_sources_together_close_a_handshake_of_the_largest() {
    let table = table();
    let crowd: Vec<_> = (1..=4)
        .map(|moment| accept_since(&table, ATTACKER, moment))
        .collect();
    let others: Vec<_> = (2..=5).map(|n| table.accept(Source::V4(n))).collect();
    assert!(crowd[..2].iter().all(is_evicted));
    assert!(!crowd[2..].iter().any(is_evicted));
    assert!(!others.iter().any(is_evicted));
}

#[test]
fn longest_idle_unauthenticated_connection_is_evicted() {
    let table = table();
    let crowd: Vec<_> = (1..=4)
        .map(|moment| {
            let one = Arc::new(table.accept(ATTACKER));
            one.is_unauthenticated_peer();
            since(&one, moment);
            one
        })
        .collect();
    let request = crowd[0].begin();
    let newcomer = table.accept(ATTACKER);
    newcomer.is_unauthenticated_peer();
    assert!(!is_evicted(&crowd[0]), "a request is under way on it");
    assert!(is_evicted(&crowd[1]));
    drop(request);
    assert!(crowd[0].seat.is_idle());
    assert_eq!(table.count(&Group::Unauthenticated(ATTACKER)), 4);
    assert_eq!(table.count(&Group::Handshake(ATTACKER)), 0);
}

#[test]
fn busy_unauthenticated_connection_is_evicted_if_all_are_busy() {
    let table = table();
    let crowd: Vec<_> = (0..4).map(|_| Arc::new(table.accept(ATTACKER))).collect();
    let requests: Vec<_> = crowd
        .iter()
        .map(|one| {
            one.is_unauthenticated_peer();
            one.begin()
        })
        .collect();
    table.accept(ATTACKER).is_unauthenticated_peer();
    assert_eq!(crowd.iter().filter(|one| is_evicted(one)).count(), 1);
    drop(requests);
}

#[test]
fn authenticated_connection_frees_its_unauthenticated_slot() {
    let table = table();
    let known = Arc::new(table.accept(ATTACKER));
    known.is_unauthenticated_peer();
    let caller = CallerKey::Token("0123".into());
    known.is_of(&caller, 2).unwrap();
    assert_eq!(table.count(&Group::Unauthenticated(ATTACKER)), 0);
    // As many unauthenticated connections as may come close nothing of it.
    let crowd: Vec<_> = (0..20)
        .map(|_| {
            let one = table.accept(ATTACKER);
            one.is_unauthenticated_peer();
            one
        })
        .collect();
    assert!(!is_evicted(&known));
    drop((known, crowd));
    let inner = table.guard();
    assert!(inner.groups.is_empty());
    assert_eq!((inner.handshakes, inner.unauthenticated), (0, 0));
}

#[test]
fn caller_with_too_many_connections_loses_an_idle_one_or_is_refused() {
    let table = table();
    let caller = CallerKey::Token("0123".into());
    let held: Vec<_> = (0..2).map(|_| Arc::new(table.accept(ATTACKER))).collect();
    for one in &held {
        one.is_of(&caller, 2).unwrap();
    }
    let _busy = held[0].begin();
    let third = Arc::new(table.accept(ATTACKER));
    third.is_of(&caller, 2).unwrap();
    assert!(!is_evicted(&held[0]) && is_evicted(&held[1]));
    let _also_busy = third.begin();
    let fourth = table.accept(ATTACKER);
    assert!(fourth.is_of(&caller, 2).is_err());
    assert!(fourth.is_of(&CallerKey::Token("4567".into()), 2).is_ok());
}
