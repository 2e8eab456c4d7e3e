//! A real etcd for servers that share a store.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Plug, Switch};
use crate::NamespaceProxy;

/// An etcd of one member on the switch.
#[derive(Debug)]
pub struct Etcd {
    child: Child,
    /// Where it answers.
    pub url: String,
    _dir: tempfile::TempDir,
    plug: Plug,
}

impl Etcd {
    /// Whether this machine has one.
    pub fn is_installed() -> bool {
        Command::new("etcd").arg("--version").output().is_ok()
    }

    /// Starts one at 192.0.2.3.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(switch: &Switch) -> Self {
        let plug = switch.plug(3);
        let dir = tempfile::tempdir().expect("a directory can be made");
        let url = format!("http://{}:2379", plug.address);
        let data = dir.path().display().to_string();
        let words = [
            "etcd",
            "--data-dir",
            &data,
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
            "--listen-peer-urls",
            "http://127.0.0.1:2380",
        ];
        let mut command = plug.network.command(words);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self {
            child: child.expect("etcd starts"),
            url,
            _dir: dir,
            plug,
        }
    }

    /// Another address of it, where each message takes this long in each
    /// direction.
    pub async fn slow(&self, delay: Duration) -> (NamespaceProxy, String) {
        let far: SocketAddr = (self.plug.address, 2379).into();
        let near: SocketAddr = (self.plug.address, 2378).into();
        let way = NamespaceProxy::slow(&self.plug.network, near, far, delay).await;
        (way, format!("http://{near}"))
    }

    /// Stops its process where it is, or has it go on.
    ///
    /// # Panics
    /// When it has ended.
    pub fn freeze(&self, frozen: bool) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        kill_process(pid.expect("a child has a pid"), signal).expect("etcd runs");
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
