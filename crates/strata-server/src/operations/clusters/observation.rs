//! Observes a cluster: what its API reports, and since when each problem
//! holds.

use std::collections::BTreeSet;
use std::time::Duration;

use strata_clusters::ClusterFacts;

use super::{ClusterObservation, Clusters};
use crate::core::{Cluster, NodeCondition, now_ms};

/// How long a cluster may take to answer.
const OBSERVE_TIMEOUT: Duration = Duration::from_secs(15);

impl Clusters {
    /// Observes a cluster before its record says that a change is over: an
    /// earlier observation lacks the machines that the change added.
    pub(super) async fn observe_now(&self, name: &str) {
        let (Ok(cluster), Ok(facts)) = (self.core.cluster(name), self.facts(name).await) else {
            return;
        };
        drop(self.observe(&cluster, &facts).await);
        self.observations.request_refresh();
    }

    /// Observes a cluster, and caches the observation.
    pub(crate) async fn observe(
        &self,
        cluster: &Cluster,
        facts: &ClusterFacts,
    ) -> ClusterObservation {
        let name = cluster.name.as_str();
        // The observation may be as old as the request.
        let sequence = self.observations.begin();
        let observed = tokio::time::timeout(OBSERVE_TIMEOUT, self.driver.observe(facts)).await;
        let observed = observed.unwrap_or_default();
        let before = self.observations.get(name, &cluster.id);
        let answered = before
            .as_ref()
            .is_some_and(|observation| observation.answered)
            || observed.serves;
        let mut memory = before
            .map(|observation| observation.memory)
            .unwrap_or_default();
        memory.note(&cluster.members, &observed, &self.lost(cluster), now_ms());
        let observation = ClusterObservation {
            id: cluster.id.clone(),
            observed,
            memory,
            answered,
            at_ms: now_ms(),
            sequence,
        };
        self.observations.put(name, observation.clone());
        observation
    }

    /// The machines of a cluster whose own nodes do not answer.
    pub(crate) fn lost(&self, cluster: &Cluster) -> BTreeSet<String> {
        let machines = cluster.members.iter().map(|it| it.machine.to_string());
        let lost = machines.filter(|id| match self.core.node(id) {
            Ok(node) => node.condition != NodeCondition::Ready,
            Err(_) => true,
        });
        lost.collect()
    }
}
