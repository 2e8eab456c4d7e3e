//! What runs in the clusters of the tests: a web server of two pods that a
//! disruption budget keeps, from an image that no registry has.

use std::fs;

use strata_testkit::images::Image;

use crate::kubernetes::kubectl::Kubectl;
use crate::kubernetes::world::World;

const IMAGE: &str = "strata.test/web:v1";
/// Where the service is found on every node.
pub(crate) const PORT: u16 = 30080;

/// A pod serves on for a while after it was told to end: until then nobody is
/// sent to it any more.
const OBJECTS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 20
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {matchLabels: {app: web}}
      containers:
      - name: web
        image: strata.test/web:v1
        imagePullPolicy: Never
        command: [sh, -c]
        args:
        - |
          mkdir /www && hostname >/www/index.html && echo "serving $(hostname)"
          trap exit TERM
          httpd -f -p 8080 -h /www & wait
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        lifecycle: {preStop: {exec: {command: [sleep, "5"]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080, nodePort: 30080}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: web}}
"#;

impl World {
    /// Puts the image on machines of the cluster.
    pub(crate) async fn import_image(&self, machines: &[String]) {
        let archive = self.daemon.scratch().join("web.tar");
        if !archive.exists() {
            Image::busybox().write_archive(&archive, IMAGE);
        }
        let dirs = self.daemon.data_dir().join("node/_machines/folders");
        for name in machines {
            let machine = self.daemon.node().await.machine(name).await.unwrap();
            let there = dirs.join(&machine.id).join("lib/web.tar");
            fs::copy(&archive, &there).unwrap();
            let script = "/run/strata-kubernetes/bundle/bin/ctr -n k8s.io images import \
                          --local /var/lib/web.tar && rm /var/lib/web.tar";
            let ran = self.on(name, script).await;
            assert!(ran.status.success(), "{name}: {ran:?}");
        }
    }
}

impl Kubectl {
    /// Deploys the web server and waits until both of its pods are ready.
    pub(crate) async fn deploy_web(&self) {
        self.apply(OBJECTS).await;
        self.web_is_ready().await;
    }

    /// Waits until both pods are ready, and no other is left.
    pub(crate) async fn web_is_ready(&self) {
        let words = "get pods -l app=web --no-headers";
        self.until(words, |said| {
            let ready = |line: &str| line.contains("1/1") && line.contains("Running");
            said.lines().count() == 2 && said.lines().all(ready)
        })
        .await;
    }

    /// Waits until a pod of it is being ended.
    pub(crate) async fn web_is_moved(&self) {
        let words = "get pods -l app=web -o jsonpath={.items[*].metadata.deletionTimestamp}";
        self.until(words, |said| !said.is_empty()).await;
    }

    /// The pods of the web server and the nodes where they are, in order.
    pub(crate) async fn web_pods(&self) -> Vec<(String, String)> {
        let pods = self.list("pods -l app=web").await;
        let text = |value: &strata_testkit::serde_json::Value| {
            value.as_str().unwrap_or_default().to_owned()
        };
        let mut pods: Vec<_> = pods
            .iter()
            .map(|pod| {
                (
                    text(&pod["metadata"]["name"]),
                    text(&pod["spec"]["nodeName"]),
                )
            })
            .collect();
        pods.sort();
        pods
    }
}
