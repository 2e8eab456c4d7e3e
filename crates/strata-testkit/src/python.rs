//! Clients that know a published document and nothing else, in Python with
//! grpcio from PyPI.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::skip::skip;

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

/// The directory of an environment that `scripts/venv` makes; the error names
/// why its packages cannot be had.
///
/// # Panics
/// When the script fails for another reason.
pub fn venv(name: &str) -> Result<PathBuf, String> {
    let made = Command::new(repository("scripts/venv"))
        .arg(name)
        .stdin(Stdio::null())
        .output()
        .expect("scripts/venv can be run");
    let complaint = String::from_utf8_lossy(&made.stderr).trim().to_owned();
    match made.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&made.stdout).trim().into()),
        Some(77) => Err(complaint.lines().last().unwrap_or_default().to_owned()),
        _ => panic!("scripts/venv {name}: {complaint}"),
    }
}

fn run(script: &Path, arguments: &[OsString]) -> Option<Vec<String>> {
    let venv = match venv("grpc") {
        Ok(venv) => venv,
        Err(why) => {
            skip(why);
            return None;
        }
    };
    let driven = Command::new(venv.join("bin/python"))
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
