//! Which test binaries cargo built, and which tests are in them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::test::Error;
use crate::test::suites::read;

#[derive(Clone, Debug)]
pub(crate) struct Binary {
    /// `strata-types` for the unit tests of a crate, `strata/pods` for one of
    /// its integration test binaries.
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    /// Of `tests/`, not of the code itself.
    pub(crate) is_integration: bool,
    /// Where cargo would run it.
    pub(crate) dir: PathBuf,
}

/// A test: its binary and its name in there.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) binary: Binary,
    pub(crate) name: String,
}

impl Test {
    /// `strata/pods::hostile::symlink_is_refused`.
    pub(crate) fn id(&self) -> String {
        format!("{}::{}", self.binary.id, self.name)
    }
}

/// The part of cargo's messages that is read here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The test binaries among cargo's artifacts.
pub(crate) fn binaries(artifacts: &Path) -> Result<Vec<Binary>, Error> {
    let mut binaries = Vec::new();
    for line in read(artifacts)?.lines() {
        binaries.extend(binary(serde_json::from_str(line)?));
    }
    Ok(binaries)
}

fn binary(message: Message) -> Option<Binary> {
    if message.reason != "compiler-artifact" || !message.profile?.test {
        return None;
    }
    let path = message.executable?;
    let target = message.target?;
    let manifest = message.manifest_path?;
    let dir = manifest.parent()?.to_owned();
    // Every package of the workspace is called as its directory.
    let package = dir.file_name()?.to_str()?.to_owned();
    let is_integration = target.kind.first()? == "test";
    let id = match target.kind.first()?.as_str() {
        "test" => format!("{package}/{}", target.name),
        "bin" => format!("{package}/bin"),
        _ => package,
    };
    Some(Binary {
        id,
        path,
        is_integration,
        dir,
    })
}

/// All tests of the binaries but the ignored ones, which are helpers that other
/// tests start.
pub(crate) fn tests(binaries: &[Binary]) -> Result<Vec<Test>, Error> {
    let mut tests = Vec::new();
    for binary in binaries {
        let ignored = names(binary, &["--ignored"])?;
        let all = names(binary, &[])?;
        let wanted = all.into_iter().filter(|name| !ignored.contains(name));
        tests.extend(wanted.map(|name| Test {
            binary: binary.clone(),
            name,
        }));
    }
    Ok(tests)
}

fn names(binary: &Binary, arguments: &[&str]) -> Result<Vec<String>, Error> {
    let failed = |reason: String| Error::List {
        binary: binary.path.clone(),
        reason,
    };
    let output = Command::new(&binary.path)
        .args(["--list", "--format", "terse"])
        .args(arguments)
        .current_dir(&binary.dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let name = |line: &str| line.strip_suffix(": test").map(str::to_owned);
    Ok(text.lines().filter_map(name).collect())
}
