//! A containerd of the bench's own: its own directories, its own socket, gone
//! with the bench. Its directories are on the disk, for an overlay cannot sit on
//! another.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;
use crate::stats::skipped;

const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Its namespace for our things.
const NAMESPACE: &str = "strata-bench";

pub(crate) struct Containerd {
    child: Child,
    dir: tempfile::TempDir,
    runs: usize,
}

impl Containerd {
    /// Starts one; none, with a printed reason, where that cannot be done.
    pub(crate) fn start() -> Option<Self> {
        match Self::try_start() {
            Ok(containerd) => Some(containerd),
            Err(error) => {
                skipped("ctr", error);
                None
            }
        }
    }

    fn try_start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let at = |name: &str| dir.path().join(name);
        // Pods of Kubernetes need much that is not needed here.
        let config = format!(
            "version = 2\nroot = {:?}\nstate = {:?}\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\
             [grpc]\naddress = {:?}\n[ttrpc]\naddress = {:?}\n",
            at("root"),
            at("state"),
            at("sock"),
            at("ttrpc")
        );
        fs::write(at("config.toml"), config)?;
        let child = Command::new("containerd")
            .arg("--config")
            .arg(at("config.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(at("log"))?)
            .spawn()
            .map_err(|error| format!("containerd: {error}"))?;
        let containerd = Self {
            child,
            dir,
            runs: 0,
        };
        let begin = Instant::now();
        while !containerd.ctr(&["version"]).output()?.status.success() {
            if begin.elapsed() > READY_TIMEOUT {
                let log = fs::read_to_string(containerd.dir.path().join("log"))?;
                return Err(format!("containerd does not answer: {log}").into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(containerd)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `ctr` with these words, not yet run.
    pub(crate) fn ctr(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ctr");
        command
            .arg("--address")
            .arg(self.dir.path().join("sock"))
            .args(["--namespace", NAMESPACE])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    fn told(&self, words: &[&str]) -> Result {
        finished(self.ctr(words).spawn()?)
    }

    /// The words that import an archive as `NAME:TAG`, unpacked.
    pub(crate) fn import(&self, archive: &Path, name: &str) -> Command {
        let archive = archive.to_string_lossy();
        self.ctr(&["images", "import", "--base-name", name, &archive])
    }

    /// Removes an image, and waits until its content is gone.
    pub(crate) fn remove(&self, image: &str) -> Result {
        self.told(&["images", "rm", "--sync", image])
    }

    /// `ctr run` of so many at once, until the last has ended.
    pub(crate) fn run(&mut self, image: &str, at_once: usize) -> Result<Duration> {
        let begin = Instant::now();
        let mut running = Vec::new();
        for _ in 0..at_once {
            self.runs += 1;
            let name = format!("strata-bench-{}-{}", std::process::id(), self.runs);
            let words = ["run", "--rm", image, &name, "/bin/busybox", "true"];
            running.push(self.ctr(&words).spawn()?);
        }
        for child in running {
            finished(child)?;
        }
        Ok(begin.elapsed())
    }
}

fn finished(child: Child) -> Result {
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("ctr: {}: {why}", output.status).into());
    }
    Ok(())
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

/// A layout directory as the archive that `ctr` imports.
pub(crate) fn archive(layout: &Path, file: PathBuf) -> Result<PathBuf> {
    let status = Command::new("tar")
        .arg("-C")
        .arg(layout)
        .arg("-cf")
        .arg(&file)
        .arg(".")
        .status()?;
    if !status.success() {
        return Err(format!("tar: {status}").into());
    }
    Ok(file)
}
