//! The values of secrets that pods of this node are given: files in memory,
//! never on the disk. They outlive the daemon and not the host; then the server
//! sends them again.
//!
//! ```text
//! node/secrets/               a tmpfs, for as long as there are any
//! node/secrets/POD/NAME       a value
//! node/secrets/POD/.run/NAME  the value that the last start of the pod took
//! node/secrets/POD/.project   the project of the pod
//! ```
//!
//! All projects share this memory. A pod has a bounded part of it, and a project
//! at most half of what the others leave, so that each finds some.
//!
//! A pod mounts the file in `.run`, a hard link. The kernel refuses to attach a
//! mount of a file whose name was removed or replaced meanwhile (`ENOENT`), and
//! an assignment may come, the same again or with another value, between the
//! moment a start takes the file and the moment its init attaches it. Nothing
//! but the next start of the same pod replaces a link, and no two starts of a
//! pod are under way at the same time.

use std::collections::{HashMap, HashSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use strata_types::pod::{PodSecret, PodSpec, SecretTarget};
use strata_types::{EnvironmentVariable, Error, Label, Result};

use crate::node_dir::make_private;

/// All values together: what is mounted, and how many bytes that is.
const SIZE: &str = "size=256m,mode=0700";
const SIZE_BYTES: u64 = 256 << 20;
/// What a tmpfs allots a file in.
const PAGE: u64 = 4096;
/// `statfs` of a tmpfs.
const TMPFS: i64 = 0x0102_1994;
/// The directory of the files that a pod mounts. No secret has a name like it.
const RUN: &str = ".run";
/// The file that names the project of a pod.
const PROJECT: &str = ".project";
/// The largest value that a server may send.
const MAX_VALUE_BYTES: usize = 64 * 1024;
/// The values of one pod. The server accepts no more for an instance, either.
const MAX_POD_BYTES: usize = 1 << 20;

/// The values on this node.
#[derive(Debug)]
pub(crate) struct PodSecrets {
    directory: PathBuf,
    /// Bytes that all pods share.
    room: u64,
    /// Held while it is mounted, unmounted or written to.
    held: Mutex<HashMap<Label, Held>>,
}

/// The memory that a pod occupies.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    project: String,
    bytes: u64,
}

impl Held {
    /// Twice the values: those that a start took stay beside newer ones.
    fn new(project: &str, sizes: impl Iterator<Item = u64>) -> Self {
        Self {
            project: project.to_owned(),
            bytes: sizes.map(|size| 2 * size.next_multiple_of(PAGE)).sum(),
        }
    }

    /// What is in the directory of a pod.
    fn read(directory: &Path) -> Self {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| entry.metadata().ok());
        let sizes = files.filter(fs::Metadata::is_file).map(|file| file.len());
        let project = fs::read_to_string(directory.join(PROJECT)).unwrap_or_default();
        Self::new(&project, sizes)
    }
}

impl PodSecrets {
    pub(crate) fn open(directory: PathBuf) -> Result<Self> {
        make_private(&directory).map_err(|error| failed(&directory, &error))?;
        let pods = pods_in(&directory);
        let held = pods.map(|pod| {
            let held = Held::read(&directory.join(pod.as_str()));
            (pod, held)
        });
        Ok(Self {
            held: Mutex::new(held.collect()),
            directory,
            room: SIZE_BYTES,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Label, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a pod of a project is given, instead of what it was given
    /// before.
    pub(crate) fn put(
        &self,
        pod: &Label,
        project: &str,
        values: &[(PodSecret, Vec<u8>)],
    ) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        if let Some((secret, value)) = values
            .iter()
            .find(|(_, value)| value.len() > MAX_VALUE_BYTES)
        {
            let why = format!("{} has {} bytes", secret.name, value.len());
            return Err(Error::invalid("secrets", why));
        }
        let mut all = self.lock();
        let directory = self.directory.join(pod.as_str());
        let is_here = |(secret, value): &(PodSecret, Vec<u8>)| {
            fs::read(directory.join(secret.name.as_str())).is_ok_and(|known| known == *value)
        };
        // An assignment that is sent again is no reason to stop what runs.
        if values.iter().all(is_here) {
            return Ok(());
        }
        let sizes = values.iter().map(|(_, value)| value.len() as u64);
        let held = Held::new(project, sizes);
        check_room(&all, self.room, (pod, values), &held)?;
        let put = || {
            self.mount()?;
            make_private(&directory)?;
            write(&directory.join(PROJECT), project.as_bytes())?;
            for (secret, value) in values {
                write(&directory.join(secret.name.as_str()), value)?;
            }
            Ok(())
        };
        all.insert(pod.clone(), held);
        put().map_err(|error| failed(&self.directory, &error))
    }

    /// Deletes what a pod was given. With the last one, the memory is released.
    pub(crate) fn remove(&self, pod: &Label) {
        let mut all = self.lock();
        let directory = self.directory.join(pod.as_str());
        match fs::remove_dir_all(&directory) {
            Ok(()) => {
                all.remove(pod);
                self.unmount_if_empty();
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                all.remove(pod);
            }
            Err(error) => tracing::error!(%pod, %error, "secrets of a removed pod not deleted"),
        }
    }

    /// Deletes what pods were given that are not among these.
    pub(crate) fn clear_all_but(&self, known: &HashSet<Label>) {
        for pod in pods_in(&self.directory) {
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
                    "the secret {} cannot be a variable: it is not text",
                    secret.name
                );
                Error::invalid(format!("pod.secrets[{i}]"), why)
                    .with_hint("have it as a file: NAME:/PATH")
            })?);
        }
        Ok(variables)
    }

    /// Takes the files that a pod finds secrets in, for a start of it: where it
    /// finds them, and where they are. They stay as they are until its next
    /// start, whatever is put meanwhile.
    pub(crate) fn take_files(&self, spec: &PodSpec) -> Result<Vec<(String, PathBuf)>> {
        let _lock = self.lock();
        let mut files = Vec::new();
        for (i, secret) in spec.secrets.iter().enumerate() {
            if let Some(target) = secret.path() {
                let path = self.path(spec, secret);
                let taken = take(&path).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => missing(i, secret),
                    _ => failed(&self.directory, &error),
                })?;
                files.push((target.to_owned(), taken));
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
                tracing::warn!(dir = %self.directory.display(), %error, "secrets tmpfs not unmounted");
            }
        }
    }
}

/// The pods that have values in a directory.
fn pods_in(directory: &Path) -> impl Iterator<Item = Label> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Refuses what is more than a pod may have, or its project.
fn check_room(
    all: &HashMap<Label, Held>,
    room: u64,
    (pod, values): (&Label, &[(PodSecret, Vec<u8>)]),
    held: &Held,
) -> Result<()> {
    let bytes: usize = values.iter().map(|(_, value)| value.len()).sum();
    if bytes > MAX_POD_BYTES {
        let why = format!("have {bytes} bytes together; {MAX_POD_BYTES} is the most");
        return Err(Error::invalid("secrets", why));
    }
    let (mut own, mut others) = (held.bytes, 0);
    for (_, known) in all.iter().filter(|(other, _)| *other != pod) {
        match known.project == held.project {
            true => own += known.bytes,
            false => others += known.bytes,
        }
    }
    let share = room.saturating_sub(others) / 2;
    if own > share {
        let why = format!(
            "the secrets of project {} have no room in the memory of this node: {own} bytes, of \
             {share} for the project",
            held.project
        );
        return Err(Error::exhausted(why).with_hint("give its instances fewer secrets"));
    }
    Ok(())
}

/// Removes the values that a run left in memory, with their tmpfs.
pub fn remove_secrets(directory: &Path) -> Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    let secrets = PodSecrets::open(directory.to_owned())?;
    let removed = secrets.is_mounted().and_then(|mounted| match mounted {
        true => match unmount(directory, UnmountFlags::DETACH) {
            // The data directory itself is in memory.
            Err(rustix::io::Errno::INVAL) => Ok(()),
            unmounted => unmounted.map_err(io::Error::from),
        },
        false => Ok(()),
    });
    removed.map_err(|error| failed(directory, &error))
}

/// Links a value for a start of its pod.
fn take(path: &Path) -> io::Result<PathBuf> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    let directory = parent.join(RUN);
    let taken = directory.join(path.file_name().unwrap_or_default());
    fs::metadata(path)?;
    make_private(&directory)?;
    match fs::remove_file(&taken) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::hard_link(path, &taken)?;
    Ok(taken)
}

/// Whole or not at all: a pod that starts meanwhile finds one or the other. The
/// value that is there already stays as it is.
fn write(path: &Path, value: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|known| known == value) {
        return Ok(());
    }
    let part = path.with_extension("part");
    let _ = fs::remove_file(&part);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&part)?;
    file.write_all(value)?;
    // Any user of the pod reads it; on the host no other user reaches this
    // directory.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> PodSecret {
        PodSecret::parse("secrets", text).unwrap()
    }

    /// One inode under two names of the same file system.
    fn same_file(one: &Path, other: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        inode(one) == inode(other)
    }

    #[test]
    fn value_that_a_start_took_stays_until_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        assert_eq!(take(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        write(&path, b"one").unwrap();
        let taken = take(&path).unwrap();
        assert_ne!(taken, path);
        // The same again replaces no file.
        write(&path, b"one").unwrap();
        assert!(same_file(&path, &taken));
        // Another value replaces the file, and not the one that was taken.
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&taken).unwrap(), b"one");
        assert_eq!(take(&path).unwrap(), taken);
        assert_eq!(fs::read(&taken).unwrap(), b"two");
    }

    fn label(text: &str) -> Label {
        text.parse().unwrap()
    }

    /// In memory already, so that nothing is mounted.
    fn in_memory() -> (tempfile::TempDir, PodSecrets) {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut secrets = PodSecrets::open(folder.path().to_owned()).unwrap();
        secrets.room = 16 << 20;
        (folder, secrets)
    }

    #[test]
    fn one_project_leaves_memory_for_the_secrets_of_another() {
        let (folder, secrets) = in_memory();
        let sixteen: Vec<_> = (0..16_u8)
            .map(|number| (secret(&format!("s{number}")), vec![number; MAX_VALUE_BYTES]))
            .collect();
        let shop = |number: usize| label(&format!("shop{number}"));
        let mut fitted = 0;
        let refused = loop {
            assert!(fitted < 16, "no bound");
            match secrets.put(&shop(fitted), "shop", &sixteen) {
                Ok(()) => fitted += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), strata_types::ErrorKind::Exhausted);
        assert!(refused.message().contains("project shop"), "{refused}");
        // Each with room for newer values beside those of its start.
        assert_eq!(fitted, 4);
        let rival = label("rival");
        secrets.put(&rival, "rival", &sixteen).unwrap();
        // The same again is no more, and a restart of the daemon forgets nothing.
        secrets.put(&shop(0), "shop", &sixteen).unwrap();
        let held = secrets.lock().clone();
        let mut secrets = PodSecrets::open(folder.path().to_owned()).unwrap();
        secrets.room = 16 << 20;
        let restarted = secrets.lock().clone();
        assert_eq!(restarted.len(), held.len());
        assert_eq!(restarted[&rival].project, "rival");
        assert!(restarted[&rival].bytes >= held[&rival].bytes);
        secrets.put(&shop(99), "shop", &sixteen).unwrap_err();
        secrets.remove(&shop(0));
        secrets.remove(&shop(1));
        secrets.put(&shop(99), "shop", &sixteen).unwrap();
    }

    #[test]
    fn secrets_of_one_pod_are_bounded() {
        let (folder, secrets) = in_memory();
        let mut values: Vec<_> = (0..17_u8)
            .map(|number| (secret(&format!("s{number}")), vec![number; MAX_VALUE_BYTES]))
            .collect();
        let refused = secrets.put(&label("pod"), "shop", &values).unwrap_err();
        assert_eq!(refused.field(), Some("secrets"));
        assert!(!folder.path().join("pod").exists());
        values.pop();
        secrets.put(&label("pod"), "shop", &values).unwrap();
    }

    #[test]
    fn no_secret_is_named_as_the_directory_of_those_that_were_taken() {
        assert!(PodSecret::parse("secrets", RUN).is_err());
        assert!(PodSecret::parse("secrets", PROJECT).is_err());
        assert_eq!(secret("db").name.as_str(), "db");
    }
}
