//! A control plane back to a snapshot. All its machines that are up first
//! make etcd's data out of it, beside what they have; only when all have done
//! so are their API servers and etcds ended, the data is put in place, and
//! they begin again as members of one new etcd.

use std::path::Path;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use jiff::Timestamp;
use strata_types::Secret;
use strata_types::cluster::Member;
use tokio::time::Instant;

use super::api::Api;
use super::apiserver;
use super::archive::Archive;
use super::bundle_transfer;
use super::config;
use super::install::{self, Progress};
use super::machine::{HERE, Machine, Script};
use super::static_pods;
use super::token::Token;
use crate::catalogue::Bundle;
use crate::{ClusterFacts, DriverError, Snapshot};

const SCRIPT_TIMEOUT: Duration = Duration::from_secs(3 * 60);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// What a restore takes.
pub(super) struct Restore<'a> {
    /// As it was when the snapshot was made: also its version.
    pub(super) cluster: &'a ClusterFacts,
    pub(super) snapshot: &'a Snapshot,
    pub(super) file: &'a Path,
    pub(super) bundle: &'a Bundle,
    /// The machines of the control plane.
    pub(super) controls: Vec<(&'a Member, Machine<'a>)>,
    pub(super) progress: Progress<'a>,
}

impl Restore<'_> {
    /// Does all of it, and gives the machines that began again. `api` is that
    /// of the machines.
    pub(super) async fn run(mut self, api: &Api) -> Result<Vec<String>, DriverError> {
        (self.progress)("checking which machines are up".into());
        self.reachable_controls().await?;
        for (member, machine) in &self.controls {
            let files = apiserver::files(self.cluster, Archive::default());
            machine.put("put", files).await?;
            (self.progress)(format!("sending the snapshot to {}", member.machine));
            bundle_transfer::bundle_transfer(
                self.bundle,
                self.snapshot.version,
                *machine,
                self.progress,
            )
            .await?;
            // What it was in the middle of may have left it stopped.
            install::containerd(*machine).await?;
            // One that came later never had them.
            install::import(*machine, self.snapshot.version).await?;
            let to = format!("{HERE}/snapshot.db");
            bundle_transfer::send(*machine, self.file, &to, 0o600, &|_| {}).await?;
        }
        (self.progress)("making etcd's data".into());
        let number = number(Timestamp::now());
        let made = self
            .controls
            .iter()
            .map(|(member, machine)| self.make(member, *machine, number));
        try_join_all(made).await?;
        self.restart_members().await?;
        serves(api, SCRIPT_TIMEOUT).await?;
        let machines = self.controls.iter().map(|(_, machine)| machine.name);
        Ok(machines.map(str::to_owned).collect())
    }

    /// Ends the control plane, puts the data in place and starts it. What was
    /// stopped is started also when something failed: a machine without its
    /// kubelet would stay dead.
    async fn restart_members(&self) -> Result<(), DriverError> {
        (self.progress)("ending the control plane".into());
        let swapped = self.stop_and_swap().await;
        (self.progress)("starting the control plane".into());
        let command = format!("/bin/sh {HERE}/run-kubelet");
        let started = self
            .controls
            .iter()
            .map(|(_, machine)| machine.supervise("kubelet", &command));
        let started = all(join_all(started).await);
        swapped.and(started)
    }

    /// Waits for all machines, also when one failed: nothing is started before
    /// the last has ended.
    async fn stop_and_swap(&self) -> Result<(), DriverError> {
        // Nor may an upgrade that was abandoned go on with its parts.
        for what in [static_pods::NAME, "kubelet"] {
            let stopped = self.controls.iter();
            let stopped = stopped.map(|(_, machine)| machine.stop(what));
            all(join_all(stopped).await)?;
        }
        let swapped = self
            .controls
            .iter()
            .map(|(member, machine)| self.static_pods(member, *machine));
        all(join_all(swapped).await)
    }

    /// Those that do not answer are no members of the new etcd: they have to
    /// be taken out of the cluster, or join again.
    async fn reachable_controls(&mut self) -> Result<(), DriverError> {
        let looked = self
            .controls
            .iter()
            .map(|(_, machine)| machine.short("state", "checking the machine"));
        let looked = join_all(looked).await;
        let mut why = None;
        let mut looked = looked.into_iter();
        self.controls.retain(|(member, _)| match looked.next() {
            Some(Ok(_)) => true,
            Some(Err(error)) => {
                tracing::warn!(machine = %member.machine, %error, "machine not restored: it does not respond");
                why = Some(error);
                false
            }
            None => false,
        });
        match (self.controls.is_empty(), why) {
            (false, _) => Ok(()),
            (true, Some(error)) => Err(error),
            (true, None) => Err(DriverError::Refused("it has no control plane".into())),
        }
    }

    /// All with the same number: the token of the new etcd comes from it, so
    /// that no member is taken for one of the etcd before, and the revision
    /// that it goes on from.
    async fn make(
        &self,
        member: &Member,
        machine: Machine<'_>,
        number: i64,
    ) -> Result<(), DriverError> {
        let everybody: Vec<String> = self
            .controls
            .iter()
            .map(|(member, _)| format!("{}=https://{}:2380", member.machine, member.address))
            .collect();
        let line = format!(
            "restore-data {} {} {} {number}",
            member.machine,
            member.address,
            everybody.join(","),
        );
        let script = Script {
            line: &line,
            what: "etcdutl snapshot restore",
            input: None,
            timeout: SCRIPT_TIMEOUT,
            passing: true,
        };
        machine.script(script).await.map(drop)
    }

    /// Always with the manifests of the snapshot's version: an upgrade that
    /// stopped half way has changed them and recorded that nowhere.
    async fn static_pods(&self, member: &Member, machine: Machine<'_>) -> Result<(), DriverError> {
        // Nothing joins with it: kubeadm requires one.
        let token: Secret = Token::new().text();
        let config = config::init(self.cluster, member, self.bundle, &token);
        let script = Script {
            line: &format!("restore-swap {}", self.snapshot.version),
            what: "putting the snapshot in place",
            input: Some(config.into_bytes()),
            timeout: SCRIPT_TIMEOUT,
            passing: true,
        };
        machine.script(script).await.map(drop)
    }
}

/// Microseconds since 2020: no etcd writes as often, so a later restore always
/// goes on from a higher revision than the one before has come to. A JSON
/// number still holds it exactly for centuries.
fn number(now: Timestamp) -> i64 {
    const YEAR_2020: i64 = 1_577_836_800_000_000;
    (now.as_microsecond() - YEAR_2020).max(1)
}

/// The first error, if there is one.
fn all(done: Vec<Result<(), DriverError>>) -> Result<(), DriverError> {
    done.into_iter().collect()
}

/// Waits until the API is ready.
pub(super) async fn serves(api: &Api, bound: Duration) -> Result<(), DriverError> {
    let end = Instant::now() + bound;
    loop {
        match api.text("/readyz").await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() + RETRY_INTERVAL >= end => return Err(error.into()),
            Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeExec, VERSION, cluster};
    use super::*;

    #[test]
    fn restore_revision_bump_grows_with_time() {
        let at = |text: &str| number(text.parse().unwrap());
        assert_eq!(at("2020-01-01T00:00:01Z"), 1_000_000);
        assert!(at("2026-01-01T00:00:00.001Z") > at("2026-01-01T00:00:00Z"));
    }

    #[tokio::test]
    async fn kubelets_restart_when_a_data_swap_failed() {
        let facts = cluster(&["c1", "c2"]);
        let bundle = Bundle {
            version: VERSION,
            etcd: "3.6.5-0".into(),
            coredns: "v1.12.1".into(),
            pause: "3.10.1".into(),
            images: Vec::new(),
            dir: "/nowhere".into(),
        };
        let snapshot = Snapshot {
            id: "1".into(),
            at_ms: 1,
            size: 1,
            version: VERSION,
            reason: "asked".into(),
        };
        for code in [0, 1] {
            let remote_exec = FakeExec::failing("restore-swap", code);
            let members = facts.members.iter();
            let controls = members.map(|member| {
                let name = member.machine.as_str();
                let remote_exec = &*remote_exec;
                (member, Machine { remote_exec, name })
            });
            let restore = Restore {
                cluster: &facts,
                snapshot: &snapshot,
                file: Path::new("/nowhere"),
                bundle: &bundle,
                controls: controls.collect(),
                progress: &|_| (),
            };
            assert_eq!(restore.restart_members().await.is_ok(), code == 0);
            let ran = remote_exec.ran.lock().unwrap();
            let static_pods = format!("/bin/sh {HERE}/restore-swap {VERSION}");
            let expected = ["stop swap", "stop kubelet", &static_pods, "keep kubelet"]
                .map(|what| ["c1", "c2"].map(|machine| format!("{machine}: {what}")));
            assert_eq!(*ran, expected.concat());
        }
    }
}
