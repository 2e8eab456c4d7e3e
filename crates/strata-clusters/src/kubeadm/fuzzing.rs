//! What an API server answers, and the configuration that a cluster keeps: a
//! `cluster-admin` can write both. Fuzzed by `fuzz/`.

use super::apiserver::with_arguments;
use super::objects::{List, Node, Pod};
use super::static_pods::with_tags;
use super::{observe, pki};

pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[
    ("cluster_objects", cluster_objects),
    ("cluster_configuration", cluster_configuration),
];

fn cluster_objects(data: &[u8]) {
    if let Ok(nodes) = serde_json::from_slice::<List<Node>>(data) {
        for node in &nodes.items {
            let _ = (node.is_ready(), observe::observed(node));
        }
    }
    if let Ok(pods) = serde_json::from_slice::<List<Pod>>(data) {
        let _ = pods.items.iter().filter(|pod| pod.is_ready()).count();
    }
    if let Ok(text) = str::from_utf8(data) {
        let _ = pki::first_end(text);
    }
}

/// What is changed once is as it should be. Ends of lines become those of Unix,
/// which kubeadm writes.
fn cluster_configuration(data: &[u8]) {
    let text = String::from_utf8_lossy(data).replace('\r', "");
    let once = with_arguments(&text);
    assert_eq!(with_arguments(&once), once);
    let tagged = with_tags(&once, "3.6.5-0", "v1.12.1");
    assert_eq!(with_tags(&tagged, "3.6.5-0", "v1.12.1"), tagged);
}

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        super::replay::replay(super::TARGETS);
    }
}
