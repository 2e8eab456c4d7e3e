//! Which machines a cluster gets.
//!
//! A part that requests GPUs gets machines with one; all others get machines
//! without, so that a GPU is never used up by a cluster that did not request
//! it. The control plane takes the smallest that are enough for it, the workers
//! the largest; what failed a moment ago comes last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use strata_types::cluster::{ClusterRole, InstanceType, Member};
use strata_types::machine::MachineId;
use strata_types::{Error, Result};

use super::{MAX_MEMBERS, RoleDemand, free_numbers};

/// What kubeadm requires of a machine of the control plane. One thread is
/// enough to serve, slowly, so it is preferred and not demanded.
const CONTROL_THREADS: u32 = 2;
/// The megabytes of memory that kubeadm requires: with less, it does not start.
const CONTROL_MEGABYTES: u64 = 1700;
/// What a kubelet, a container runtime and the pods of the system need on a
/// worker, in megabytes.
const WORKER_MEGABYTES: u64 = 900;

/// A machine that could be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Id of the machine.
    pub machine: MachineId,
    /// Whether it has a GPU, or is labelled so.
    pub gpu: bool,
    /// Its threads of execution; 0 when unknown.
    pub threads: u32,
    /// Its memory in megabytes; 0 when unknown.
    pub megabytes: u64,
    /// It failed a moment ago, and is taken only if it must be.
    pub failed_lately: bool,
}

/// A machine that is to be taken, and what it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Id of the machine.
    pub machine: MachineId,
    /// What it is to be.
    pub role: ClusterRole,
    /// The pool of a worker; empty for the control plane.
    pub pool: String,
    /// Labels of its Kubernetes node.
    pub labels: BTreeMap<String, String>,
    /// Its number in the cluster.
    pub number: u8,
    /// Why this one, for people.
    pub why: String,
}

/// Picks a machine for each place of the demand, or reports what is missing.
/// The same facts, in whatever order, give the same choice. Machines and
/// numbers of `members` are not taken again.
pub fn choose(
    candidates: &[Candidate],
    wants: &[RoleDemand],
    members: &[Member],
) -> Result<Vec<Choice>> {
    let theirs: BTreeSet<&MachineId> = members.iter().map(|member| &member.machine).collect();
    let free = candidates.iter().filter(|c| !theirs.contains(&c.machine));
    // Twice the same is one machine.
    let free: BTreeMap<&MachineId, &Candidate> = free.map(|c| (&c.machine, c)).collect();
    let mut free: Vec<&Candidate> = free.into_values().collect();
    enough(&free, wants)?;
    large_enough(&free, wants)?;
    let all: usize = wants.iter().map(|want| want.count as usize).sum();
    let mut numbers = free_numbers(members, all)?.into_iter();
    let mut choices = Vec::with_capacity(all);
    for want in wants {
        free.sort_by_key(|candidate| rank(candidate, want.role));
        for _ in 0..want.count {
            let fits = free
                .iter()
                .position(|candidate| fits_role(candidate, want.instance_type, want.role));
            let (Some(at), Some(number)) = (fits, numbers.next()) else {
                return Err(Error::internal("machines were counted wrongly"));
            };
            let candidate = free.remove(at);
            choices.push(Choice {
                machine: candidate.machine.clone(),
                role: want.role,
                pool: want.pool.clone(),
                labels: want.labels.clone(),
                number,
                why: why(candidate, want),
            });
        }
    }
    Ok(choices)
}

/// The same for as much of the demand as there are machines and numbers for:
/// what is named first comes first.
pub fn choose_most(
    candidates: &[Candidate],
    wants: &[RoleDemand],
    members: &[Member],
) -> Result<Vec<Choice>> {
    let is_theirs = |id: &MachineId| members.iter().any(|member| member.machine == *id);
    let free = candidates.iter().filter(|it| !is_theirs(&it.machine));
    let free: BTreeMap<&MachineId, &Candidate> = free.map(|it| (&it.machine, it)).collect();
    let fit = |kind: InstanceType, role: ClusterRole| {
        let all = free.values();
        all.filter(|it| fits_role(it, kind, role)).count()
    };
    let mut used = [(InstanceType::Gpu, 0), (InstanceType::Standard, 0)];
    let taken: BTreeSet<u8> = members.iter().map(|member| member.number).collect();
    let mut numbers = usize::from(MAX_MEMBERS).saturating_sub(taken.len());
    let mut wants = wants.to_vec();
    for want in &mut wants {
        let kind = want.instance_type;
        let Some((_, used)) = used.iter_mut().find(|(it, _)| *it == kind) else {
            continue;
        };
        let most = fit(kind, want.role).saturating_sub(*used).min(numbers);
        let count = most.min(want.count as usize);
        numbers -= count;
        *used += count;
        want.count = u32::try_from(count).unwrap_or(want.count);
    }
    choose(candidates, &wants, members)
}

/// Of the type, and not known to be too small.
fn fits_role(candidate: &Candidate, wanted: InstanceType, role: ClusterRole) -> bool {
    let known = candidate.megabytes > 0;
    of_type(candidate, wanted) && !(known && candidate.megabytes < least_megabytes(role))
}

const fn least_megabytes(role: ClusterRole) -> u64 {
    match role {
        ClusterRole::ControlPlane => CONTROL_MEGABYTES,
        ClusterRole::Worker => WORKER_MEGABYTES,
    }
}

/// Whether enough of them have the memory for what they are to be. The control
/// plane requires more than workers do, and takes the smallest that do: what is
/// left is counted for the workers.
fn large_enough(free: &[&Candidate], wants: &[RoleDemand]) -> Result<()> {
    for kind in [InstanceType::Standard, InstanceType::Gpu] {
        let mut asked = 0;
        for role in [ClusterRole::ControlPlane, ClusterRole::Worker] {
            let of_kind = wants
                .iter()
                .filter(|it| it.instance_type == kind && it.role == role);
            asked += of_kind.map(|want| want.count as usize).sum::<usize>();
            let fit = free.iter().filter(|it| fits_role(it, kind, role)).count();
            if asked > fit {
                return Err(too_small(free, kind, role, asked, fit));
            }
        }
    }
    Ok(())
}

fn too_small(
    free: &[&Candidate],
    kind: InstanceType,
    role: ClusterRole,
    asked: usize,
    fit: usize,
) -> Error {
    let least = least_megabytes(role);
    let what = match role {
        ClusterRole::ControlPlane => "a control-plane machine",
        ClusterRole::Worker => "a worker",
    };
    let small = free
        .iter()
        .filter(|it| of_type(it, kind) && !fits_role(it, kind, role));
    let small = small.map(|it| format!("{} has {} MB", it.machine, it.megabytes));
    let small: Vec<_> = small.take(4).collect();
    let why = format!(
        "{what} needs {least} MB of memory, and of {asked} {kind} machines requested only {fit} \
         have it: {}",
        small.join(", ")
    );
    Error::exhausted(why).with_hint("add larger machines with: strata machine add")
}

fn of_type(candidate: &Candidate, wanted: InstanceType) -> bool {
    candidate.gpu == (wanted == InstanceType::Gpu)
}

/// The order of candidates: the lowest is taken first.
fn rank(candidate: &Candidate, role: ClusterRole) -> impl Ord + use<> {
    let size = (candidate.megabytes, candidate.threads);
    let size = match role {
        ClusterRole::ControlPlane => (!is_enough(candidate), size, Reverse((0, 0))),
        ClusterRole::Worker => (false, (0, 0), Reverse(size)),
    };
    (
        candidate.failed_lately,
        size,
        natural(candidate.machine.as_str()),
    )
}

fn is_enough(candidate: &Candidate) -> bool {
    candidate.threads >= CONTROL_THREADS && candidate.megabytes >= CONTROL_MEGABYTES
}

/// For people, `local-2` comes before `local-10`.
fn natural(name: &str) -> (String, u64, String) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[stem.len()..].parse().unwrap_or(u64::MAX);
    (stem.into(), number, name.into())
}

fn enough(free: &[&Candidate], wants: &[RoleDemand]) -> Result<()> {
    let mut missing = Vec::new();
    for kind in [InstanceType::Standard, InstanceType::Gpu] {
        let of_kind = wants.iter().filter(|want| want.instance_type == kind);
        let asked: usize = of_kind.map(|want| want.count as usize).sum();
        let here = free
            .iter()
            .filter(|candidate| of_type(candidate, kind))
            .count();
        if asked > here {
            let lacks = asked - here;
            missing.push(format!(
                "{lacks} {kind} {} missing ({asked} requested, {here} free)",
                if lacks == 1 {
                    "machine is"
                } else {
                    "machines are"
                },
            ));
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::exhausted(missing.join(", and ")).with_hint(
            "strata machine list shows what is taken by whom; more are added with: strata machine add",
        )),
    }
}

fn why(candidate: &Candidate, want: &RoleDemand) -> String {
    let mut why = match (want.instance_type, want.role) {
        (InstanceType::Gpu, _) => "free, with a GPU".to_owned(),
        (InstanceType::Standard, ClusterRole::Worker) => {
            "the largest that is free, without a GPU".to_owned()
        }
        (InstanceType::Standard, ClusterRole::ControlPlane) if is_enough(candidate) => {
            "the smallest that is free and large enough to control, without a GPU".to_owned()
        }
        (InstanceType::Standard, ClusterRole::ControlPlane) => {
            "free, without a GPU; none that is known to be large enough to control".to_owned()
        }
    };
    if candidate.failed_lately {
        why.push_str("; it failed lately, and no other is left");
    }
    why
}
