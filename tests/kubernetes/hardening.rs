//! What every new cluster is configured with: Secrets are encrypted in etcd,
//! pods that lead out of their container are refused, and who did what is
//! written down without what was written.

use strata_testkit::serde_json::{Value, from_slice};
use strata_testkit::wait_for;

use crate::kubernetes::kubectl::Kubectl;
use crate::kubernetes::world::{CLUSTER, TEST_TIMEOUT, World};

const SECRET: &str = "probe";
/// What nobody finds outside of the API, in the clear or in base64.
const VALUE: &str = "correct-horse-battery";
const VALUE_BASE64: &str = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5";
/// `/etc/kubernetes`, as it is seen outside of the cell.
const ETC: &str = "/var/lib/strata-kubernetes/etc";
const AUDIT_LOG: &str = "/var/lib/strata-kubernetes/audit/audit.log";

const PRIVILEGED: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: privileged, namespace: default}
spec:
  containers:
  - name: shell
    image: strata.test/web:v1
    securityContext: {privileged: true}
"#;

/// Makes the Secret that the others look for.
pub(crate) async fn make_secret(kubectl: &Kubectl) {
    let create = format!("create secret generic {SECRET} --from-literal=word={VALUE}");
    kubectl.says(&create).await;
}

/// The Secret can be read, by every API server of the cluster.
pub(crate) async fn secret_is_readable(world: &World) {
    let get = format!(
        "PATH=/run/strata-kubernetes/bundle/bin:$PATH kubectl \
         --kubeconfig {ETC}/admin.conf --server https://127.0.0.1:6443 \
         --tls-server-name kubernetes get secret {SECRET} -o jsonpath={{.data.word}}"
    );
    for machine in world.members("control-plane").await {
        wait_for("the Secret to be read", TEST_TIMEOUT, async || {
            let ran = world.on(&machine, &get).await;
            let said = String::from_utf8_lossy(&ran.stdout);
            (said == VALUE_BASE64)
                .then_some(())
                .ok_or(format!("{machine}: {ran:?}"))
        })
        .await;
    }
}

/// All of it, on a cluster that is new.
pub(crate) async fn holds(world: &World, kubectl: &Kubectl, control: &str) {
    make_secret(kubectl).await;
    secret_is_readable(world).await;
    secret_is_encrypted_in_etcd(world, control).await;
    creation_is_audited_without_data(world, control).await;
    files_are_for_root_alone(world, control).await;
    privileged_pod_is_refused(kubectl).await;
}

async fn run(world: &World, machine: &str, script: &str) -> Vec<u8> {
    let ran = world.on(machine, script).await;
    assert!(ran.status.success(), "{machine}: {script}: {ran:?}");
    ran.stdout
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|at| at == text.as_bytes())
}

pub(crate) async fn secret_is_encrypted_in_etcd(world: &World, control: &str) {
    let pki = format!("{ETC}/pki/etcd");
    let get = format!(
        "/run/strata-kubernetes/bundle/bin/etcdctl --endpoints https://127.0.0.1:2379 \
         --cacert {pki}/ca.crt --cert {pki}/server.crt --key {pki}/server.key \
         get /registry/secrets/default/{SECRET} --print-value-only"
    );
    let stored = run(world, control, &get).await;
    let told = String::from_utf8_lossy(&stored).into_owned();
    assert!(
        stored.starts_with(b"k8s:enc:secretbox:v1:strata-1:"),
        "{told}"
    );
    assert!(!contains(&stored, VALUE), "{told}");
    assert!(!contains(&stored, VALUE_BASE64), "{told}");
}

async fn creation_is_audited_without_data(world: &World, control: &str) {
    let line = wait_for("the audit line", TEST_TIMEOUT, async || {
        let log = run(world, control, &format!("cat {AUDIT_LOG}")).await;
        assert!(!contains(&log, VALUE), "the log has the Secret's data");
        assert!(
            !contains(&log, VALUE_BASE64),
            "the log has the Secret's data"
        );
        let lines = log.split(|byte| *byte == b'\n');
        let mut lines = lines.filter_map(|line| from_slice::<Value>(line).ok());
        let found = lines.find(|line| {
            let object = &line["objectRef"];
            line["verb"] == "create" && object["resource"] == "secrets" && object["name"] == SECRET
        });
        found.ok_or("there is none".to_owned())
    })
    .await;
    assert_eq!(line["level"], "Metadata", "{line:#}");
    assert_eq!(line["responseStatus"]["code"], 201, "{line:#}");
    assert_eq!(line["requestObject"], Value::Null, "{line:#}");
    assert_eq!(line["responseObject"], Value::Null, "{line:#}");
}

async fn files_are_for_root_alone(world: &World, control: &str) {
    let stat = format!("stat -c '%a %U' {ETC}/strata/*.json {AUDIT_LOG}");
    let modes = String::from_utf8(run(world, control, &stat).await).unwrap();
    assert_eq!(modes.lines().count(), 4, "{modes}");
    assert!(modes.lines().all(|line| line == "600 root"), "{modes}");
    // The key is where it is needed, and nowhere else.
    let config = run(world, control, &format!("cat {ETC}/strata/encryption.json")).await;
    let config: Value = from_slice(&config).unwrap();
    let key = &config["resources"][0]["providers"][0]["secretbox"]["keys"][0]["secret"];
    let key = key.as_str().unwrap();
    for path in ["/operation", "/cluster", "/machine"] {
        let answer = world.rest().call("GET", path, Value::Null).await;
        assert!(!answer.body.contains(key), "{path} shows the key");
    }
    assert!(!world.daemon.log().contains(key), "the log shows the key");
}

async fn privileged_pod_is_refused(kubectl: &Kubectl) {
    let output = kubectl.output("apply -f -", PRIVILEGED).await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    let why = "violates PodSecurity \"baseline:latest\": privileged";
    assert!(told.contains(why), "{told}");
}

/// Its machines are nested nodes: a privileged pod would be root of the host.
pub(crate) async fn operator_stays_within_a_namespace(world: &World) {
    let directory = world.daemon.scratch().join("olga");
    let out = directory.display();
    let issue = format!("certificate issue --role operator --name olga --out {out}");
    world.cli(&issue).await;
    let operator = world.kubectl_as("olga", &directory).await;
    operator
        .until("get pods -A", |said| said.contains("kube-system"))
        .await;
    let label = "label namespace default pod-security.kubernetes.io/enforce=privileged";
    for words in [
        label,
        "create namespace mine",
        "get secrets -n kube-system",
        "delete pods --all -n kube-system",
        "create clusterrolebinding mine --clusterrole=cluster-admin --user=olga",
    ] {
        let refused = operator.fails(words).await;
        assert!(refused.contains("forbidden"), "{words}: {refused}");
    }
    privileged_pod_is_refused(&operator).await;
    let elsewhere = PRIVILEGED.replace("namespace: default", "namespace: kube-system");
    let output = operator.output("apply -f -", &elsewhere).await;
    assert!(!output.status.success(), "{output:?}");
    let fine = "create configmap mine --from-literal=a=b";
    operator.says(fine).await;
    let revoke = format!("cluster kubeconfig {CLUSTER} --revoke --user olga");
    world.cli(&revoke).await;
}
