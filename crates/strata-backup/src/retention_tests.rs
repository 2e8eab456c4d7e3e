//! The rules, by example and by property.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Candidate {
    let time: Timestamp = text.parse().expect("a time");
    Candidate {
        id: text.to_owned(),
        taken_at_ms: time.as_millisecond(),
    }
}

fn kept(plan: &PrunePlan) -> Vec<(&str, &[&str])> {
    let kept = plan.keep.iter();
    kept.map(|one| (one.id.as_str(), one.because.as_slice()))
        .collect()
}

#[test]
fn each_rule_keeps_on_its_own() {
    let backups = [
        "2026-03-01T02:00:00Z",
        "2026-02-28T23:00:00Z",
        "2026-02-28T02:00:00Z",
        "2026-02-22T02:00:00Z",
        "2026-02-16T02:00:00Z",
        "2026-01-31T02:00:00Z",
    ];
    let keep = Retention {
        last: Some(1),
        daily: Some(2),
        weekly: Some(2),
        monthly: Some(3),
    };
    let plan = plan(backups.map(at).into(), &keep);
    assert_eq!(
        kept(&plan),
        [
            (
                "2026-03-01T02:00:00Z",
                &["last", "daily", "weekly", "monthly"][..]
            ),
            ("2026-02-28T23:00:00Z", &["daily", "monthly"][..]),
            // A Sunday: the week before that of March the first.
            ("2026-02-22T02:00:00Z", &["weekly"][..]),
            ("2026-01-31T02:00:00Z", &["monthly"][..]),
        ]
    );
    assert_eq!(
        plan.forget,
        ["2026-02-28T02:00:00Z", "2026-02-16T02:00:00Z"]
    );
}

#[test]
fn backups_of_one_host_do_not_evict_those_of_another() {
    let of = |host: &str, text| (host.to_owned(), at(text));
    let backups = vec![
        of("b", "2026-01-02T02:00:00Z"),
        of("a", "2026-03-03T02:00:00Z"),
        of("a", "2026-03-02T02:00:00Z"),
        of("b", "2026-01-01T02:00:00Z"),
        of("a", "2026-03-01T02:00:00Z"),
        of("b", "2026-03-02T12:00:00Z"),
    ];
    let keep = Retention {
        last: Some(2),
        ..Retention::default()
    };
    let plan = plan_by_host(backups, &keep);
    assert_eq!(
        kept(&plan),
        [
            ("2026-03-03T02:00:00Z", &["last"][..]),
            ("2026-03-02T12:00:00Z", &["last"][..]),
            ("2026-03-02T02:00:00Z", &["last"][..]),
            ("2026-01-02T02:00:00Z", &["last"][..]),
        ]
    );
    assert_eq!(
        plan.forget,
        ["2026-03-01T02:00:00Z", "2026-01-01T02:00:00Z"]
    );
}

#[test]
fn without_a_rule_everything_stays() {
    let plan = plan(vec![at("2026-03-01T02:00:00Z")], &Retention::default());
    assert_eq!(kept(&plan), [("2026-03-01T02:00:00Z", &["all"][..])]);
}

#[test]
fn the_newest_stays_even_if_nothing_is_to() {
    let keep = Retention {
        last: Some(0),
        ..Retention::default()
    };
    let plan = plan(
        vec![at("2026-03-01T02:00:00Z"), at("2026-03-02T02:00:00Z")],
        &keep,
    );
    assert_eq!(kept(&plan), [("2026-03-02T02:00:00Z", &["newest"][..])]);
    assert_eq!(plan.forget, ["2026-03-01T02:00:00Z"]);
}

const YEAR_MS: i64 = 366 * 24 * 3600 * 1000;

fn backups() -> impl Strategy<Value = Vec<Candidate>> {
    let start = 1_767_225_600_000_i64;
    proptest::collection::vec(start..start + 2 * YEAR_MS, 0..60).prop_map(|times| {
        let numbered = times.into_iter().enumerate();
        numbered
            .map(|(n, taken_at_ms)| Candidate {
                id: format!("{n:04}"),
                taken_at_ms,
            })
            .collect()
    })
}

fn rules() -> impl Strategy<Value = Retention> {
    let rule = || proptest::option::of(0..12_u32);
    (rule(), rule(), rule(), rule()).prop_map(|(last, daily, weekly, monthly)| Retention {
        last,
        daily,
        weekly,
        monthly,
    })
}

proptest! {
    #[test]
    fn every_backup_is_either_kept_or_forgotten(backups in backups(), keep in rules()) {
        let plan = plan(backups.clone(), &keep);
        let mut seen: Vec<_> = plan.keep.iter().map(|kept| kept.id.clone()).collect();
        seen.extend(plan.forget.iter().cloned());
        seen.sort();
        let mut all: Vec<_> = backups.iter().map(|one| one.id.clone()).collect();
        all.sort();
        prop_assert_eq!(seen, all);
        prop_assert!(plan.keep.iter().all(|kept| !kept.because.is_empty()));
    }

    #[test]
    fn the_newest_is_never_forgotten(backups in backups(), keep in rules()) {
        let plan = plan(backups.clone(), &keep);
        let newest = backups.iter().map(|one| one.taken_at_ms).max();
        let kept: BTreeSet<_> = plan.keep.iter().map(|kept| kept.id.as_str()).collect();
        let newest = backups.iter().filter(|one| Some(one.taken_at_ms) == newest);
        prop_assert!(backups.is_empty() || newest.into_iter().any(|one| kept.contains(one.id.as_str())));
    }

    #[test]
    fn a_rule_keeps_no_more_than_it_says_and_the_latest_of_each_period(
        backups in backups(), daily in 1..20_u32,
    ) {
        let keep = Retention { daily: Some(daily), ..Retention::default() };
        let plan = plan(backups.clone(), &keep);
        let days: BTreeSet<_> = backups.iter().map(|one| day(one.taken_at_ms)).collect();
        let wanted: Vec<_> = days.iter().rev().take(daily as usize).rev().copied().collect();
        let time = |id: &str| backups.iter().find(|one| one.id == id).map(|one| one.taken_at_ms);
        let mut got: Vec<_> = plan.keep.iter().filter_map(|kept| time(&kept.id)).map(day).collect();
        got.reverse();
        prop_assert_eq!(got, wanted);
        for kept in &plan.keep {
            let this = time(&kept.id).unwrap_or_default();
            let later = backups.iter().any(|one| {
                one.taken_at_ms > this && day(one.taken_at_ms) == day(this)
            });
            prop_assert!(!later, "{} is not the latest of its day", kept.id);
        }
    }

    #[test]
    fn pruning_twice_forgets_nothing_more(backups in backups(), keep in rules()) {
        let first = plan(backups.clone(), &keep);
        let left = backups.into_iter().filter(|one| !first.forget.contains(&one.id)).collect();
        prop_assert_eq!(plan(left, &keep).forget, Vec::<String>::new());
    }

    #[test]
    fn a_further_rule_forgets_nothing_that_was_kept(
        backups in backups(), last in 1..20_u32, keep in rules(),
    ) {
        let only = Retention { last: Some(last), ..Retention::default() };
        let both = Retention { last: Some(last), ..keep };
        let (only, both) = (plan(backups.clone(), &only), plan(backups, &both));
        for kept in only.keep {
            prop_assert!(!both.forget.contains(&kept.id));
        }
    }
}
