//! What a cluster really runs: queried from the nodes themselves, by their own
//! sockets, so that also one that is cut off answers.

use std::collections::BTreeMap;

use strata_api::strata::v1::{Pod, PodState};

use super::{Cluster, TEST_TIMEOUT};
use crate::wait_for;

/// The label of a pod with the id of its instance.
const INSTANCE: &str = "strata.dev/id";

/// For each instance, the nodes where it runs.
pub type Running = BTreeMap<String, Vec<String>>;

impl Cluster {
    /// Every pod of a node that is of an instance, by the id of that.
    ///
    /// # Panics
    /// When the node does not answer.
    pub async fn pods_on(&self, node: usize) -> BTreeMap<String, Pod> {
        let pods = self.nodes[node].node().await.pods().await;
        let id = |pod: &Pod| pod.spec.as_ref()?.labels.get(INSTANCE).cloned();
        let pods = pods.expect("the node answers").into_iter();
        pods.filter_map(|pod| Some((id(&pod)?, pod))).collect()
    }

    /// What runs, and where. Nodes whose daemon does not run are left out.
    pub async fn running(&self) -> Running {
        let mut all = Running::new();
        for (number, member) in self.nodes.iter().enumerate() {
            if !member.daemon.runs() {
                continue;
            }
            for (id, pod) in self.pods_on(number).await {
                if pod.state() == PodState::Running {
                    all.entry(id).or_default().push(member.name.clone());
                }
            }
        }
        all
    }

    /// Everything that nodes have of instances, whatever its state.
    pub async fn kept(&self) -> Vec<(String, String, PodState)> {
        let mut all = Vec::new();
        for (number, member) in self.nodes.iter().enumerate() {
            for (id, pod) in self.pods_on(number).await {
                all.push((id, member.name.clone(), pod.state()));
            }
        }
        all
    }

    /// Waits until exactly these instances run, each once, and nodes have
    /// nothing else of any instance but of those that `rest`.
    ///
    /// # Panics
    /// When it does not come to be.
    #[track_caller]
    pub fn settles(&self, run: &[&str], rest: &[&str]) -> impl Future<Output = Running> {
        let mut wanted: Vec<String> = run.iter().map(|id| (*id).to_owned()).collect();
        wanted.sort();
        let mut rest: Vec<String> = rest.iter().map(|id| (*id).to_owned()).collect();
        rest.sort();
        wait_for(
            "what is wanted to be what runs",
            TEST_TIMEOUT,
            async move || {
                let mut up = Vec::new();
                let mut down = Vec::new();
                let kept = self.kept().await;
                for (id, _, state) in &kept {
                    match state {
                        PodState::Running => up.push(id.clone()),
                        // It still answers.
                        PodState::Stopping => {}
                        _ => down.push(id.clone()),
                    }
                }
                up.sort();
                down.sort();
                match (&up, &down) == (&wanted, &rest) {
                    true => Ok(self.running().await),
                    false => Err(format!("{kept:?}, not {wanted:?} and {rest:?}")),
                }
            },
        )
    }

    /// The node where an instance is, and its pod there.
    ///
    /// # Panics
    /// When it is not on exactly one.
    pub async fn place(&self, id: &str) -> (usize, Pod) {
        let mut found = self.places(id).await;
        assert_eq!(found.len(), 1, "{id} is at {found:?}");
        found.remove(0)
    }

    /// Every node that has something of an instance, and its pod there.
    pub async fn places(&self, id: &str) -> Vec<(usize, Pod)> {
        let mut found = Vec::new();
        for number in 0..self.nodes.len() {
            if let Some(pod) = self.pods_on(number).await.remove(id) {
                found.push((number, pod));
            }
        }
        found
    }

    /// Waits until an instance has a single pod, and that meets the condition.
    ///
    /// # Panics
    /// When it does not come to be.
    #[track_caller]
    pub fn pod_until(
        &self,
        id: &str,
        wanted: impl Fn(&Pod) -> bool,
    ) -> impl Future<Output = (usize, Pod)> {
        wait_for("the instance's pod", TEST_TIMEOUT, async move || {
            let found = self.places(id).await;
            match found.as_slice() {
                [(node, pod)] if wanted(pod) => Ok((*node, pod.clone())),
                _ => Err(format!("{found:?}")),
            }
        })
    }
}
