//! Certificates that kubeadm made, which are good for a year. Those of the
//! kubelets renew themselves.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::api::Api;
use super::machine::{HERE, Machine, Script};
use super::pki;
use super::upgrade::settle;
use crate::DriverError;

/// How long before the end.
const BEFORE: i64 = 30 * 24 * 60 * 60;
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(4 * 60);
/// Stands before what is read.
const HEAD: &str = "certificates:";
/// Stands there when a renewal has not come to its end.
const UNFINISHED: &str = "unfinished";
/// All that kubeadm signed, without the CAs, which outlive it.
const SHOW: &str = "cd /etc/kubernetes/pki && cat apiserver*.crt front-proxy-client.crt etcd/server.crt etcd/peer.crt etcd/healthcheck-client.crt";

/// Renews those of a machine of the control plane, if one ends soon, and waits
/// until all is well there again: the next one must not begin before. `own` is
/// the API server of this very machine.
pub(super) async fn renew(machine: Machine<'_>, own: &Api) -> Result<bool, DriverError> {
    // With `prepare`, which restores what a renewal that was ended took away.
    let look = format!(
        ". {HERE}/prepare; echo {HEAD}; if [ -e {HERE}/renewing ]; then echo {UNFINISHED}; fi; {SHOW}"
    );
    // A name of its own: it may be run while another script runs.
    let read = machine.shell("renew-look", &look, None).await?;
    // What was read the last time may still be there above.
    let (_, pem) = read.rsplit_once(HEAD).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = i64::try_from(now.unwrap_or_default().as_secs()).unwrap_or(i64::MAX);
    let soon = pki::first_end(pem).is_some_and(|end| end - now < BEFORE);
    let soon = soon || pem.contains(UNFINISHED);
    if soon {
        let script = Script {
            line: "renew",
            what: "kubeadm certs renew",
            input: None,
            timeout: SCRIPT_TIMEOUT,
            passing: true,
        };
        machine.script(script).await?;
        settle(own, machine.name).await?;
    }
    Ok(soon)
}
