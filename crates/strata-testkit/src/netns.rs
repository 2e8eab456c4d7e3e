//! A network namespace of one's own for a daemon, so that its bridge, rules
//! and settings touch nothing of the machine that runs the tests.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use crate::wait::{TEST_TIMEOUT, wait_for_blocking};

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
            TEST_TIMEOUT,
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
    /// Sent by bash: the static busybox does not survive looking up names with
    /// the machine's own libraries.
    ///
    /// # Panics
    /// When no server answers.
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
        let rules = self.rules();
        let forward = self.run(["sysctl", "-n", "net.ipv4.ip_forward"]);
        format!("{names:?}\n{rules}\n{forward}")
    }

    /// The rules, without the counts that packets made: the kernel drops those
    /// of a source once its connections have ended, or after a minute.
    pub fn rules(&self) -> String {
        without_counts(&self.run(["nft", "list", "ruleset"]))
    }
}

fn without_counts(rules: &str) -> String {
    let (mut left, mut is_dynamic, mut is_element) = (String::new(), false, false);
    for line in rules.lines() {
        match line.trim_start() {
            set if set.starts_with("set ") => is_dynamic = false,
            flags if flags.starts_with("flags ") => is_dynamic = flags.contains("dynamic"),
            elements if elements.starts_with("elements = {") => is_element = is_dynamic,
            _ => {}
        }
        if !is_element {
            left += line;
            left.push('\n');
        }
        is_element &= !line.trim_end().ends_with('}');
    }
    left
}

impl Default for NetworkNamespace {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::without_counts;

    #[test]
    fn counts_of_sources_are_left_out_and_elements_of_rules_are_not() {
        let rules = "table inet t {\n\tset pods {\n\t\ttype ipv4_addr\n\t\telements = { 10.0.0.1,\n\
            \t\t\t10.0.0.2 }\n\t}\n\n\tset connections {\n\t\tsize 9\n\t\tflags dynamic\n\
            \t\telements = { 10.0.0.3 ct count over 9 ,\n\t\t\t10.0.0.4 ct count over 9  }\n\t}\n}\n";
        let left = without_counts(rules);
        for (address, is_left) in [("0.1", true), ("0.2", true), ("0.3", false), ("0.4", false)] {
            assert_eq!(left.contains(&format!("10.0.{address}")), is_left, "{left}");
        }
        assert!(
            left.contains("set connections {") && left.ends_with("\t}\n}\n"),
            "{left}"
        );
    }
}
