//! A cluster that is simulated: an API server with real TLS whose answers a
//! test gives, and a remote exec that only records what it is called with.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::PrivateKeyDer;
use serde_json::Value;
use strata_types::Secret;
use strata_types::cluster::{ClusterRole, KubernetesVersion, Member, PodSecurityLevel};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::remote_exec::{ExecOutput, ExecRequest, RemoteExec};
use super::{Kubeadm, KubeadmSettings, pki};
use crate::{ClusterFacts, Done};

pub(super) const VERSION: KubernetesVersion = KubernetesVersion::new(1, 34, 4);

/// Machines of these names, all joined, at the loopback. Those with `w` work.
pub(super) fn cluster(names: &[&str]) -> ClusterFacts {
    let member = |(at, name): (usize, &&str)| Member {
        machine: name.parse().unwrap(),
        role: match name.starts_with('w') {
            true => ClusterRole::Worker,
            false => ClusterRole::ControlPlane,
        },
        pool: String::new(),
        number: u8::try_from(at + 1).unwrap(),
        labels: [("tier".to_owned(), "one".to_owned())].into(),
        version: VERSION,
        address: "127.0.0.1".into(),
        joined: true,
        added_at_ms: 0,
    };
    ClusterFacts {
        name: "blue".parse().unwrap(),
        id: "one".into(),
        version: VERSION,
        controls: u32::try_from(names.iter().filter(|name| !name.starts_with('w')).count())
            .unwrap(),
        pod_security: Some(PodSecurityLevel::Baseline),
        members: names.iter().enumerate().map(member).collect(),
        secrets: pki::secrets().unwrap(),
    }
}

/// A request to an API server: `GET /version`, and its body.
type RecordedRequest = (String, Value);
type CannedResponses = dyn Fn(&str, &Value) -> (u16, Value) + Send + Sync;

/// An API server that is simulated.
pub(super) struct FakeApi {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl FakeApi {
    pub(super) async fn new(
        secrets: &BTreeMap<String, Secret>,
        answers: impl Fn(&str, &Value) -> (u16, Value) + Send + Sync + 'static,
    ) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(server(secrets)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<RecordedRequest>>> = Default::default();
        let (noted, answers): (_, Arc<CannedResponses>) = (asked.clone(), Arc::new(answers));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let (noted, answers) = (noted.clone(), answers.clone());
                let service = hyper::service::service_fn(move |request| {
                    answer(request, noted.clone(), answers.clone())
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, asked }
    }

    /// All requests so far, without their bodies.
    pub(super) fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|(line, _)| line.clone()).collect()
    }

    /// What came with the first request whose line begins so.
    pub(super) fn body_of(&self, line: &str) -> Value {
        let asked = self.asked.lock().unwrap();
        let found = asked.iter().find(|(asked, _)| asked.starts_with(line));
        found.map(|(_, body)| body.clone()).unwrap_or_default()
    }
}

async fn answer(
    request: http::Request<Incoming>,
    noted: Arc<Mutex<Vec<RecordedRequest>>>,
    answers: Arc<CannedResponses>,
) -> Result<http::Response<Full<Bytes>>, hyper::Error> {
    let line = format!("{} {}", request.method(), request.uri());
    let body = request.into_body().collect().await?.to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (status, answer) = answers(&line, &body);
    noted.lock().unwrap().push((line, body));
    let mut response = http::Response::new(Full::from(answer.to_string()));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
    Ok(response)
}

/// Serves as `kubernetes`, to clients that the cluster's CA signed.
fn server(secrets: &BTreeMap<String, Secret>) -> ServerConfig {
    let ca = pki::of(secrets, "ca.crt").unwrap();
    let key = KeyPair::from_pem(pki::of(secrets, "ca.key").unwrap()).unwrap();
    let issuer = Issuer::from_ca_cert_pem(ca, key).unwrap();
    let own = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["kubernetes".to_owned()]).unwrap();
    let certificate = params.signed_by(&own, &issuer).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(pki::der(ca).unwrap()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(own.serialize_der()).unwrap(),
        )
        .unwrap()
}

/// A fake exec that records commands and answers as configured.
pub(super) struct FakeExec {
    /// What ends with the code; all else ends well.
    fails: &'static str,
    code: i32,
    pub(super) ran: Mutex<Vec<String>>,
}

impl FakeExec {
    /// By the code of kubeadm's init and join.
    pub(super) fn ending_with(code: i32) -> Arc<Self> {
        Self::failing("with-config", code)
    }

    /// By what fails, and its code.
    pub(super) fn failing(fails: &'static str, code: i32) -> Arc<Self> {
        Arc::new(Self {
            fails,
            code,
            ran: Mutex::default(),
        })
    }

    fn note(&self, machine: &str, what: &str) {
        let mut ran = self.ran.lock().unwrap();
        ran.push(format!("{machine}: {what}"));
    }
}

impl RemoteExec for FakeExec {
    fn run<'a>(&'a self, machine: &'a str, run: ExecRequest) -> Done<'a, ExecOutput> {
        self.note(machine, &run.command);
        let fails = run.name == self.fails;
        let ran = ExecOutput {
            code: Some(if fails { self.code } else { 0 }),
            output: if run.name == "state" {
                "fresh"
            } else {
                "it says why"
            }
            .into(),
        };
        Box::pin(async { Ok(ran) })
    }

    fn supervise<'a>(&'a self, machine: &'a str, name: &'a str, _: &'a str) -> Done<'a> {
        self.note(machine, &format!("keep {name}"));
        Box::pin(async { Ok(()) })
    }

    fn stop<'a>(&'a self, machine: &'a str, name: &'a str) -> Done<'a> {
        self.note(machine, &format!("stop {name}"));
        Box::pin(async { Ok(()) })
    }

    fn program<'a>(&'a self, _: &'a str) -> Done<'a, String> {
        Box::pin(async { Ok("/strata".into()) })
    }
}

/// A driver with such a remote exec, to the API server at that port.
pub(super) fn driver(remote_exec: Arc<FakeExec>, api: &FakeApi) -> Kubeadm {
    let settings = KubeadmSettings {
        catalogue: "/nowhere".into(),
        snapshots: "/nowhere".into(),
        keep: 8,
    };
    Kubeadm {
        port: api.address.port(),
        ..Kubeadm::new(remote_exec, settings)
    }
}
