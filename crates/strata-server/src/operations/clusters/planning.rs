//! Plans changes of a cluster from its record and the latest observation.
//! Nothing is written here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use strata_api::rest::{ClusterPlan, PlannedMachine};
use strata_clusters::choose::{self, Candidate, Choice};
use strata_clusters::{Observed, skew};
use strata_types::cluster::{ClusterRole, ClusterSpec, KubernetesVersion, Member, NodePool};
use strata_types::machine::MachinePhase;
use strata_types::{Error, Result};

use super::{Clusters, PoolChange};
use crate::core::{Cluster, NodeCondition, now_ms};

/// A machine whose last try failed is taken last for so long.
const FAILURE_COOLDOWN_MS: i64 = 10 * 60 * 1000;
/// How long a cluster may take to report its nodes.
const OBSERVE_TIMEOUT: Duration = Duration::from_secs(10);
/// The label that says which type a machine is, before it was ever up.
const TYPE_LABEL: &str = "instance-type";

/// What a change of pools comes to.
#[derive(Clone, Debug)]
pub(super) struct PoolPlan {
    pub(super) pools: Vec<NodePool>,
    pub(super) add: Vec<Member>,
    pub(super) remove: Vec<String>,
    reasons: BTreeMap<String, String>,
}

impl Clusters {
    /// The machines that could be taken.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let now = now_ms();
        let machines = self.core.machines();
        let free = machines.iter().filter(|machine| {
            machine.phase == MachinePhase::Available
                && machine.cluster.is_none()
                && self.core.node(machine.id.as_str()).is_err()
        });
        let candidate = free.map(|machine| Candidate {
            machine: machine.id.clone(),
            gpu: machine.gpus > 0
                || machine
                    .spec
                    .labels
                    .get(TYPE_LABEL)
                    .is_some_and(|kind| kind == "gpu"),
            threads: machine.threads(),
            megabytes: machine.megabytes(),
            failed_lately: machine
                .failure
                .as_ref()
                .is_some_and(|failure| now - failure.at_ms < FAILURE_COOLDOWN_MS),
        });
        candidate.collect()
    }

    /// The members of a new cluster.
    pub(super) fn plan_members(&self, spec: &ClusterSpec) -> Result<(Vec<Member>, ClusterPlan)> {
        let changes = choose::changes(spec, &[]);
        let choices = choose::choose(&self.candidates(), &changes.add, &[])?;
        let members = members(&choices, spec.version);
        let add = choices.iter().map(planned).collect();
        let remove = Vec::new();
        Ok((members, ClusterPlan { add, remove }))
    }

    /// What a change of pools comes to now. Which of several members are
    /// removed depends on what is broken and on what people marked, a moment
    /// ago perhaps: so the cluster is observed first.
    pub(super) async fn observe_and_plan_pools(
        &self,
        cluster: &Cluster,
        change: &PoolChange,
    ) -> Result<PoolPlan> {
        let last = self.observed(cluster);
        let plan = self.plan_pools(cluster, change, &last)?;
        if !plan.has_a_choice(cluster) {
            return Ok(plan);
        }
        let facts = self.facts(cluster.name.as_str()).await?;
        let observation = tokio::time::timeout(OBSERVE_TIMEOUT, self.driver.observe(&facts)).await;
        match observation {
            Ok(observation) if observation.serves => self.plan_pools(cluster, change, &observation),
            _ if last.serves => Ok(plan),
            _ => Err(Error::unavailable(format!(
                "cluster {} does not answer: which of its machines to remove cannot be decided",
                cluster.name
            ))),
        }
    }

    /// The same by what was seen before.
    pub(super) fn plan_pools(
        &self,
        cluster: &Cluster,
        change: &PoolChange,
        observation: &Observed,
    ) -> Result<PoolPlan> {
        match change {
            PoolChange::Add(pools) => choose::check_added(&cluster.spec.pools, pools)?,
            PoolChange::Scale(sizes) => {
                drop(choose::check_scaled(&cluster.spec.pools, sizes)?);
            }
            PoolChange::Delete(_) => {}
        }
        let pools = change.apply(cluster)?;
        let spec = ClusterSpec {
            pools: pools.clone(),
            ..cluster.spec.clone()
        };
        // The control plane is not what changes here.
        let mut changes = choose::changes(&spec, &cluster.members);
        changes.add.retain(|want| !want.pool.is_empty());
        let choices = choose::choose(&self.candidates(), &changes.add, &cluster.members)?;
        let mut reasons: BTreeMap<_, _> = choices
            .iter()
            .map(|choice| (choice.machine.to_string(), choice.why.clone()))
            .collect();
        let mut remove = Vec::new();
        for surplus in &changes.remove {
            let many = usize::try_from(surplus.count).unwrap_or(usize::MAX);
            for (id, why) in
                choose::members_to_remove(&surplus.pool, many, &cluster.members, observation)
            {
                reasons.insert(id.to_string(), why);
                remove.push(id.to_string());
            }
        }
        Ok(PoolPlan {
            pools,
            add: members(&choices, oldest_server(cluster)),
            remove,
            reasons,
        })
    }

    /// What was last seen, or nothing.
    pub(super) fn observed(&self, cluster: &Cluster) -> Observed {
        let observation = self.observations.get(cluster.name.as_str(), &cluster.id);
        observation
            .map(|observation| observation.observed)
            .unwrap_or_default()
    }

    /// Whether a cluster may go to a version that is here.
    pub(super) fn may_upgrade(&self, cluster: &Cluster, to: KubernetesVersion) -> Result<()> {
        self.catalogue.find(to).map_err(missing)?;
        // Going on where an earlier upgrade stopped.
        if cluster.spec.version == to && cluster.members.iter().any(|it| it.version != to) {
            return Ok(());
        }
        if is_partially_upgraded(cluster) {
            let (name, begun) = (&cluster.name, cluster.spec.version);
            let why = format!("the upgrade of {name} to {begun} has not ended");
            return Err(Error::wrong_state(why)
                .in_field("version")
                .with_hint(format!(
                    "end it first: strata cluster upgrade {name} {begun}"
                )));
        }
        let oldest = skew::oldest(&cluster.members).unwrap_or(cluster.spec.version);
        let may = skew::may_go(cluster.spec.version, oldest, to);
        may.map_err(|error| Error::wrong_state(error.to_string()).in_field("version"))
    }

    /// The versions that a cluster can go to now.
    pub fn upgrade_targets(&self, name: &str) -> Result<Vec<KubernetesVersion>> {
        let cluster = self.core.cluster(name)?;
        if is_partially_upgraded(&cluster) {
            return Ok(vec![cluster.spec.version]);
        }
        let here = self.catalogue.versions();
        let here: Vec<_> = here.iter().map(|bundle| bundle.version).collect();
        let oldest = skew::oldest(&cluster.members).unwrap_or(cluster.spec.version);
        Ok(skew::targets(cluster.spec.version, oldest, &here))
    }

    /// Machines that a cluster reports and that are not its any more: as when
    /// it was restored to a snapshot. Nodes that joined by other ways are
    /// ignored.
    pub(crate) fn stale_members(&self, cluster: &Cluster, observation: &Observed) -> Vec<Member> {
        let nodes = observation.nodes.iter().map(|node| &node.name);
        let told: BTreeSet<&String> = nodes.chain(observation.etcd.keys()).collect();
        let strange = told.into_iter().filter(|id| cluster.member(id).is_none());
        let machines = strange.filter_map(|id| self.core.machine(id).ok());
        let ghost = machines.map(|machine| Member {
            machine: machine.id.clone(),
            role: match observation.etcd.contains_key(machine.id.as_str()) {
                true => ClusterRole::ControlPlane,
                false => ClusterRole::Worker,
            },
            pool: String::new(),
            number: 0,
            labels: BTreeMap::new(),
            version: cluster.spec.version,
            address: String::new(),
            joined: false,
            added_at_ms: 0,
        });
        ghost.collect()
    }

    /// Whether a machine is down and released.
    pub(super) fn is_down(&self, machine: &str) -> bool {
        let found = self.core.machine(machine);
        found.map_or(true, |now| now.phase == MachinePhase::Available)
            && self.core.node(machine).is_err()
    }

    /// Whether anything of a machine is up.
    pub(super) fn is_up(&self, machine: &str) -> bool {
        !self.is_down(machine)
    }

    /// Whether nothing can be moved off a member, since nothing runs there.
    pub(super) fn is_lost_member(&self, cluster: &str, machine: &str) -> bool {
        let lost = match self.core.node(machine) {
            Ok(node) => node.condition != NodeCondition::Ready,
            Err(_) => true,
        };
        let Ok(cluster) = self.core.cluster(cluster) else {
            return true;
        };
        let observation = self.observed(&cluster);
        let ready = observation
            .nodes
            .iter()
            .any(|node| node.name == machine && node.ready);
        lost && !ready
    }
}

impl PoolPlan {
    /// Whether others of a pool stay while some go.
    fn has_a_choice(&self, cluster: &Cluster) -> bool {
        let goes = |member: &Member| self.remove.iter().any(|id| id == member.machine.as_str());
        let goers = cluster.members.iter().filter(|member| goes(member));
        let pools: BTreeSet<&str> = goers.map(|member| member.pool.as_str()).collect();
        let mut members = cluster.members.iter();
        members.any(|member| !goes(member) && pools.contains(member.pool.as_str()))
    }

    /// As it is shown.
    pub(super) fn shown(&self, cluster: &Cluster) -> ClusterPlan {
        let why = |id: &str| self.reasons.get(id).cloned().unwrap_or_default();
        let add = self.add.iter().map(|member| PlannedMachine {
            machine: member.machine.to_string(),
            role: member.role,
            pool: member.pool.clone(),
            why: why(member.machine.as_str()),
        });
        let remove = self.remove.iter().filter_map(|id| {
            let member = cluster.member(id)?;
            Some(PlannedMachine {
                machine: id.clone(),
                role: member.role,
                pool: member.pool.clone(),
                why: why(id),
            })
        });
        ClusterPlan {
            add: add.collect(),
            remove: remove.collect(),
        }
    }
}

fn planned(choice: &Choice) -> PlannedMachine {
    PlannedMachine {
        machine: choice.machine.to_string(),
        role: choice.role,
        pool: choice.pool.clone(),
        why: choice.why.clone(),
    }
}

pub(super) fn members(choices: &[Choice], version: KubernetesVersion) -> Vec<Member> {
    let added_at_ms = now_ms();
    let member = |choice: &Choice| Member {
        machine: choice.machine.clone(),
        role: choice.role,
        pool: choice.pool.clone(),
        number: choice.number,
        labels: choice.labels.clone(),
        version,
        address: String::new(),
        joined: false,
        added_at_ms,
    };
    choices.iter().map(member).collect()
}

/// Whether an upgrade of the control plane stopped between two machines.
fn is_partially_upgraded(cluster: &Cluster) -> bool {
    oldest_server(cluster) != cluster.spec.version
}

/// The oldest of its API servers: no kubelet may be newer.
pub(super) fn oldest_server(cluster: &Cluster) -> KubernetesVersion {
    let controls = cluster.members.iter();
    let controls = controls.filter(|it| it.joined && it.role == ClusterRole::ControlPlane);
    let oldest = controls.map(|member| member.version).min();
    oldest.unwrap_or(cluster.spec.version)
}

/// A version that is not here.
#[allow(clippy::needless_pass_by_value)] // for map_err
pub(super) fn missing(error: strata_clusters::catalogue::CatalogueError) -> Error {
    Error::invalid("version", error.to_string()).with_hint(error.hint())
}
