//! Removes what a killed test leaves on the host.
//!
//! A test that ends removes its world by itself. One that is killed, at its
//! deadline or with the run, leaves daemons, shims, cgroups and interfaces, none
//! of which are in its process group. So the testkit writes the data directory
//! of every daemon that a test starts to the file that `STRATA_TEST_WORLDS`
//! names, and `strata down` removes what belongs to each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::NamedTempFile;

/// The variable by which a test is given its list.
const VARIABLE: &str = "STRATA_TEST_WORLDS";
/// For `strata down` of one data directory.
const TIMEOUT: &str = "60";

/// The data directories of one test.
#[derive(Debug)]
pub(crate) struct Worlds(NamedTempFile);

impl Worlds {
    pub(crate) fn new() -> io::Result<Self> {
        NamedTempFile::with_prefix("strata-worlds-").map(Self)
    }

    pub(crate) fn variable(&self) -> (&'static str, &Path) {
        (VARIABLE, self.0.path())
    }

    /// Removes whatever is left of the worlds; returns what was done.
    pub(crate) fn remove(&self) -> String {
        let list = fs::read_to_string(self.0.path()).unwrap_or_default();
        let left = list.lines().filter(|path| Path::new(path).exists());
        left.map(remove).collect()
    }
}

fn remove(data_dir: &str) -> String {
    let Some(strata) = strata() else {
        return format!("cleanup: no strata beside xtask, {data_dir} stays\n");
    };
    let down = Command::new("timeout")
        .args(["--kill-after=5", TIMEOUT])
        .arg(strata)
        .args(["down", "--yes", "--data-dir", data_dir])
        .stdin(Stdio::null())
        .output();
    let outcome = match down {
        Ok(output) if output.status.success() => "removed".to_owned(),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    format!("cleanup: strata down {data_dir}: {outcome}\n")
}

/// The binary under test: cargo puts it beside the runner.
fn strata() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name("strata");
    path.exists().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn world_that_is_gone_is_passed_over() {
        let worlds = Worlds::new().expect("a temporary file");
        let (_, list) = worlds.variable();
        fs::write(list, "/nonexistent/strata-test/data\n").expect("written");
        assert_eq!(worlds.remove(), "");
    }
}
