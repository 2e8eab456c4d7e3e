//! The configuration of kubeadm. JSON is YAML too, and nothing in it needs
//! quotes that we would have to get right.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use strata_types::Secret;
use strata_types::cluster::{ClusterRole, Member};

use super::apiserver;
use crate::ClusterFacts;
use crate::catalogue::Bundle;

/// Where a machine finds the API of its cluster, the one that serves it: its own
/// agent is behind it.
pub(super) const ENDPOINT: &str = "api.strata.internal:7443";
/// What the images of all bundles are called by.
pub(super) const REPOSITORY: &str = "strata.internal/kubernetes";
/// The addresses of all pods of a cluster.
pub(super) const POD_RANGE: &str = "10.244.0.0/16";
const SERVICE_RANGE: &str = "10.96.0.0/16";
/// Where the API servers listen.
pub(super) const API_PORT: u16 = 6443;

const KUBEADM: &str = "kubeadm.k8s.io/v1beta4";
const SOCKET: &str = "unix:///run/containerd/containerd.sock";
/// What the kubelet would keep in `/usr`, which can be unchangeable.
const PLUGINS: &str = "/var/lib/kubelet/volumeplugins";

/// Where that file is on a machine.
pub(super) const DISCOVERY: &str = "/var/lib/strata-kubernetes/discovery.conf";
/// Where a kubelet finds the key and certificate that it is known by, and puts
/// a link to the next one in time.
pub(super) const KUBELET_CLIENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
/// The first of them.
pub(super) const KUBELET_BOOTSTRAP: &str = "/var/lib/kubelet/pki/kubelet-client-first.pem";
/// kubeadm thinks that a machine with this is in already; it is put there for
/// it to join.
const KUBELET_CONFIG: &str = "FileAvailable--etc-kubernetes-kubelet.conf";

/// What kubeadm finds wrong with nested nodes and with small machines: their
/// kernel has no configuration to be read, its cgroups may be of the first
/// version, and memory and cpus may be few.
const IGNORED_PREFLIGHT_ERRORS: [&str; 3] = ["SystemVerification", "NumCPU", "Mem"];

/// For the first machine.
pub(super) fn init(
    cluster: &ClusterFacts,
    member: &Member,
    bundle: &Bundle,
    token: &Secret,
) -> String {
    let init = json!({
        "apiVersion": KUBEADM,
        "kind": "InitConfiguration",
        // There would be one for a day otherwise.
        "bootstrapTokens": [{"token": token.expose(), "ttl": "1m0s", "usages": ["signing", "authentication"],
            "groups": ["system:bootstrappers:kubeadm:default-node-token"]}],
        "nodeRegistration": registration(cluster, member),
        "localAPIEndpoint": endpoint(member),
        "skipPhases": ["show-join-command"],
        "timeouts": timeouts(),
    });
    texts(&[init, whole(cluster, member, bundle), kubelet(), proxy()])
}

/// For a further one, which knows its cluster by [`discovery`]. A token alone
/// would do too, with the sum of the CA's key, but the cluster takes
/// seconds to sign what a new token is checked against.
pub(super) fn join(cluster: &ClusterFacts, member: &Member, token: &Secret) -> String {
    let mut join = json!({
        "apiVersion": KUBEADM,
        "kind": "JoinConfiguration",
        "nodeRegistration": registration(cluster, member),
        "discovery": {
            "file": {"kubeConfigPath": DISCOVERY},
            "tlsBootstrapToken": token.expose(),
        },
        "timeouts": timeouts(),
    });
    let minded = IGNORED_PREFLIGHT_ERRORS.iter().chain(&[KUBELET_CONFIG]);
    join["nodeRegistration"]["ignorePreflightErrors"] = minded.copied().collect();
    if member.role == ClusterRole::ControlPlane {
        join["controlPlane"] = json!({"localAPIEndpoint": endpoint(member)});
    }
    texts(&[join])
}

/// The file by which one that joins knows the cluster: where it is, and its
/// CA. There is no secret in it.
pub(super) fn discovery(ca: &str) -> String {
    let cluster = json!({
        "server": format!("https://{ENDPOINT}"),
        "certificate-authority-data": STANDARD.encode(ca),
    });
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "", "cluster": cluster}],
    })
    .to_string()
}

/// The file by which a kubelet knows the cluster and itself. On a control plane
/// machine it calls the API server beside it, which is of its own version.
pub(super) fn kubelet_access(ca: &str, member: &Member) -> String {
    let server = match member.role {
        ClusterRole::ControlPlane => format!("{}:{API_PORT}", member.address),
        ClusterRole::Worker => ENDPOINT.to_owned(),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default", "cluster": {
            "server": format!("https://{server}"),
            "certificate-authority-data": STANDARD.encode(ca),
        }}],
        "users": [{"name": "default", "user": {
            "client-certificate": KUBELET_CLIENT,
            "client-key": KUBELET_CLIENT,
        }}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "current-context": "default",
    })
    .to_string()
}

fn whole(cluster: &ClusterFacts, member: &Member, bundle: &Bundle) -> Value {
    // A single one need not win an election, for which a new cluster waits.
    let elect = (cluster.controls > 1).to_string();
    let elect = json!({"name": "leader-elect", "value": elect});
    json!({
        "apiVersion": KUBEADM,
        "kind": "ClusterConfiguration",
        "clusterName": cluster.name.as_str(),
        "kubernetesVersion": cluster.version.to_string(),
        "controlPlaneEndpoint": ENDPOINT,
        "imageRepository": REPOSITORY,
        "encryptionAlgorithm": "ECDSA-P256",
        "networking": {
            "podSubnet": POD_RANGE,
            "serviceSubnet": SERVICE_RANGE,
            "dnsDomain": "cluster.local",
        },
        "dns": {"imageTag": bundle.coredns},
        "etcd": {"local": {"imageTag": bundle.etcd, "dataDir": "/var/lib/etcd"}},
        "apiServer": api_server(cluster, member),
        "controllerManager": {"extraArgs": [
            // Which pods a machine has is its number's business.
            {"name": "allocate-node-cidrs", "value": "false"},
            {"name": "flex-volume-plugin-dir", "value": PLUGINS},
            elect,
        ]},
        "scheduler": {"extraArgs": [elect]},
    })
}

fn api_server(cluster: &ClusterFacts, member: &Member) -> Value {
    let mut server = json!({
        "certSANs": ["kubernetes", "api.strata.internal", "127.0.0.1", member.address],
    });
    if apiserver::is_configured(cluster) {
        server["extraArgs"] = apiserver::arguments();
        server["extraVolumes"] = apiserver::volumes();
    }
    server
}

/// Where nothing else works, the control plane does.
fn registration(cluster: &ClusterFacts, member: &Member) -> Value {
    let mut registration = json!({
        "name": member.machine.as_str(),
        "criSocket": SOCKET,
        // They are here already; nothing else has them.
        "imagePullPolicy": "Never",
        "imagePullSerial": false,
        "kubeletExtraArgs": [{"name": "node-ip", "value": member.address}],
        "ignorePreflightErrors": IGNORED_PREFLIGHT_ERRORS,
    });
    let mut members = cluster.members.iter();
    if !members.any(|member| member.role == ClusterRole::Worker) {
        registration["taints"] = json!([]);
    }
    registration
}

fn endpoint(member: &Member) -> Value {
    json!({"advertiseAddress": member.address, "bindPort": API_PORT})
}

/// Machines share their cpus with others; the bounds of a whole call are ours.
fn timeouts() -> Value {
    json!({
        "controlPlaneComponentHealthCheck": "4m0s",
        // It waits for images, which have five minutes to come.
        "kubeletHealthCheck": "6m0s",
        "kubernetesAPICall": "1m0s",
        "etcdAPICall": "2m0s",
        "tlsBootstrap": "2m0s",
        "discovery": "1m0s",
    })
}

fn kubelet() -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": SOCKET,
        "failSwapOn": false,
        // Inside a nested node no process may become less likely to be killed.
        "oomScoreAdj": 0,
        // Services are by nftables.
        "makeIPTablesUtilChains": false,
        // From 1.35 on the first version of cgroups must be allowed explicitly.
        "failCgroupV1": false,
        "volumePluginDir": PLUGINS,
        // An image that is deleted cannot be had again: there is no registry.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        // The disk is shared with others, so how full it is does not depend on
        // this machine.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "imagefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
    })
}

fn proxy() -> Value {
    // The kernel does not let a nested node change these.
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": POD_RANGE,
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    })
}

fn texts(documents: &[Value]) -> String {
    let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
    texts.join("\n---\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubeadm::fake;

    fn documents(text: &str) -> Vec<Value> {
        let documents = text.split("\n---\n");
        documents
            .map(|one| serde_json::from_str(one).unwrap())
            .collect()
    }

    fn bundle() -> Bundle {
        Bundle {
            version: fake::VERSION,
            etcd: "3.6.5-0".into(),
            coredns: "v1.12.1".into(),
            pause: "3.10.1".into(),
            images: Vec::new(),
            dir: Default::default(),
        }
    }

    #[test]
    fn init_configuration_names_node_and_endpoint() {
        let cluster = fake::cluster(&["c1", "w1"]);
        let token = Secret::new("abcdef.0123456789abcdef");
        let all = documents(&init(&cluster, &cluster.members[0], &bundle(), &token));
        let kinds: Vec<_> = all
            .iter()
            .map(|one| one["kind"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            [
                "InitConfiguration",
                "ClusterConfiguration",
                "KubeletConfiguration",
                "KubeProxyConfiguration"
            ]
        );
        assert_eq!(all[0]["localAPIEndpoint"]["advertiseAddress"], "127.0.0.1");
        assert_eq!(all[0]["nodeRegistration"]["name"], "c1");
        assert_eq!(all[0]["nodeRegistration"]["taints"], Value::Null);
        assert_eq!(all[1]["kubernetesVersion"], "v1.34.4");
        assert_eq!(all[1]["etcd"]["local"]["imageTag"], "3.6.5-0");
        assert_eq!(all[1]["controlPlaneEndpoint"], "api.strata.internal:7443");
        let names = json!([
            "kubernetes",
            "api.strata.internal",
            "127.0.0.1",
            "127.0.0.1"
        ]);
        assert_eq!(all[1]["apiServer"]["certSANs"], names);
    }

    #[test]
    fn api_servers_encrypt_audit_and_hold_pods_to_a_level() {
        let mut cluster = fake::cluster(&["c1"]);
        let server = api_server(&cluster, &cluster.members[0]);
        let arguments = server["extraArgs"].as_array().unwrap();
        for (name, value) in [
            (
                "encryption-provider-config",
                "/etc/kubernetes/strata/encryption.json",
            ),
            (
                "admission-control-config-file",
                "/etc/kubernetes/strata/admission.json",
            ),
            (
                "audit-policy-file",
                "/etc/kubernetes/strata/audit-policy.json",
            ),
            (
                "audit-log-path",
                "/var/lib/strata-kubernetes/audit/audit.log",
            ),
        ] {
            assert!(
                arguments.contains(&json!({"name": name, "value": value})),
                "{name}"
            );
        }
        let mounts = server["extraVolumes"].as_array().unwrap();
        let mounts: Vec<_> = mounts
            .iter()
            .map(|it| it["mountPath"].as_str().unwrap())
            .collect();
        assert_eq!(
            mounts,
            ["/etc/kubernetes/strata", "/var/lib/strata-kubernetes/audit"]
        );
        // The cluster keeps its configuration where every user reads it.
        let key = cluster.secrets.remove("encryption.key").unwrap();
        assert!(!server.to_string().contains(key.expose()));
        let before = api_server(&cluster, &cluster.members[0]);
        assert_eq!(before["extraArgs"], Value::Null, "a cluster from before");
    }

    #[test]
    fn control_plane_is_schedulable_without_workers() {
        let cluster = fake::cluster(&["c1"]);
        let token = Secret::new("abcdef.0123456789abcdef");
        let all = documents(&init(&cluster, &cluster.members[0], &bundle(), &token));
        assert_eq!(all[0]["nodeRegistration"]["taints"], json!([]));
    }

    #[test]
    fn only_control_plane_join_has_an_api_server() {
        let cluster = fake::cluster(&["c1", "w1"]);
        let token = Secret::new("abcdef.0123456789abcdef");
        let of = |at: usize| documents(&join(&cluster, &cluster.members[at], &token)).remove(0);
        assert_eq!(of(0)["controlPlane"]["localAPIEndpoint"]["bindPort"], 6443);
        assert_eq!(of(1)["controlPlane"], Value::Null);
        assert_eq!(of(1)["discovery"]["tlsBootstrapToken"], token.expose());
        let minded = &of(1)["nodeRegistration"]["ignorePreflightErrors"];
        assert_eq!(minded[3], "FileAvailable--etc-kubernetes-kubelet.conf");
    }

    #[test]
    fn kubelet_uses_the_local_api_server() {
        let cluster = fake::cluster(&["c1", "w1"]);
        let of = |at: usize| -> Value {
            serde_json::from_str(&kubelet_access("PEM", &cluster.members[at])).unwrap()
        };
        let server = |of: Value| of["clusters"][0]["cluster"]["server"].clone();
        assert_eq!(server(of(0)), "https://127.0.0.1:6443");
        assert_eq!(server(of(1)), "https://api.strata.internal:7443");
    }

    #[test]
    fn single_control_plane_disables_leader_election() {
        for (names, elects) in [(&["c1", "w1"][..], "false"), (&["c1", "c2", "c3"], "true")] {
            let cluster = fake::cluster(names);
            let all = whole(&cluster, &cluster.members[0], &bundle());
            for part in ["controllerManager", "scheduler"] {
                let arguments = all[part]["extraArgs"].as_array().unwrap();
                let elect = json!({"name": "leader-elect", "value": elects});
                assert!(arguments.contains(&elect), "{part}: {arguments:?}");
            }
        }
    }
}
