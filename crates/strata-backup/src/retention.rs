//! Which backups are kept. Pure: from what there is and the rules to a
//! decision with its reasons.
//!
//! Days, weeks and months are those of UTC, so that the answer is the same
//! everywhere. The newest backup is kept whatever the rules are.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use strata_types::backup::Retention;

/// A backup, as far as this decision goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub id: String,
    /// When the state that it holds was taken, in Unix milliseconds.
    pub taken_at_ms: i64,
}

/// What is kept and what goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrunePlan {
    /// What is kept, the newest first.
    pub keep: Vec<RetainedBackup>,
    /// What goes, the newest first.
    pub forget: Vec<String>,
}

/// A backup that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetainedBackup {
    pub id: String,
    /// The rules that keep it: `last`, `daily`, `weekly`, `monthly`; `all`
    /// without any rule, `newest` when it is kept as nothing newer is there.
    pub because: Vec<&'static str>,
}

/// A rule: how many periods, and in which one a day lies.
struct Rule {
    name: &'static str,
    left: u32,
    period: fn(Date) -> Date,
    latest: Option<Date>,
}

impl Rule {
    fn new(name: &'static str, count: Option<u32>, period: fn(Date) -> Date) -> Self {
        Self {
            name,
            left: count.unwrap_or(0),
            period,
            latest: None,
        }
    }

    /// Whether it keeps the next older one: the first that is met of each
    /// period, which is the period's latest.
    fn keeps(&mut self, day: Date) -> bool {
        let period = (self.period)(day);
        if self.left == 0 || self.latest == Some(period) {
            return false;
        }
        self.latest = Some(period);
        self.left -= 1;
        true
    }
}

/// Decides for each host on its own: several may share a repository, and the
/// many backups of one must not push out those of another.
pub(crate) fn plan_by_host(backups: Vec<(String, Candidate)>, keep: &Retention) -> PrunePlan {
    let times: HashMap<_, _> = backups
        .iter()
        .map(|(_, backup)| (backup.id.clone(), backup.taken_at_ms))
        .collect();
    let mut hosts = BTreeMap::<String, Vec<Candidate>>::new();
    for (host, backup) in backups {
        hosts.entry(host).or_default().push(backup);
    }
    let mut merged = PrunePlan::default();
    for backups in hosts.into_values() {
        let mut plan = plan(backups, keep);
        merged.keep.append(&mut plan.keep);
        merged.forget.append(&mut plan.forget);
    }
    let age = |id: &str| std::cmp::Reverse(times.get(id).copied());
    merged
        .keep
        .sort_by(|a, b| (age(&a.id), &a.id).cmp(&(age(&b.id), &b.id)));
    merged.forget.sort_by(|a, b| (age(a), a).cmp(&(age(b), b)));
    merged
}

/// Decides for the backups of one host.
pub fn plan(mut backups: Vec<Candidate>, keep: &Retention) -> PrunePlan {
    backups.sort_by(|a, b| {
        let newer = b.taken_at_ms.cmp(&a.taken_at_ms);
        newer.then_with(|| a.id.cmp(&b.id))
    });
    let mut rules = [
        Rule::new("daily", keep.daily, |day| day),
        Rule::new("weekly", keep.weekly, monday),
        Rule::new("monthly", keep.monthly, Date::first_of_month),
    ];
    let mut plan = PrunePlan::default();
    for (older, backup) in backups.into_iter().enumerate() {
        let day = day(backup.taken_at_ms);
        let mut because = Vec::new();
        if keep.keeps_all() {
            because.push("all");
        }
        let last = keep.last.unwrap_or(0);
        if u32::try_from(older).is_ok_and(|older| older < last) {
            because.push("last");
        }
        let periods = rules
            .iter_mut()
            .filter_map(|rule| rule.keeps(day).then_some(rule.name));
        because.extend(periods);
        if older == 0 && because.is_empty() {
            because.push("newest");
        }
        if because.is_empty() {
            plan.forget.push(backup.id);
        } else {
            plan.keep.push(RetainedBackup {
                id: backup.id,
                because,
            });
        }
    }
    plan
}

fn day(ms: i64) -> Date {
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    time.to_zoned(TimeZone::UTC).date()
}

fn monday(day: Date) -> Date {
    let since = day.weekday().to_monday_zero_offset();
    day.checked_sub(jiff::Span::new().days(since))
        .unwrap_or(day)
}

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;
