//! The peers: runc and crun on a bundle with the same namespaces as a cell,
//! without a network of its own, running the same static program.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::stats::Times;

/// Makes this program measure a peer inside a private mount namespace.
pub(crate) const INSIDE: &str = "--inside";

/// `run` of a peer, from its start to its end.
pub(crate) fn run(peer: &str, program: &str, times: usize) -> Result<Times> {
    let bundle = tempfile::tempdir()?;
    prepare(bundle.path(), program)?;
    // crun refuses hybrid cgroups: hide the second hierarchy from it, in a
    // mount namespace that only it sees. runc gets the same, to be fair.
    let script = "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\"";
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(std::env::current_exe()?)
        .args([INSIDE, peer, &times.to_string()])
        .arg(bundle.path())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{peer} cannot be measured: {}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let nanos = text
        .lines()
        .map(|line| Ok(Duration::from_nanos(line.parse()?)));
    nanos.collect::<Result<_>>().map(Times::new)
}

/// In the private namespace: runs the peer and prints a time per line.
#[allow(clippy::print_stdout)]
pub(crate) fn inside(arguments: &[String]) -> Result {
    let [peer, times, bundle] = arguments else {
        return Err("peer, times, bundle".into());
    };
    for i in 0..times.parse::<usize>()? {
        let begin = Instant::now();
        let status = Command::new(peer)
            .args(["run", "--bundle", bundle, &format!("strata-bench-{i}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        let taken = begin.elapsed();
        if !status.success() {
            return Err(format!("{peer}: {status}").into());
        }
        println!("{}", taken.as_nanos());
    }
    Ok(())
}

fn prepare(bundle: &Path, program: &str) -> Result {
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
    spec["linux"]["namespaces"] =
        json!(["pid", "ipc", "uts", "mount"].map(|kind| json!({ "type": kind })));
    fs::write(&file, serde_json::to_vec(&spec)?)?;
    Ok(())
}
