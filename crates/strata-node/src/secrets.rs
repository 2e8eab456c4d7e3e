//! The values of secrets that pods of this node are given: files in memory,
//! never on the disk. They outlive the daemon and not the host; then the
//! server tells them again.
//!
//! ```text
//! node/secrets/          a tmpfs, for as long as there are any
//! node/secrets/POD/NAME  a value
//! ```

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use strata_types::pod::{PodSecret, PodSpec, SecretTarget};
use strata_types::{EnvironmentVariable, Error, Label, Result};

use crate::folder::make_private;

/// All values together.
const SIZE: &str = "size=256m,mode=0700";
/// `statfs` of a tmpfs.
const TMPFS: i64 = 0x0102_1994;
/// The largest value that a server may send.
const LARGEST: usize = 64 * 1024;

/// The values on this node.
#[derive(Debug)]
pub(crate) struct PodSecrets {
    directory: PathBuf,
    /// Held while it is mounted, unmounted or written to.
    lock: Mutex<()>,
}

impl PodSecrets {
    pub(crate) fn open(directory: PathBuf) -> Result<Self> {
        make_private(&directory).map_err(|error| failed(&directory, &error))?;
        Ok(Self {
            directory,
            lock: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a pod is given, instead of what it was given before.
    pub(crate) fn put(&self, pod: &Label, values: &[(PodSecret, Vec<u8>)]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        if let Some((secret, value)) = values.iter().find(|(_, value)| value.len() > LARGEST) {
            let why = format!("{} has {} bytes", secret.name, value.len());
            return Err(Error::invalid("secrets", why));
        }
        let _lock = self.lock();
        let put = || {
            self.mount()?;
            let directory = self.directory.join(pod.as_str());
            make_private(&directory)?;
            for (secret, value) in values {
                write(&directory.join(secret.name.as_str()), value)?;
            }
            Ok(())
        };
        put().map_err(|error| failed(&self.directory, &error))
    }

    /// Forgets what a pod was given. With the last one, the memory is given
    /// back.
    pub(crate) fn remove(&self, pod: &Label) {
        let _lock = self.lock();
        let directory = self.directory.join(pod.as_str());
        match fs::remove_dir_all(&directory) {
            Ok(()) => self.unmount_if_empty(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::error!(%pod, %error, "secrets of a pod that is gone stay"),
        }
    }

    /// Forgets what pods were given that are not among these.
    pub(crate) fn clear_all_but(&self, known: &HashSet<Label>) {
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(pod) = name.to_str().and_then(|name| name.parse::<Label>().ok()) else {
                continue;
            };
            if !known.contains(&pod) {
                self.remove(&pod);
            }
        }
    }

    /// The variables that a pod finds secrets in.
    pub(crate) fn environment(&self, spec: &PodSpec) -> Result<Vec<EnvironmentVariable>> {
        let mut variables = Vec::new();
        for (i, secret) in spec.secrets.iter().enumerate() {
            let SecretTarget::Environment(name) = &secret.target else {
                continue;
            };
            let value = fs::read(self.path(spec, secret)).map_err(|_| missing(i, secret))?;
            let value = String::from_utf8(value).ok();
            let variable = value.map(|value| format!("{name}={value}"));
            let variable = variable.and_then(|text| EnvironmentVariable::try_from(text).ok());
            variables.push(variable.ok_or_else(|| {
                let why = format!(
                    "the secret {} cannot be a variable: it is no text",
                    secret.name
                );
                Error::invalid(format!("pod.secrets[{i}]"), why)
                    .with_hint("have it as a file: NAME:/PATH")
            })?);
        }
        Ok(variables)
    }

    /// The files that a pod finds secrets in: where it finds them, and where
    /// they are.
    pub(crate) fn files(&self, spec: &PodSpec) -> Result<Vec<(String, PathBuf)>> {
        let mut files = Vec::new();
        for (i, secret) in spec.secrets.iter().enumerate() {
            if let Some(target) = secret.path() {
                let path = self.path(spec, secret);
                if !path.exists() {
                    return Err(missing(i, secret));
                }
                files.push((target.to_owned(), path));
            }
        }
        Ok(files)
    }

    fn path(&self, spec: &PodSpec, secret: &PodSecret) -> PathBuf {
        let pod = self.directory.join(spec.name.as_str());
        pod.join(secret.name.as_str())
    }

    fn is_mounted(&self) -> io::Result<bool> {
        Ok(rustix::fs::statfs(&self.directory)?.f_type == TMPFS)
    }

    fn mount(&self) -> io::Result<()> {
        if self.is_mounted()? {
            return Ok(());
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        let with = |options: &str| {
            let options = std::ffi::CString::new(options).map_err(io::Error::other)?;
            mount("tmpfs", &self.directory, "tmpfs", flags, &*options).map_err(io::Error::from)
        };
        // Kernels before 6.4 do not know it.
        with(&format!("{SIZE},noswap")).or_else(|_| with(SIZE))
    }

    fn unmount_if_empty(&self) {
        let empty = fs::read_dir(&self.directory).is_ok_and(|mut all| all.next().is_none());
        if empty && self.is_mounted().unwrap_or(false) {
            // Pods that go right now may still have a file of it.
            if let Err(error) = unmount(&self.directory, UnmountFlags::DETACH) {
                tracing::warn!(%error, "the memory of secrets stays mounted");
            }
        }
    }
}

/// Whole or not at all: a pod that starts meanwhile finds one or the other.
fn write(path: &Path, value: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    let _ = fs::remove_file(&part);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&part)?;
    file.write_all(value)?;
    // Any user of the pod reads it; on the host nobody gets as far.
    file.set_permissions(fs::Permissions::from_mode(0o444))?;
    fs::rename(&part, path)
}

fn missing(i: usize, secret: &PodSecret) -> Error {
    let why = format!("the secret {} is not on this node yet", secret.name);
    Error::unavailable(why)
        .in_field(format!("pod.secrets[{i}]"))
        .with_hint("the server sends it when this node reaches it")
}

fn failed(directory: &Path, error: &io::Error) -> Error {
    Error::unavailable(format!(
        "secrets cannot be kept in {}: {error}",
        directory.display()
    ))
}
