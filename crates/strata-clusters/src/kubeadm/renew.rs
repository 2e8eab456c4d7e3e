//! Certificates that kubeadm made, which are good for a year. Those of the
//! kubelets renew themselves.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::machine::{Machine, Script};
use super::pki;
use crate::DriverError;

/// How long before the end.
const BEFORE: i64 = 30 * 24 * 60 * 60;
const BOUND: Duration = Duration::from_secs(4 * 60);
/// Stands before what is read.
const HEAD: &str = "certificates:";
/// All that kubeadm signed, without the authorities, which outlive it.
const SHOW: &str = "echo certificates: && cd /etc/kubernetes/pki && cat apiserver*.crt front-proxy-client.crt etcd/server.crt etcd/peer.crt etcd/healthcheck-client.crt";

/// Renews those of a machine of the control plane, if one ends soon.
pub(super) async fn renew(machine: Machine<'_>) -> Result<bool, DriverError> {
    let read = machine.shell("look", SHOW, None).await?;
    // What was read the last time may still be there above.
    let (_, pem) = read.rsplit_once(HEAD).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = i64::try_from(now.unwrap_or_default().as_secs()).unwrap_or(i64::MAX);
    let soon = pki::first_end(pem).is_some_and(|end| end - now < BEFORE);
    if soon {
        let script = Script {
            line: "renew",
            what: "kubeadm certs renew",
            input: None,
            timeout: BOUND,
            passing: true,
        };
        machine.script(script).await?;
    }
    Ok(soon)
}
