//! One look at a cluster: what its API says, and since when what is broken is
//! so, for the queries that follow.

use std::collections::BTreeSet;
use std::time::Duration;

use strata_clusters::ClusterFacts;

use super::{Clusters, Seen};
use crate::core::{Cluster, NodeCondition, now_ms};

/// How long a cluster may take to answer.
const ANSWERING: Duration = Duration::from_secs(15);

impl Clusters {
    /// Looks at a cluster before its record says that a change is over: what
    /// was seen before does not have the machines that came with it.
    pub(super) async fn look_now(&self, name: &str) {
        let (Ok(cluster), Ok(facts)) = (self.core.cluster(name), self.facts(name).await) else {
            return;
        };
        drop(self.look_at(&cluster, &facts).await);
        self.sight.look_soon(name);
    }

    /// Looks at a cluster, and keeps what is seen.
    pub(crate) async fn look_at(&self, cluster: &Cluster, facts: &ClusterFacts) -> Seen {
        let name = cluster.name.as_str();
        // What is seen may be as old as the question.
        let look = self.sight.begin();
        let observed = tokio::time::timeout(ANSWERING, self.driver.observe(facts)).await;
        let observed = observed.unwrap_or_default();
        let before = self.sight.get(name, &cluster.id);
        let answered = before.as_ref().is_some_and(|seen| seen.answered) || observed.serves;
        let mut memory = before.map(|seen| seen.memory).unwrap_or_default();
        memory.note(&cluster.members, &observed, &self.lost(cluster), now_ms());
        let seen = Seen {
            id: cluster.id.clone(),
            observed,
            memory,
            answered,
            at_ms: now_ms(),
            look,
        };
        self.sight.put(name, seen.clone());
        seen
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
