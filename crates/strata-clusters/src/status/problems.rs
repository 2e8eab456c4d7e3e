//! What is not as specified, the most important first, and what to do about it.

use std::collections::BTreeSet;
use std::time::Duration;

use strata_types::cluster::{ClusterRole, Member};

use super::{Facts, OutageHistory, RemediationDelays, Work};
use crate::choose::changes;
use crate::{Observed, ObservedNode};

/// So many are listed; the rest is counted.
const MAX_PROBLEMS: usize = 4;
/// The longest text that is taken over from others.
const MAX_LENGTH: usize = 300;

/// All that the status of a cluster is computed from.
pub(super) struct View<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) seen: &'a Observed,
    pub(super) outage_history: &'a OutageHistory,
    pub(super) max_wait: &'a RemediationDelays,
    pub(super) now_ms: i64,
}

/// Everything that is not as specified in a cluster that serves.
pub(super) fn find(view: &View<'_>) -> Vec<String> {
    let mut found: Vec<String> = view.facts.stopped.map(cut).into_iter().collect();
    found.extend(etcd(view));
    found.extend(nodes(view, ClusterRole::ControlPlane));
    found.extend(nodes(view, ClusterRole::Worker));
    // While it is changed, what is not there yet is on its way.
    if view.facts.work == Work::Idle {
        found.extend(missing(view.facts));
        found.extend(versions(view));
    }
    found.extend(pods(view.seen));
    found.extend(unregistered(view));
    found
}

pub(super) fn describe(mut found: Vec<String>) -> String {
    let more = found.len().saturating_sub(MAX_PROBLEMS);
    found.truncate(MAX_PROBLEMS);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    found.join("; ")
}

/// Why the API may not answer, and what to do.
pub(super) fn silence(facts: &Facts<'_>, seen: &Observed) -> String {
    let mut found: Vec<String> = facts.stopped.map(cut).into_iter().collect();
    found.push(match seen.why.is_empty() {
        true => "its API does not answer".into(),
        false if seen.why.starts_with("its API") => cut(&seen.why),
        false => format!("its API does not answer: {}", cut(&seen.why)),
    });
    let answer = seen.etcd.values().filter(|answers| **answers).count();
    if answer * 2 <= seen.etcd.len() && !seen.etcd.is_empty() {
        found.push(format!(
            "etcd has lost its majority ({answer} of {} answer)",
            seen.etcd.len()
        ));
    }
    let name = facts.name;
    let mut controls = facts.members.iter();
    let first = controls.find(|member| member.role == ClusterRole::ControlPlane);
    let look = first.map_or_else(
        || "it has no control-plane machine; delete it with: strata cluster delete".to_owned(),
        |member| format!("check its machines: strata machine list, strata machine console {}; or restore a snapshot: strata cluster restore", member.machine),
    );
    found.push(format!("{look} {name}"));
    found.join("; ")
}

fn etcd(view: &View<'_>) -> Option<String> {
    let etcd = &view.seen.etcd;
    let silent: Vec<_> = etcd.iter().filter(|(_, answers)| !**answers).collect();
    let names: Vec<_> = silent.iter().map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "etcd on {} does not answer; {} of {} do, and {} must for the cluster to serve",
            names.join(", "),
            etcd.len() - names.len(),
            etcd.len(),
            etcd.len() / 2 + 1,
        )
    })
}

/// Members of a role whose node is not as it should be.
fn nodes(view: &View<'_>, role: ClusterRole) -> Vec<String> {
    let members = view.facts.members.iter().filter(|m| m.role == role);
    members.filter_map(|member| node(view, member)).collect()
}

fn node(view: &View<'_>, member: &Member) -> Option<String> {
    let machine = &member.machine;
    let who = match member.role {
        ClusterRole::ControlPlane => format!("control-plane machine {machine}"),
        ClusterRole::Worker => format!("worker {machine}"),
    };
    if !member.joined {
        let waits = view.facts.work != Work::Idle;
        return (!waits)
            .then(|| format!("{who} never joined; check: strata machine console {machine}"));
    }
    let is_lost = view.facts.lost.contains(machine.as_str());
    let what = match observed(view.seen, member) {
        // While it changes, machines come and go.
        Some(node) if node.ready && is_lost && view.facts.work == Work::Idle => {
            return Some(format!(
                "the machine of {who} does not answer; if its node does not report either, it is \
                 replaced; check: strata machine console {machine}"
            ));
        }
        Some(node) if node.ready => return None,
        Some(node) if node.reason.is_empty() => format!("{who} is NotReady"),
        Some(node) => format!("{who} is NotReady: {}", cut(&node.reason)),
        None => format!("{who} is not known to the cluster any more"),
    };
    Some(format!("{what}; {}", next(view, member)))
}

/// What happens to a member that is not ready, or what to do.
fn next(view: &View<'_>, member: &Member) -> String {
    let machine = &member.machine;
    let look = format!("check: strata machine console {machine}");
    let mut controls = view.facts.members.iter();
    let alone = member.role == ClusterRole::ControlPlane
        && controls.all(|m| m.role == ClusterRole::Worker || m.machine == *machine);
    if alone {
        return format!("it is the only one and is not replaced by itself; {look}");
    }
    if view.facts.work != Work::Idle {
        return look;
    }
    let left = view
        .outage_history
        .left(machine.as_str(), view.max_wait, view.now_ms);
    let left = left.unwrap_or(view.max_wait.not_ready);
    if view
        .facts
        .unreplaced
        .iter()
        .any(|id| id == machine.as_str())
    {
        return format!(
            "no machine is free to replace it; it is replaced as soon as one is: free one (strata machine list shows who uses them), or add one with: strata machine add; {look}"
        );
    }
    match left.is_zero() {
        true => format!("it is replaced as soon as that is safe; {look}"),
        false => format!("it is replaced in {}; {look}", span(left)),
    }
}

fn observed<'a>(seen: &'a Observed, member: &Member) -> Option<&'a ObservedNode> {
    let mut nodes = seen.nodes.iter();
    nodes.find(|node| node.name == member.machine.as_str())
}

/// What is specified and not there, or there and not specified.
fn missing(facts: &Facts<'_>) -> Vec<String> {
    let name = facts.name;
    let changes = changes(facts.spec, facts.members);
    let lacks = changes.add.iter().map(|want| match want.role {
        ClusterRole::ControlPlane => format!(
            "{} of {} control-plane machines are missing; they come as soon as machines are free: strata machine list",
            want.count, facts.spec.control_plane.count
        ),
        ClusterRole::Worker => format!(
            "pool {} lacks {} of its machines; they come as soon as machines are free: strata machine list, or ask for fewer: strata pool scale {name}",
            want.pool, want.count
        ),
    });
    let surplus = changes.remove.iter().map(|surplus| {
        format!(
            "pool {} has {} machines too many; have them go with: strata pool scale {name}",
            surplus.pool, surplus.count
        )
    });
    lacks.chain(surplus).collect()
}

/// Members whose version is not the specified one.
fn versions(view: &View<'_>) -> Option<String> {
    let asked = view.facts.spec.version;
    let text = asked.to_string();
    let joined = view.facts.members.iter().filter(|member| member.joined);
    let other = joined.filter(|member| {
        let reported = observed(view.seen, member).map_or("", |node| node.version.as_str());
        member.version != asked || (!reported.is_empty() && reported != text)
    });
    let names: Vec<_> = other.map(|member| member.machine.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{} not at {asked} yet; go on with: strata cluster upgrade {}",
            list(&names),
            view.facts.name
        )
    })
}

fn pods(seen: &Observed) -> Option<String> {
    let names: Vec<_> = seen.broken_pods.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| format!("{} not running; check: kubectl describe", list(&names)))
}

/// Nodes that are not ready and whose machine is not of this cluster.
fn unregistered(view: &View<'_>) -> Vec<String> {
    let members = view.facts.members.iter();
    let ours: BTreeSet<&str> = members.map(|member| member.machine.as_str()).collect();
    let nodes = view.seen.nodes.iter();
    let strange = nodes.filter(|node| !node.ready && !ours.contains(node.name.as_str()));
    strange
        .map(|node| {
            let name = cut(&node.name);
            format!("the node {name} is NotReady and has no machine of this cluster; remove it with: kubectl delete node {name}")
        })
        .collect()
}

/// `a is`, `a and b are`, `a, b, c and 2 more are`.
fn list(names: &[&str]) -> String {
    let reported: Vec<_> = names.iter().take(3).map(|name| cut(name)).collect();
    match names.len() {
        1 => format!("{} is", reported.join("")),
        2 | 3 => format!("{} are", reported.join(", ")),
        all => format!(
            "{} and {} more are",
            reported.join(", "),
            all - reported.len()
        ),
    }
}

/// Texts of others, in one line and not endless.
pub(super) fn cut(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut short: String = text.chars().take(MAX_LENGTH).map(plain).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// `40 seconds`, `5 minutes`.
pub(super) fn span(time: Duration) -> String {
    let (count, unit) = match time.as_secs() {
        seconds @ 0..120 => (seconds.max(1), "second"),
        seconds @ 120..7200 => (seconds / 60, "minute"),
        seconds => (seconds / 3600, "hour"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}
