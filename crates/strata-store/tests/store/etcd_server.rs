//! A real etcd of one's own: loopback, free ports, a temporary directory.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use strata_store::{Etcd, EtcdOptions, EtcdTls};
use tempfile::TempDir;

use crate::world::until;

const BINARY: &str = "/usr/bin/etcd";

pub(crate) struct EtcdServer {
    dir: TempDir,
    ports: (u16, u16),
    tls: Option<Tls>,
    process: Child,
}

/// What a server on TLS needs, as files in PEM.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) ca: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// What its client shows.
    pub(crate) client: EtcdTls,
}

impl EtcdServer {
    /// `None` where there is no etcd, unless everything is required.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with(None).await
    }

    /// The same, only for clients with a certificate.
    pub(crate) async fn start_with(tls: Option<Tls>) -> Option<Self> {
        if !Path::new(BINARY).exists() {
            let required = std::env::var("STRATA_REQUIRE_ALL").is_ok_and(|it| it == "1");
            assert!(!required, "there is no {BINARY}");
            eprintln!("skipped: there is no {BINARY}");
            return None;
        }
        // Another process may take a port between the check and the start.
        for _ in 0..5 {
            let dir = tempfile::tempdir().unwrap();
            let ports = (free_port(), free_port());
            let process = spawn(dir.path(), ports, tls.as_ref());
            let mut server = Self {
                dir,
                ports,
                tls: tls.clone(),
                process,
            };
            if server.answers().await {
                return Some(server);
            }
        }
        panic!("etcd does not start");
    }

    pub(crate) fn options(&self) -> EtcdOptions {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        EtcdOptions {
            endpoints: vec![format!("{scheme}://127.0.0.1:{}", self.ports.0)],
            tls: self.tls.as_ref().map(|tls| tls.client.clone()),
            ..EtcdOptions::default()
        }
    }

    pub(crate) async fn connect(&self) -> Etcd {
        Etcd::connect(&self.options()).await.unwrap()
    }

    /// Kills it, as a loss of power would.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again where it was.
    pub(crate) async fn restart(&mut self) {
        self.process = spawn(self.dir.path(), self.ports, self.tls.as_ref());
        assert!(self.answers().await, "etcd does not start again");
    }

    /// Waits until it answers; not if it ended.
    async fn answers(&mut self) -> bool {
        let options = EtcdOptions {
            timeout: Duration::from_secs(1),
            ..self.options()
        };
        let process = &mut self.process;
        until("etcd to answer", || {
            let ended = process.try_wait().unwrap().is_some();
            let options = &options;
            async move {
                match Etcd::connect(options).await {
                    Ok(_) => Some(true),
                    Err(_) => ended.then_some(false),
                }
            }
        })
        .await
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn spawn(dir: &Path, (client, peer): (u16, u16), tls: Option<&Tls>) -> Child {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let client = format!("{scheme}://127.0.0.1:{client}");
    let peer = format!("http://127.0.0.1:{peer}");
    let log = File::options()
        .create(true)
        .append(true)
        .open(dir.join("log"))
        .unwrap();
    let mut command = Command::new(BINARY);
    if let Some(tls) = tls {
        command.arg("--client-cert-auth");
        command.arg("--trusted-ca-file").arg(&tls.ca);
        command.arg("--cert-file").arg(&tls.certificate);
        command.arg("--key-file").arg(&tls.key);
    }
    command
        .args(["--name", "one", "--logger", "zap", "--log-level", "warn"])
        .args(["--heartbeat-interval", "20", "--election-timeout", "200"])
        .arg("--data-dir")
        .arg(dir.join("data"))
        .args(["--listen-client-urls", &client])
        .args(["--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer])
        .args(["--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("one={peer}")])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}
