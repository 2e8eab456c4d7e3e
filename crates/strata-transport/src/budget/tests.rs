//! Budgets as such; through the wire they are tested in `tests/transport`.

use strata_types::Label;

use super::*;

fn caller(role: Role, proof: Proof) -> Caller {
    Caller {
        name: "somebody".parse().unwrap(),
        role,
        projects: Some(vec!["shop".parse::<Label>().unwrap()]),
        proof,
        expires_at: None,
    }
}

fn budgets(caller: CallerLimits) -> Budgets {
    Budgets::new(&Limits::default(), caller)
}

fn token(id: &str) -> CallerKey {
    CallerKey::Token(id.into())
}

#[test]
fn callers_do_not_share_a_budget_and_a_request_gives_its_place_back() {
    let budgets = budgets(CallerLimits {
        concurrent_requests: 3,
        ..CallerLimits::default()
    });
    let operator = caller(Role::Operator, Proof::Token);
    let admit = |id: &str| budgets.admit(&token(id), Some(&operator));
    let held: Vec<_> = (0..3).map(|_| admit("a").unwrap()).collect();
    let refused = admit("a").err().unwrap();
    assert_eq!(refused.retry_after, Duration::from_secs(1));
    assert!(admit("b").is_ok());
    drop(held);
    assert!(admit("a").is_ok());
    assert_eq!(budgets.refused(), 1);
}

#[test]
fn rate_holds_for_operators_and_not_for_admins_nodes_and_root() {
    let budgets = budgets(CallerLimits {
        requests_per_second: 1,
        request_burst: 5,
        ..CallerLimits::default()
    });
    let passed = |role, proof| {
        let caller = caller(role, proof);
        let key = CallerKey::of(Some(&caller), None, Source::Local);
        let admit = || budgets.admit(&key, Some(&caller));
        (0..50).filter(|_| admit().is_ok()).count()
    };
    assert_eq!(passed(Role::Operator, Proof::Certificate), 5);
    assert_eq!(passed(Role::Viewer, Proof::Socket), 5);
    assert_eq!(passed(Role::Admin, Proof::Certificate), 50);
    assert_eq!(passed(Role::Admin, Proof::Socket), 50);
    assert_eq!(passed(Role::Node, Proof::Certificate), 50);
    assert_eq!(passed(Role::Operator, Proof::Server), 50);
}

/// A node that was taken over is bounded, by itself, and others of its kind
/// are not touched by it.
#[test]
fn flood_by_a_node_is_bounded_and_costs_no_other_node() {
    let budgets = budgets(CallerLimits::default());
    let node = caller(Role::Node, Proof::Certificate);
    let key = |name: &str| CallerKey::Name(Role::Node, name.into());
    let begin = Instant::now();
    let many = 20 * NODE_REQUEST_BURST;
    let admit = |name: &str| budgets.admit(&key(name), Some(&node));
    let passed = (0..many).filter(|_| admit("evil").is_ok()).count();
    let seconds = u32::try_from(begin.elapsed().as_secs()).unwrap() + 1;
    let most = NODE_REQUEST_BURST + seconds * NODE_REQUESTS_PER_SECOND;
    assert!(passed <= usize::try_from(most).unwrap(), "{passed}");
    let held: Vec<_> = (0..NODE_CONCURRENT_REQUESTS)
        .map(|_| admit("honest").unwrap())
        .collect();
    assert!(admit("honest").is_err() && admit("other").is_ok());
    drop(held);
    assert!(admit("honest").is_ok());
}

#[test]
fn accounts_of_sources_that_rest_are_dropped() {
    let budgets = budgets(CallerLimits {
        unauthenticated_per_second: 1_000_000,
        ..CallerLimits::default()
    });
    for n in 0..10 * u32::try_from(MAX_IDLE_ACCOUNTS).unwrap() {
        budgets.admit_unauthenticated(Source::V4(n)).unwrap();
    }
    let kept = lock(&budgets.0.accounts).all.len();
    assert!(kept <= 3 * MAX_IDLE_ACCOUNTS, "{kept}");
}
