//! What is open when a token or a certificate is revoked is closed.

use std::io::Read as _;
use std::process::{Child, ExitStatus};
use std::time::Instant;

use strata_testkit::cluster::Cluster;
use strata_testkit::{Cli, wait_for};

use crate::hostile::{STRATA, TEST_TIMEOUT};

/// A command that goes on until it is cut off.
struct Open {
    what: &'static str,
    child: Child,
}

impl Open {
    fn start(cli: &Cli, what: &'static str, words: &[&str]) -> Self {
        let child = cli.command(words).spawn().unwrap();
        Self { what, child }
    }

    /// Waits for its end.
    async fn ended(mut self) -> (ExitStatus, String) {
        let began = Instant::now();
        let status = wait_for(self.what, TEST_TIMEOUT, async || {
            match self.child.try_wait() {
                Ok(Some(status)) => Ok(status),
                Ok(None) => Err(format!("{} goes on", self.what)),
                Err(error) => Err(error.to_string()),
            }
        });
        let status = status.await;
        let mut said = String::new();
        let mut errors = self.child.stderr.take().unwrap();
        errors.read_to_string(&mut said).unwrap();
        assert!(began.elapsed() < TEST_TIMEOUT);
        (status, said)
    }

    fn goes_on(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything that stays open, begun with this proof.
fn open(cli: &Cli) -> Vec<Open> {
    vec![
        Open::start(cli, "a watch", &["instance", "list", "-w"]),
        Open::start(cli, "events", &["events", "-f"]),
        Open::start(cli, "logs", &["instance", "logs", "it", "-f"]),
        Open::start(
            cli,
            "exec",
            &["instance", "exec", "it", "--", "sleep", "1000"],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_or_certificate_closes_what_it_has_open() {
    let cluster = Cluster::start(STRATA, 1).await;
    let mut updates = cluster.run(cluster.instance("it")).await;
    updates.until_running().await;
    let server = cluster.server.endpoints().server.unwrap();
    let ca = cluster.server.data_dir().join("client/ca.crt");
    let made = [
        "token", "create", "--name", "tina", "--role", "operator", "-o", "json",
    ];
    let made = cluster.cli().run(made).await.json();
    let by_token = cluster
        .server
        .cli()
        .env("STRATA_SERVER", &server)
        .env("STRATA_CA", &ca)
        .env("STRATA_TOKEN", made["token"].as_str().unwrap());
    let dir = cluster.credentials("operator", "vic").await;
    let by_certificate = cluster
        .server
        .cli()
        .env("STRATA_SERVER", &server)
        .env("STRATA_CREDENTIALS", &dir);
    let id = made["id"].as_str().unwrap();
    let revoke_token = ["token", "revoke", "--yes", id];
    let revoke_certificate = [
        "certificate",
        "revoke",
        "--yes",
        "--name",
        "vic",
        "--role",
        "operator",
    ];
    let mut of_token = open(&by_token);
    let mut of_certificate = open(&by_certificate);
    runs_in_pod(&cluster, 2).await;
    assert!(
        of_token
            .iter_mut()
            .chain(&mut of_certificate)
            .all(Open::goes_on)
    );

    cluster.cli().run(revoke_token).await.ok();
    for one in of_token {
        let what = one.what;
        let (status, said) = one.ended().await;
        assert!(!status.success(), "{what}: {said}");
    }
    // What is of the certificate is not touched by that.
    assert!(of_certificate.iter_mut().all(Open::goes_on));
    cluster.cli().run(revoke_certificate).await.ok();
    for one in of_certificate {
        let what = one.what;
        let (status, said) = one.ended().await;
        assert!(!status.success(), "{what}: {said}");
    }
    // What was executed has ended with its stream.
    runs_in_pod(&cluster, 0).await;
    let again = by_certificate.run(["instance", "list"]).await;
    assert_eq!(again.code, Some(5), "{again:?}");
}

/// Waits until so many commands run in the instance beside its own.
async fn runs_in_pod(cluster: &Cluster, count: usize) {
    wait_for("commands in the instance", TEST_TIMEOUT, async || {
        let listed = ["instance", "exec", "it", "--", "ps"];
        let listed = cluster.cli().run(listed).await;
        let found = listed.stdout.matches("sleep 1000").count();
        match found == count {
            true => Ok(()),
            false => Err(format!("{found}: {listed:?}")),
        }
    })
    .await;
}
