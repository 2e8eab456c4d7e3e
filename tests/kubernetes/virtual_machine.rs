//! A cluster one of whose machines has a kernel of its own: a worker that is a
//! virtual machine, booted from nothing but our program and a busybox. Its
//! control groups are of the second version, its files are few, and the bundle
//! has to be sent to it.
//!
//! Without KVM it is many times slower than the machines of other tests.

use std::time::{Duration, Instant};

use strata_testkit::guest::{Guest, kernel};
use strata_testkit::serde_json::{Value, from_str};
use strata_testkit::skip;

use crate::kubernetes::kubectl::Kubectl;
use crate::kubernetes::request_client::is_answered;
use crate::kubernetes::tell;
use crate::kubernetes::web_workload::PORT;
use crate::kubernetes::world::{CLUSTER, World};

/// The control plane takes the smallest machine that is enough for it, so it
/// is the local one. A worker that boots without KVM is not given up soon.
const MACHINES: &str = "local = 1\nlocal_cpu = 2\nlocal_ram = 2000";
const WORKER: &str = "vm-1";
/// For what the worker does.
const TEST_TIMEOUT: Duration = Duration::from_secs(600);

/// A web server out of the machine's own busybox: in an image that the bundle
/// has anyway, there is nothing to serve with.
const OBJECTS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  nodeName: vm-1
  terminationGracePeriodSeconds: 1
  volumes: [{name: tools, hostPath: {path: /bin}}]
  containers:
  - name: web
    image: IMAGE
    imagePullPolicy: Never
    command: [/tools/busybox, sh, -c]
    args:
    - |
      /tools/busybox echo "this is $(/tools/busybox hostname)" >/dev/shm/index.html
      echo serving
      exec /tools/busybox httpd -f -p 8080 -h /dev/shm
    volumeMounts: [{name: tools, mountPath: /tools}]
    ports: [{containerPort: 8080, hostPort: 8088}]
    readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 2}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080, nodePort: 30080}]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_is_a_worker_like_others() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let kernel = kernel();
    let kernel = kernel.parent().unwrap().display();
    let machines = format!("{MACHINES}\n[machines.qemu]\nkernel_folder = \"{kernel}\"");
    let Some(world) = World::with(&machines, TEST_TIMEOUT).await else {
        return;
    };
    let before = world.before().await;
    let add = format!("machine add {WORKER} --provider qemu --cpu 2 --ram 3GB --disk 8GB");
    world.cli(&add).await;
    let begun = Instant::now();
    // Its web server is the machine's own, by a path and a port of the host.
    let create = format!(
        "cluster create {CLUSTER} --version 1.34 --workers 1 --pod-security privileged --detach"
    );
    let id = world.cli(&create).await;
    let ended = world.ended_within(id.trim(), TEST_TIMEOUT).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended:#}");
    tell(&format!("a worker without KVM: {:.1?}", begun.elapsed()));
    assert_eq!(world.members("workers").await, [WORKER]);
    let kubectl = world.kubectl().await;
    kubectl.nodes_ready(2).await;
    let kernel = "get node vm-1 -o jsonpath={.status.nodeInfo.kernelVersion}";
    let kernel = kubectl.says(kernel).await;
    assert!(kernel.contains("cloud"), "a kernel of its own: {kernel}");

    kubectl
        .apply(&OBJECTS.replace("IMAGE", &image(&world)))
        .await;
    serves(&world, &kubectl, 0).await;
    comes_back(&world, &kubectl).await;
    world.done(&format!("cluster delete {CLUSTER} --yes")).await;
    world.returns_to(&before).await;
}

/// One that is in the bundle.
fn image(world: &World) -> String {
    let bundle = world
        .bundles
        .dir
        .join(&world.bundles.old)
        .join("bundle.json");
    let text = std::fs::read_to_string(bundle).unwrap();
    let bundle: Value = from_str(&text).unwrap();
    let images = bundle["images"].as_array().unwrap().iter();
    let mut images = images.map(|image| image.as_str().unwrap());
    images
        .find(|image| image.contains("/coredns:"))
        .unwrap()
        .to_owned()
}

/// Logs, a command, names, and the ways in: over another machine, and by a
/// port of its own.
async fn serves(world: &World, kubectl: &Kubectl, restarts: u32) {
    let state = "get pod web -o jsonpath={.status.containerStatuses[0].ready}\
                 {.status.containerStatuses[0].restartCount}";
    kubectl
        .until(state, |said| said == format!("true{restarts}"))
        .await;
    assert_eq!(kubectl.says("logs web").await, "serving");
    let run = "exec web -- /tools/busybox";
    assert_eq!(kubectl.says(&format!("{run} hostname")).await, "web");
    let names = "nslookup -type=a web.default.svc.cluster.local";
    kubectl
        .until(&format!("{run} {names}"), |said| said.contains("10.96."))
        .await;
    let control = world.members("control-plane").await.remove(0);
    let address = format!("{}:{PORT}", world.address(&control).await);
    is_answered(&world.network, address.parse().unwrap(), TEST_TIMEOUT).await;
    let address = "get pod web -o jsonpath={.status.hostIP}:8088";
    let address = kubectl.says(address).await;
    is_answered(&world.network, address.parse().unwrap(), TEST_TIMEOUT).await;
}

/// It loses its power, and is the same node afterwards, with its pod.
async fn comes_back(world: &World, kubectl: &Kubectl) {
    let begun = Instant::now();
    world
        .done(&format!("machine power {WORKER} off --force"))
        .await;
    world.done(&format!("machine power {WORKER} on")).await;
    serves(world, kubectl, 1).await;
    kubectl.nodes_ready(2).await;
    world.is("RUNNING").await;
    tell(&format!(
        "switched off and on, it serves: {:.1?}",
        begun.elapsed()
    ));
}
