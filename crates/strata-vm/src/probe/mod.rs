//! What this machine can do: which QEMU there is, and whether KVM works.
//!
//! That `/dev/kvm` opens proves nothing: there are hosts where it does, and
//! where guests run well until they switch to 64 bits and then hang. So a tiny
//! guest is booted that does just that, by the command line of a real one.
//! The same guest on TCG shows whether QEMU itself works, and its sandbox.

mod firmware;
pub(crate) mod run;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::command::SANDBOX;
use run::{Outcome, run};

/// The program that emulates machines like this one.
const PROGRAM: &str = "qemu-system-x86_64";
/// How long the tiny guest may take. It takes a twentieth of a second.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// What the probe found. Query once and keep it: it costs a fifth of a second,
/// and some seconds where KVM hangs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub qemu: PathBuf,
    pub version: Version,
    /// Whether guests can run on the processor itself.
    pub kvm: Kvm,
    /// Whether QEMU can give up the system calls it needs no more.
    pub sandbox: bool,
}

/// Whether guests can run on the processor itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kvm {
    Works,
    /// No guest runs, and why.
    Broken(String),
}

/// A version of QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// The first number.
    pub major: u32,
    pub minor: u32,
    pub micro: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            major,
            minor,
            micro,
        } = self;
        write!(f, "{major}.{minor}.{micro}")
    }
}

impl Version {
    /// Reads `QEMU emulator version 7.2.22 (Debian …)`.
    fn read(text: &str) -> Option<Self> {
        let after = text.split_once("version ")?.1;
        let end = after.find(|c: char| c != '.' && !c.is_ascii_digit());
        let mut numbers = after[..end.unwrap_or(after.len())].split('.');
        let mut next = || numbers.next()?.parse().ok();
        Some(Self {
            major: next()?,
            minor: next()?,
            micro: next().unwrap_or(0),
        })
    }
}

/// Why no guest can run here.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("no {PROGRAM} in {path}: install the package qemu-system-x86")]
    NoProgram {
        /// The directories that were searched.
        path: String,
    },
    /// It does not start.
    #[error("cannot run {}", program.display())]
    Start {
        program: PathBuf,
        /// The message of the kernel.
        source: std::io::Error,
    },
    /// It does not print its version.
    #[error("{} does not print its version, but {said:?}", program.display())]
    Version { program: PathBuf, said: String },
    /// Not even TCG runs the tiny guest.
    #[error("{} runs no guest: {why}", program.display())]
    NoGuest { program: PathBuf, why: String },
}

/// Finds QEMU in the directories of `path`, which is written like `PATH`, and
/// tries it. Blocks for as long as that takes; at most some ten seconds.
pub fn probe(path: &OsStr) -> Result<Host, ProbeError> {
    let qemu = std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(PROGRAM))
        .find(|program| is_executable(program))
        // QEMU finds its firmware beside where its program really is.
        .map(|program| program.canonicalize().unwrap_or(program))
        .ok_or_else(|| ProbeError::NoProgram {
            path: path.to_string_lossy().into_owned(),
        })?;
    let version = find_version(&qemu)?;
    let sandbox = match boot(&qemu, ["tcg", "max"], true)? {
        Outcome::Works => true,
        Outcome::Fails(_) => match boot(&qemu, ["tcg", "max"], false)? {
            Outcome::Works => false,
            Outcome::Fails(why) => return Err(ProbeError::NoGuest { program: qemu, why }),
        },
    };
    let kvm = match boot(&qemu, ["kvm", "host"], sandbox)? {
        Outcome::Works => Kvm::Works,
        Outcome::Fails(why) => Kvm::Broken(why),
    };
    tracing::debug!(qemu = %qemu.display(), %version, ?kvm, sandbox, "probed QEMU");
    Ok(Host {
        qemu,
        version,
        kvm,
        sandbox,
    })
}

fn is_executable(program: &Path) -> bool {
    program.is_file() && rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok()
}

fn find_version(qemu: &Path) -> Result<Version, ProbeError> {
    let said =
        run(qemu, &["--version"], None, PROBE_TIMEOUT).map_err(|source| ProbeError::Start {
            program: qemu.into(),
            source,
        })?;
    Version::read(&said.output).ok_or_else(|| ProbeError::Version {
        program: qemu.into(),
        said: said.shown(),
    })
}

/// Boots the tiny guest.
fn boot(qemu: &Path, [accel, cpu]: [&str; 2], sandbox: bool) -> Result<Outcome, ProbeError> {
    let start_error = |source| ProbeError::Start {
        program: qemu.into(),
        source,
    };
    let mut words = vec!["-nodefaults", "-no-user-config", "-display", "none"];
    words.extend(["-monitor", "none", "-machine", "q35", "-m", "size=16M"]);
    words.extend(["-accel", accel, "-cpu", cpu]);
    if sandbox {
        words.extend(["-sandbox", SANDBOX]);
    }
    // The firmware is our stdin, which QEMU opens again by this name.
    words.extend(["-bios", "/proc/self/fd/0"]);
    words.extend(["-chardev", "file,id=said,path=/proc/self/fd/1,append=on"]);
    words.extend(["-device", firmware::SAYS, "-device", firmware::ENDS]);
    let firmware = firmware::image().map_err(start_error)?;
    let said = run(qemu, &words, Some(firmware), PROBE_TIMEOUT).map_err(start_error)?;
    Ok(said.outcome(firmware::SAID))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_qemu_says() {
        let read = |text| Version::read(text).map(|version| version.to_string());
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright";
        assert_eq!(read(debian).as_deref(), Some("7.2.22"));
        assert_eq!(
            read("QEMU emulator version 10.0").as_deref(),
            Some("10.0.0")
        );
        assert_eq!(read("QEMU emulator version x"), None);
        assert_eq!(read("version 99999999999.1.1"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn a_machine_without_qemu_says_what_to_install() {
        let dir = tempfile::tempdir().unwrap();
        let error = probe(dir.path().as_os_str()).unwrap_err();
        assert!(error.to_string().contains("qemu-system-x86"), "{error}");
    }
}
