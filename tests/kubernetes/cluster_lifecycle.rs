//! The life of a small cluster: made, used with kubectl, given a machine and
//! relieved of another while a client asks on and the server dies, and deleted.

use strata_testkit::serde_json::Value;

use crate::kubernetes::certificates;
use crate::kubernetes::hardening;
use crate::kubernetes::kubectl::Kubectl;
use crate::kubernetes::request_client::Asking;
use crate::kubernetes::tell;
use crate::kubernetes::web_workload::PORT;
use crate::kubernetes::world::{CLUSTER, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_made_used_scaled_and_deleted() {
    let Some(mut world) = World::start(4).await else {
        return;
    };
    let before = world.before().await;
    let create = format!("cluster create {CLUSTER} --version 1.34 --workers 1 --label team=shop");
    world.done(&create).await;
    world.is("RUNNING").await;
    let kubectl = world.kubectl().await;
    kubectl.nodes_ready(2).await;
    for node in kubectl.list("nodes").await {
        assert_eq!(node["metadata"]["labels"]["team"], "shop", "{node:#}");
        let version = &node["status"]["nodeInfo"]["kubeletVersion"];
        assert_eq!(version, &world.bundles.old, "{node:#}");
    }
    let [control] = &world.members("control-plane").await[..] else {
        panic!("it has one machine that controls it");
    };
    let [first] = &world.members("workers").await[..] else {
        panic!("it has one worker");
    };
    capacity_is_that_of_the_machine(&world, &kubectl).await;
    world.import_image(std::slice::from_ref(first)).await;
    kubectl.deploy_web().await;
    serves_its_users(&kubectl).await;
    cpu_limit_above_the_machine_is_accepted(&world, &kubectl, first).await;
    hardening::holds(&world, &kubectl, control).await;

    let address = format!("{}:{PORT}", world.address(control).await);
    let asking = Asking::begin(&world.network, address.parse().unwrap()).await;
    let second = grows(&mut world, &kubectl, first).await;
    shrinks(&mut world, &kubectl, first, &second).await;
    let count = asking.end();
    tell(&format!(
        "scaled 1, 2, 1: {} answers, the slowest after {:.0?}, {} failures",
        count.answered,
        count.slowest,
        count.failed.len()
    ));
    assert!(count.answered > 20, "{count:?}");
    assert!(count.failed.is_empty(), "{count:?}");

    certificates::are_renewed(&mut world, &kubectl, control).await;
    hardening::secret_is_readable(&world).await;
    viewers_look_and_the_revoked_do_not(&world).await;
    hardening::operator_stays_within_a_namespace(&world).await;
    world.done(&format!("cluster delete {CLUSTER} --yes")).await;
    kubectl.fails("get nodes --request-timeout=5s").await;
    world.returns_to(&before).await;
}

/// What the scheduler counts with is what a machine has, not what its host has.
async fn capacity_is_that_of_the_machine(world: &World, kubectl: &Kubectl) {
    for node in kubectl.list("nodes").await {
        let name = node["metadata"]["name"].as_str().unwrap();
        let machine = world.rest().get(&format!("/machine/{name}")).await;
        let capacity = &node["status"]["capacity"];
        let cpu: u64 = capacity["cpu"].as_str().unwrap().parse().unwrap();
        assert_eq!(Some(cpu), machine["cpu"].as_u64(), "{name}: {capacity}");
        let memory = capacity["memory"].as_str().unwrap();
        let kib: u64 = memory.strip_suffix("Ki").unwrap().parse().unwrap();
        // Megabytes of the inventory are rounded down. A virtual machine lacks
        // what its kernel took before it counted, which is little.
        let most = (machine["ram"].as_u64().unwrap() + 1) * 1_000_000;
        assert!(kib * 1024 <= most, "{name}: {memory} of {most}");
        assert!(
            kib * 1024 >= most / 10 * 9,
            "{name}: {memory}, less than 90 % of {most}"
        );
    }
}

/// A limit is no request: one above what the machine has is accepted, and its
/// cgroup can be made below that of the machine.
async fn cpu_limit_above_the_machine_is_accepted(world: &World, kubectl: &Kubectl, worker: &str) {
    let machine = world.rest().get(&format!("/machine/{worker}")).await;
    let limit = machine["cpu"].as_u64().unwrap() * 1000 + 250;
    kubectl
        .apply(&format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: limited}}
spec:
  nodeName: {worker}
  terminationGracePeriodSeconds: 1
  containers:
  - name: limited
    image: strata.test/web:v1
    imagePullPolicy: Never
    command: [sleep, "1000"]
    resources: {{requests: {{cpu: 10m}}, limits: {{cpu: {limit}m}}}}
"#
        ))
        .await;
    let phase = "get pod limited -o jsonpath={.status.phase}";
    kubectl.until(phase, |said| said == "Running").await;
    kubectl.says("delete pod limited --now").await;
}

/// Runs commands, reads what was written, finds it by name.
async fn serves_its_users(kubectl: &Kubectl) {
    let pods = kubectl.web_pods().await;
    let (pod, _) = &pods[0];
    let said = kubectl.says(&format!("exec {pod} -- hostname")).await;
    assert_eq!(&said, pod);
    let log = kubectl.says(&format!("logs {pod}")).await;
    assert_eq!(log, format!("serving {pod}"));
    let found = format!("exec {pod} -- nslookup web.default.svc.cluster.local");
    kubectl.until(&found, |said| said.contains("Address")).await;
    let page = kubectl
        .says(&format!(
            "exec {pod} -- wget -q -O - http://web.default.svc.cluster.local/"
        ))
        .await;
    assert!(pods.iter().any(|(name, _)| *name == page), "{page}");
}

/// A second worker comes while the server dies; its name.
async fn grows(world: &mut World, kubectl: &Kubectl, first: &str) -> String {
    let scale = format!("pool scale {CLUSTER} workers 2 --detach");
    let id = world.cli(&scale).await.trim().to_owned();
    world.comes_to(&id, "join").await;
    let machines = world.members("workers").await;
    world.killed_amid(&machines, "kubeadm").await;
    world.completed(&id).await;
    kubectl.nodes_ready(3).await;
    let workers = world.members("workers").await;
    assert_eq!(workers.len(), 2, "{workers:?}");
    let second = workers.into_iter().find(|name| name != first).unwrap();
    world.import_image(std::slice::from_ref(&second)).await;
    let (pod, _) = &kubectl.web_pods().await[0];
    kubectl.says(&format!("delete pod {pod} --wait=true")).await;
    kubectl.web_is_ready().await;
    let pods = kubectl.web_pods().await;
    let mut nodes: Vec<_> = pods.iter().map(|(_, node)| node.clone()).collect();
    nodes.sort();
    let mut both = vec![first.to_owned(), second.clone()];
    both.sort();
    assert_eq!(nodes, both, "{pods:?}");
    // From one machine to the other, by name and by address.
    let (from, to) = (&pods[0].0, &pods[1].0);
    let ip = kubectl
        .says(&format!("get pod {to} -o jsonpath={{.status.podIP}}"))
        .await;
    let page = kubectl
        .says(&format!("exec {from} -- wget -q -O - http://{ip}:8080/"))
        .await;
    assert_eq!(&page, to);
    let found = format!("exec {from} -- nslookup web.default.svc.cluster.local");
    kubectl.until(&found, |said| said.contains("Address")).await;
    let found = format!("exec {to} -- nslookup web.default.svc.cluster.local");
    kubectl.until(&found, |said| said.contains("Address")).await;
    second
}

/// The one that is marked goes, though it is the older one, while the server
/// dies.
async fn shrinks(world: &mut World, kubectl: &Kubectl, first: &str, second: &str) {
    let mark = format!("annotate node {first} cluster.k8s.io/delete-machine=");
    kubectl.says(&mark).await;
    let path = format!("/cluster/{CLUSTER}/pool/workers?dryRun=true");
    let wanted = strata_testkit::serde_json::json!({ "count": 1 });
    // It is looked at every few seconds.
    strata_testkit::wait_for(
        "the victim",
        crate::kubernetes::world::TEST_TIMEOUT,
        async || {
            let plan = world.rest().patch(&path, wanted.clone()).await;
            let goes = &plan["remove"][0]["machine"];
            (goes == first).then_some(()).ok_or(format!("{plan}"))
        },
    )
    .await;
    let scale = format!("pool scale {CLUSTER} workers 1 --detach");
    let id = world.cli(&scale).await.trim().to_owned();
    kubectl.web_is_moved().await;
    world.kill_and_restart().await;
    world.completed(&id).await;
    kubectl.nodes_ready(2).await;
    assert_eq!(world.members("workers").await, [second]);
    kubectl.web_is_ready().await;
    let pods = kubectl.web_pods().await;
    assert!(pods.iter().all(|(_, node)| node == second), "{pods:?}");
    let free = |one: &Value| one["phase"] == "AVAILABLE";
    world.until(&format!("/machine/{first}"), free).await;
}

async fn viewers_look_and_the_revoked_do_not(world: &World) {
    let dir = world.daemon.scratch().join("vera");
    let out = dir.display();
    world
        .cli(&format!(
            "certificate issue --role viewer --name vera --out {out}"
        ))
        .await;
    let viewer = world.kubectl_as("vera", &dir).await;
    viewer.until("get pods", |said| said.contains("web")).await;
    let refused = viewer.fails("delete deployment web").await;
    assert!(refused.contains("forbidden"), "{refused}");
    let revoke = format!("cluster kubeconfig {CLUSTER} --revoke --user vera");
    world.cli(&revoke).await;
    // The API server takes note of it within moments.
    strata_testkit::wait_for(
        "the refusal",
        crate::kubernetes::world::TEST_TIMEOUT,
        async || {
            let output = viewer.output("get pods", "").await;
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            let refused = !output.status.success() && told.contains("forbidden");
            refused.then_some(()).ok_or(told)
        },
    )
    .await;
    // Nobody else is.
    world.kubectl().await.says("get pods").await;
}
