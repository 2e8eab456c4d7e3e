//! Which operations may run, and in which order.

use proptest::prelude::*;

use super::*;
use crate::claim::conflict;

fn ids(count: usize) -> Vec<OperationId> {
    (0..count).map(|_| OperationId::fresh()).collect()
}

#[test]
fn queue_keeps_submission_order_among_conflicting_operations() {
    let id = ids(4);
    let mut queue = Queue::default();
    queue.wait(id[0], 1, &[Claim::shared("a")]);
    queue.wait(id[1], 2, &[Claim::exclusive("a"), Claim::exclusive("b")]);
    queue.wait(id[2], 3, &[Claim::shared("a")]);
    queue.wait(id[3], 4, &[Claim::exclusive("c")]);
    assert_eq!(queue.next(9), Some(id[0]));
    assert_eq!(queue.next(9), Some(id[3]), "it is in nobody's way");
    assert_eq!(
        queue.next(9),
        None,
        "the third shares, but the second was before"
    );
    queue.stopped(id[0]);
    queue.remove(id[0]);
    assert_eq!(queue.next(9), Some(id[1]));
    assert_eq!(queue.next(9), None);
}

#[test]
fn interrupted_operations_run_first_within_the_concurrency_limit() {
    let id = ids(3);
    let mut queue = Queue::default();
    queue.wait(id[0], 1, &[]);
    queue.hold(id[1], 2, &[], true);
    queue.hold(id[2], 3, &[], false);
    assert_eq!(queue.next(1), Some(id[1]));
    assert_eq!(queue.next(1), None);
    assert_eq!(queue.next(9), Some(id[0]));
    assert_eq!(queue.next(9), None);
    queue.make_ready(id[2]);
    assert_eq!(queue.next(9), Some(id[2]));
}

fn claims() -> impl Strategy<Value = Vec<Claim>> {
    let claim = (0..4u8, any::<bool>()).prop_map(|(key, shared)| {
        let key = format!("k{key}");
        if shared {
            Claim::shared(key)
        } else {
            Claim::exclusive(key)
        }
    });
    prop::collection::vec(claim, 0..3)
}

proptest! {
    #[test]
    fn conflicting_operations_never_run_concurrently(
        wants in prop::collection::vec(claims(), 1..20),
        most in 1..5usize,
        ends in prop::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let id = ids(wants.len());
        let mut queue = Queue::default();
        for (n, claims) in wants.iter().enumerate() {
            queue.wait(id[n], n as u64 + 1, claims);
        }
        let mut running: Vec<usize> = Vec::new();
        let mut ran = Vec::new();
        for end in ends {
            while let Some(next) = queue.next(most) {
                let next = id.iter().position(|id| *id == next).unwrap();
                for other in &running {
                    prop_assert!(!conflict(&wants[*other], &wants[next]));
                }
                for earlier in 0..next {
                    let waits = !ran.contains(&earlier);
                    prop_assert!(!waits || !conflict(&wants[earlier], &wants[next]));
                }
                running.push(next);
                ran.push(next);
                prop_assert!(running.len() <= most);
            }
            if running.is_empty() {
                break;
            }
            let ended = running.swap_remove(end.index(running.len()));
            queue.stopped(id[ended]);
            queue.remove(id[ended]);
        }
        ran.sort_unstable();
        prop_assert_eq!(ran, (0..wants.len()).collect::<Vec<_>>());
        prop_assert!(queue.ids().is_empty());
    }
}
