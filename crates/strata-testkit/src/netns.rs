//! A network namespace of one's own for a daemon, so that its bridge, rules
//! and settings touch nothing of the machine that runs the tests.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use crate::wait::{PATIENCE, wait_for_blocking};

/// A network namespace with a loopback, held by a process that sleeps.
#[derive(Clone, Debug)]
pub struct NetworkNamespace(Arc<Holder>);

#[derive(Debug)]
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl NetworkNamespace {
    /// Makes one.
    ///
    /// # Panics
    /// When this machine cannot.
    pub fn new() -> Self {
        let holder = Command::new("unshare")
            .args(["--net", "--kill-child", "sleep", "infinity"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("unshare can be run");
        let namespace = Self(Arc::new(Holder(holder)));
        let own = std::fs::read_link("/proc/self/ns/net").expect("a process has a namespace");
        wait_for_blocking(
            "a network namespace",
            PATIENCE,
            || match std::fs::read_link(namespace.path()) {
                Ok(other) if other != own => Ok(()),
                other => Err(format!("{other:?}")),
            },
        );
        namespace.run(["ip", "link", "set", "lo", "up"]);
        namespace
    }

    /// A file that stands for it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.0.0.id()).into()
    }

    /// What goes before a command so that it runs in here.
    pub fn prefix(&self) -> [String; 2] {
        ["nsenter".into(), format!("--net={}", self.path().display())]
    }

    /// A command in here, not yet run.
    pub fn command<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let [program, net] = self.prefix();
        let mut command = Command::new(program);
        command.arg(net).args(words).stdin(Stdio::null());
        command
    }

    /// Runs a command in here to its end.
    ///
    /// # Panics
    /// When it cannot be run.
    pub fn output<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Output {
        self.command(words).output().expect("a command can be run")
    }

    /// Runs a command in here, which must succeed; what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub fn run<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> String {
        let output = self.output(words);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What a GET of `/` at this address is answered with, headers and all.
    /// Spoken by bash: the static busybox does not survive looking up names
    /// with the machine's own libraries.
    ///
    /// # Panics
    /// When nobody answers.
    pub fn get(&self, host: &str, port: u16) -> String {
        let script = format!(
            "exec 3<>/dev/tcp/{host}/{port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
        );
        self.run(["timeout", "20", "bash", "-c", &script])
    }

    /// Interfaces, rules and forwarding, as text to compare.
    pub fn look(&self) -> String {
        let links = self.run(["ip", "-o", "link"]);
        let mut names: Vec<_> = links
            .lines()
            .filter_map(|line| line.split(": ").nth(1))
            .collect();
        names.sort_unstable();
        let rules = self.run(["nft", "list", "ruleset"]);
        let forward = self.run(["sysctl", "-n", "net.ipv4.ip_forward"]);
        format!("{names:?}\n{rules}\n{forward}")
    }
}

impl Default for NetworkNamespace {
    fn default() -> Self {
        Self::new()
    }
}
