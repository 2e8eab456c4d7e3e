//! A pod that forks without end takes its own processes, and no others.

use std::fs;

use strata_testkit::cluster::{Cluster, TEST_TIMEOUT};
use strata_testkit::serde_json::json;
use strata_testkit::wait_for;

use super::project_world::{STRATA, run, script};

/// The largest number in files of this name below the pod's control groups.
fn of_pod(cluster: &Cluster, pod: &str, file: &str) -> Vec<String> {
    let groups = cluster.nodes[0].host().look().cgroups;
    let of_pod = groups
        .iter()
        .filter(|group| group.to_string_lossy().contains(pod));
    let texts = of_pod.filter_map(|group| fs::read_to_string(group.join(file)).ok());
    texts.map(|text| text.trim().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_leaves_the_node_and_other_pods_alone() {
    let cluster = Cluster::start(STRATA, 1).await;
    run(&cluster, script(&cluster, "default", "calm", "sleep 1000")).await;
    let bomb = "f() { f | f & }; sleep 2; while :; do f; sleep 1; done";
    let mut bomb = script(&cluster, "default", "bomb", bomb);
    bomb["pids"] = json!(200);
    bomb["resources"] = json!({ "cpu": 300 });
    run(&cluster, bomb).await;
    let (_, calm) = cluster.place("id-calm").await;
    let (_, pod) = cluster.place("id-bomb").await;
    let (calm, bomb) = (calm.spec.unwrap().name, pod.spec.unwrap().name);
    // Every pod has a limit, also where nobody names one.
    let limits = of_pod(&cluster, &calm, "pids.max");
    assert!(limits.iter().any(|limit| limit == "4096"), "{limits:?}");
    let limits = of_pod(&cluster, &bomb, "pids.max");
    assert!(limits.iter().any(|limit| limit == "200"), "{limits:?}");
    wait_for("the bomb to go off", TEST_TIMEOUT, async || {
        let now = of_pod(&cluster, &bomb, "pids.current");
        let most = now.iter().filter_map(|n| n.parse::<u64>().ok()).max();
        match most {
            Some(most) if most >= 190 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    for _ in 0..5 {
        // Its first process may end too; it has no cgroup until it is started again.
        let most = wait_for("the bomb to run", TEST_TIMEOUT, async || {
            let now = of_pod(&cluster, &bomb, "pids.current");
            let most = now.iter().filter_map(|n| n.parse::<u64>().ok()).max();
            most.ok_or_else(|| format!("{now:?}"))
        })
        .await;
        assert!(most <= 200, "{most}");
        let node = cluster.nodes[0].node().await;
        assert_eq!(node.says(&calm, "echo fine").await.trim(), "fine");
    }
    run(&cluster, script(&cluster, "default", "next", "sleep 1000")).await;
    cluster.destroy("id-bomb").await.unwrap();
    cluster.settles(&["id-calm", "id-next"], &[]).await;
}
