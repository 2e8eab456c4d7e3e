//! The peers: runc and crun on a bundle with the same namespaces as a cell,
//! running the same static program.
//!
//! A peer waits in a process of its own until it is signalled to run once more,
//! so that peers and we can take turns.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::stats::Times;

/// Makes this program measure a peer inside a private mount namespace.
pub(crate) const INSIDE: &str = "--inside";
const PRIVATE: [&str; 3] = ["--mount", "--propagation", "private"];
/// crun refuses hybrid cgroups: hide the second hierarchy from it, in a mount
/// namespace that only it sees. runc gets the same, to be fair.
const HIDE: &str = "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\"";

/// `run` of a peer, from its start to its end.
pub(crate) fn run(peer: &str, program: &str, times: usize) -> Result<Times> {
    let mut peer = Peer::start(peer, program, Namespaces::Cell)?;
    (0..times)
        .map(|_| peer.run(1))
        .collect::<Result<_>>()
        .map(Times::new)
}

/// What a bundle is kept apart by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespaces {
    /// What a cell has: no network of its own.
    Cell,
    /// A network of its own with nothing in it.
    CellAndNetwork,
}

/// A peer that runs on request.
pub(crate) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    _bundle: tempfile::TempDir,
}

impl Peer {
    pub(crate) fn start(peer: &str, program: &str, namespaces: Namespaces) -> Result<Self> {
        let bundle = tempfile::tempdir()?;
        prepare(bundle.path(), program, namespaces)?;
        let mut child = Command::new("unshare")
            .args(PRIVATE)
            .args(["sh", "-c", HIDE, "sh"])
            .arg(std::env::current_exe()?)
            .args([INSIDE, peer])
            .arg(bundle.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("no standard output")?;
        let mut started = Self {
            child,
            input,
            output: BufReader::new(output),
            _bundle: bundle,
        };
        // The first is slower, and shows whether it works at all.
        started
            .run(1)
            .map_err(|error| format!("{peer} cannot be measured: {error}"))?;
        Ok(started)
    }

    /// So many at once, until the last has ended.
    pub(crate) fn run(&mut self, at_once: usize) -> Result<Duration> {
        let input = self.input.as_mut().ok_or("it has ended")?;
        writeln!(input, "{at_once}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(Duration::from_nanos(line.trim().parse()?))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Nothing more to read: it ends.
        self.input = None;
        let _ = self.child.wait();
    }
}

/// In the private namespace: runs the peer as often as each line says, and
/// prints how long that took.
#[allow(clippy::print_stdout)]
pub(crate) fn inside(arguments: &[&str]) -> Result {
    let [peer, bundle] = arguments else {
        return Err("peer, bundle".into());
    };
    let mut number = 0;
    for line in std::io::stdin().lines() {
        let at_once: usize = line?.trim().parse()?;
        let begin = Instant::now();
        let mut running = Vec::new();
        for _ in 0..at_once {
            number += 1;
            let name = format!("strata-bench-{}-{number}", std::process::id());
            let child = Command::new(peer)
                .args(["run", "--bundle", bundle, &name])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()?;
            running.push(child);
        }
        for mut child in running {
            let status = child.wait()?;
            if !status.success() {
                return Err(format!("{peer}: {status}").into());
            }
        }
        println!("{}", begin.elapsed().as_nanos());
    }
    Ok(())
}

fn prepare(bundle: &Path, program: &str, namespaces: Namespaces) -> Result {
    let root = bundle.join("rootfs");
    fs::create_dir_all(root.join("bin"))?;
    fs::copy(program, root.join("bin/busybox"))?;
    let status = Command::new("runc")
        .arg("spec")
        .current_dir(bundle)
        .status()?;
    if !status.success() {
        return Err("runc spec failed".into());
    }
    let file = bundle.join("config.json");
    let mut spec: Value = serde_json::from_slice(&fs::read(&file)?)?;
    spec["process"]["terminal"] = json!(false);
    // The program is busybox, which takes its applet from the next word.
    spec["process"]["args"] = json!(["/bin/busybox", "true"]);
    let mut kinds = vec!["pid", "ipc", "uts", "mount"];
    if namespaces == Namespaces::CellAndNetwork {
        kinds.push("network");
    }
    let kinds: Vec<Value> = kinds.iter().map(|kind| json!({ "type": kind })).collect();
    spec["linux"]["namespaces"] = json!(kinds);
    fs::write(&file, serde_json::to_vec(&spec)?)?;
    Ok(())
}
