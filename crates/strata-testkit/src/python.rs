//! Clients that know a published document and nothing else, in Python with
//! grpcio from PyPI.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// Runs a script of `tests/python` and answers the lines that it printed. None
/// where what it needs cannot be had: a machine may have no way to where Python
/// packages are.
///
/// # Panics
/// When the script fails.
pub async fn drive(script: &str, arguments: Vec<OsString>) -> Option<Vec<String>> {
    let script = repository("tests/python").join(script);
    let driven = tokio::task::spawn_blocking(move || run(&script, &arguments)).await;
    driven.expect("driving does not panic")
}

#[allow(clippy::print_stderr)]
fn run(script: &Path, arguments: &[OsString]) -> Option<Vec<String>> {
    let made = Command::new(repository("scripts/python-tools"))
        .stdin(Stdio::null())
        .output()
        .expect("the script can be run");
    if !made.status.success() {
        let why = String::from_utf8_lossy(&made.stderr);
        eprintln!("skipped, nothing is proven: {why}");
        return None;
    }
    let python = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    let driven = Command::new(python)
        .arg(script)
        .args(arguments)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .expect("Python runs");
    let said = String::from_utf8_lossy(&driven.stdout);
    let complained = String::from_utf8_lossy(&driven.stderr);
    assert!(driven.status.success(), "{said}\n{complained}");
    Some(said.lines().map(str::to_owned).collect())
}
