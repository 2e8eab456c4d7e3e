//! Certificates of a control plane that end soon: others take their place, and
//! whoever uses the cluster notices nothing.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use strata_testkit::serde_json::Value;
use strata_testkit::{NamespaceProxy, wait_for};

use crate::kubernetes::kubectl::Kubectl;
use crate::kubernetes::tell;
use crate::kubernetes::world::{TEST_TIMEOUT, World};

/// As those see the machine who are of Kubernetes.
const KUBEADM: &str = "nsenter -m -t $(pidof kubelet) /run/strata-kubernetes/bundle/bin/kubeadm";
const DAY: i64 = 24 * 60 * 60;

/// Gives the API server a certificate that ends in two days, starts the
/// daemon, which looks at certificates soon after, and waits for the next.
pub(crate) async fn are_renewed(world: &mut World, kubectl: &Kubectl, control: &str) {
    let served = Served::by(world, control).await;
    let first = served.days_left().await.unwrap();
    assert!((300..400).contains(&first), "{first} days");
    let pods = kubectl.web_pods().await;

    let config =
        "get configmap kubeadm-config -n kube-system -o jsonpath={.data.ClusterConfiguration}";
    let config = kubectl.says(config).await;
    let script = format!(
        "set -e; cat >/run/short.yaml <<'END'\n{config}\ncertificateValidityPeriod: 48h0m0s\nEND\n\
         {KUBEADM} certs renew apiserver --config /run/short.yaml"
    );
    let ran = world.on(control, &script).await;
    assert!(ran.status.success(), "{ran:?}");
    // It takes the file up by itself.
    served
        .until("a certificate that ends soon", |left| left < 3)
        .await;

    let begun = Instant::now();
    world.kill_and_restart().await;
    served.until("another certificate", |left| left > 300).await;
    tell(&format!(
        "renewed after the server's start: {:.1?}",
        begun.elapsed()
    ));
    // The programs that held the old ones were started again.
    let over = |one: &Value| one["kind"] != "cluster-renew" || one["status"] == "COMPLETED";
    let all_over = |all: &Value| all.as_array().is_some_and(|all| all.iter().all(over));
    world.until("/operation", all_over).await;
    tell(&format!("all is well again: {:.1?}", begun.elapsed()));
    world.is("RUNNING").await;
    let check = format!("{KUBEADM} certs check-expiration");
    let checked = world.on(control, &check).await;
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(told.contains("364d"), "{checked:?}");
    // Those who had credentials have them still; nothing that runs was moved.
    kubectl.nodes_ready(2).await;
    kubectl.web_is_ready().await;
    assert_eq!(kubectl.web_pods().await, pods);
    let (pod, _) = &pods[0];
    let said = kubectl.says(&format!("exec {pod} -- hostname")).await;
    assert_eq!(&said, pod);
}

/// The API server of a machine, whoever may stand before it otherwise.
struct Served {
    way: NamespaceProxy,
    config: Arc<ClientConfig>,
}

impl Served {
    async fn by(world: &World, control: &str) -> Self {
        let far = format!("{}:6443", world.address(control).await);
        let far: SocketAddr = far.parse().unwrap();
        let read = world
            .on(control, "cat /var/lib/strata-kubernetes/etc/pki/ca.crt")
            .await;
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(&read.stdout).unwrap();
        roots.add(authority).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        Self {
            way: NamespaceProxy::to(&world.network, far).await,
            config: Arc::new(config.with_no_client_auth()),
        }
    }

    /// How many days are left of the certificate that it shows now.
    async fn days_left(&self) -> Result<i64, String> {
        let (near, config) = (self.way.near(), Arc::clone(&self.config));
        let asked = tokio::task::spawn_blocking(move || -> std::io::Result<_> {
            let name = ServerName::try_from("kubernetes").unwrap();
            let tls = ClientConnection::new(config, name).map_err(std::io::Error::other)?;
            let socket = TcpStream::connect(near)?;
            socket.set_read_timeout(Some(Duration::from_secs(5)))?;
            let mut stream = StreamOwned::new(tls, socket);
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock)?;
            }
            let shown = stream.conn.peer_certificates().unwrap_or_default();
            Ok(shown[0].clone().into_owned())
        });
        let shown = asked.await.unwrap().map_err(|error| error.to_string())?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&shown).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = i64::try_from(now.as_secs()).unwrap();
        Ok((parsed.validity().not_after.timestamp() - now) / DAY)
    }

    async fn until(&self, what: &str, wanted: impl Fn(i64) -> bool) {
        wait_for(what, TEST_TIMEOUT, async || {
            let left = self.days_left().await?;
            wanted(left).then_some(()).ok_or(format!("{left} days"))
        })
        .await;
    }
}
