//! kubectl of the bundle, in the network of the test, with credentials that
//! somebody was given.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use strata_testkit::serde_json::{Value, from_slice};
use strata_testkit::{NetworkNamespace, wait_for};

use crate::kubernetes::world::{CLUSTER, TEST_TIMEOUT, World};

/// kubectl with somebody's credentials.
#[derive(Clone, Debug)]
pub(crate) struct Kubectl {
    program: String,
    file: PathBuf,
    network: NetworkNamespace,
}

impl World {
    /// With credentials that the admin of the test asks for now.
    pub(crate) async fn kubectl(&self) -> Kubectl {
        self.kubectl_as("admin", &self.credentials()).await
    }

    /// With credentials for whoever has these at the server.
    pub(crate) async fn kubectl_as(&self, name: &str, credentials: &Path) -> Kubectl {
        let file = self.daemon.scratch().join(format!("{name}.kubeconfig"));
        let out = file.display().to_string();
        let server = format!("https://{}", crate::kubernetes::world::ADDRESS);
        let dir = credentials.display().to_string();
        let cli = self
            .daemon
            .cli()
            .env("STRATA_SERVER", server)
            .env("STRATA_CREDENTIALS", dir);
        let words = ["cluster", "kubeconfig", CLUSTER, "--output", &out];
        cli.run(words).await.ok();
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{out}");
        Kubectl {
            program: self.bundles.program(&self.bundles.old, "kubectl"),
            file,
            network: self.network.clone(),
        }
    }
}

impl Kubectl {
    /// Runs it to its end.
    pub(crate) async fn output(&self, words: &str, input: &str) -> Output {
        let file = self.file.display().to_string();
        // It keeps what it learnt below its home: in the directory of the test.
        let home = self.file.parent().expect("it is in a directory");
        let start = ["timeout", "100", &self.program, "--kubeconfig", &file];
        let mut command = self.network.command(start);
        command
            .args(words.split(' '))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env("HOME", home);
        let input = input.to_owned();
        let ran = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn()?;
            let mut pipe = child.stdin.take().expect("it has a pipe");
            let _ = pipe.write_all(input.as_bytes());
            drop(pipe);
            child.wait_with_output()
        });
        ran.await.unwrap().unwrap()
    }

    /// What it prints; it must succeed. Asked again while the way is broken.
    pub(crate) async fn says(&self, words: &str) -> String {
        let output = self.output(words, "").await;
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {words}: {told}");
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    /// Waits until it succeeds and prints what is asked for.
    pub(crate) async fn until(&self, words: &str, wanted: impl Fn(&str) -> bool) -> String {
        wait_for(words, TEST_TIMEOUT, async || {
            let output = self.output(words, "").await;
            let said = String::from_utf8_lossy(&output.stdout);
            match output.status.success() && wanted(said.trim_end()) {
                true => Ok(said.trim_end().to_owned()),
                false => Err(format!("{output:?}")),
            }
        })
        .await
    }

    /// Why it failed, as it must.
    pub(crate) async fn fails(&self, words: &str) -> String {
        let output = self.output(words, "").await;
        assert!(!output.status.success(), "kubectl {words}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    pub(crate) async fn apply(&self, text: &str) {
        let output = self.output("apply -f -", text).await;
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}\n{text}");
    }

    /// Objects of a kind.
    pub(crate) async fn list(&self, what: &str) -> Vec<Value> {
        let output = self.output(&format!("get {what} -o json"), "").await;
        assert!(output.status.success(), "{output:?}");
        let list: Value = from_slice(&output.stdout).unwrap();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until there are so many nodes, and all are ready.
    pub(crate) async fn nodes_ready(&self, count: usize) {
        let path = "get nodes --no-headers";
        self.until(path, |said| {
            let mut lines = said.lines();
            said.lines().count() == count
                && lines.all(|line| line.split_whitespace().nth(1) == Some("Ready"))
        })
        .await;
    }
}
