//! An etcd of the bench's own: one member, plain HTTP, on the same disk as
//! everything else.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use strata_store::{EtcdOptions, Store};

use crate::Result;

const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Etcd {
    child: Child,
    pub(crate) url: String,
    _dir: tempfile::TempDir,
}

impl Etcd {
    pub(crate) async fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let (url, peers) = (free()?, free()?);
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .args(["--listen-client-urls", &url])
            .args(["--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peers])
            .args(["--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}")])
            .args(["--log-level", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let started = Self {
            child,
            url,
            _dir: dir,
        };
        tokio::time::timeout(TIMEOUT, started.answers())
            .await
            .map_err(|_| "etcd does not answer")?;
        Ok(started)
    }

    async fn answers(&self) {
        loop {
            if let Ok(store) = self.store().await
                && store.get("started").await.is_ok()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A client of it.
    pub(crate) async fn store(&self) -> Result<strata_store::Etcd> {
        let options = EtcdOptions {
            endpoints: vec![self.url.clone()],
            prefix: "bench/".to_owned(),
            ..EtcdOptions::default()
        };
        Ok(strata_store::Etcd::connect(&options).await?)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago.
fn free() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(format!("http://{}", listener.local_addr()?))
}
