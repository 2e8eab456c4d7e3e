//! The large archive, the same for all machines: built when it is first
//! needed, and again when something in it has changed.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::{NamedTempFile, TempPath};

use super::{Archive, ImageError, JoinFile, KernelDirectory, MODULES, add_busybox};

/// How long `strip` may take with a large binary.
const STRIP_TIMEOUT: Duration = Duration::from_secs(30);
/// Directories that every program expects, or that something is in.
const DIRECTORIES: [&str; 13] = [
    "dev",
    "proc",
    "sys",
    "run",
    "tmp",
    "root",
    "bin",
    "var",
    "var/lib",
    "etc",
    "etc/strata",
    "lib",
    "lib/modules",
];
/// Commands that Debian's busybox does not have: the program answers to these
/// names too.
const LACKING: [&str; 1] = ["flock"];
/// The users of a machine: programs look for root at least.
const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";
/// Without it `nft` would print numbers where others expect names.
const PROTOCOLS: &str = "icmp 1\ntcp 6\nudp 17\nipv6-icmp 58\nsctp 132\n";
const PREFIX: &str = "base-";
/// What is being written is called so, and is left over when it is that old.
const NEW: &str = "new-";
const STALE_AFTER: Duration = Duration::from_secs(600);

/// What goes into the archive.
#[derive(Clone, Debug)]
pub struct Base {
    /// The `strata` binary, static.
    pub program: PathBuf,
    pub kernel: KernelDirectory,
    /// For a shell, and for people who look around.
    pub busybox: Option<PathBuf>,
}

impl Base {
    /// The archive in `directory`, made if it is not there.
    pub async fn ensure(self, directory: &Path) -> Result<PathBuf, ImageError> {
        let path = directory.join(format!("{PREFIX}{:016x}.cpio", self.fingerprint()?));
        if path.is_file() {
            return Ok(path);
        }
        let stripped = stripped(&self.program, directory).await;
        let (to, directory) = (path.clone(), directory.to_owned());
        let write = move || {
            let program = stripped.as_deref().unwrap_or(&self.program);
            self.write(program, &directory, &to)
        };
        let written = tokio::task::spawn_blocking(write).await;
        written.unwrap_or_else(|error| {
            let failed = ImageError::file("write", &path);
            Err(failed(io::Error::other(error)))
        })?;
        Ok(path)
    }

    /// Reports whether something has changed. It need not be the same from one
    /// build of ours to the next.
    fn fingerprint(&self) -> Result<u64, ImageError> {
        let mut hasher = DefaultHasher::new();
        let order = self.kernel.modules().join("order");
        for path in [Some(&self.program), Some(&order), self.busybox.as_ref()] {
            let Some(path) = path else { continue };
            let seen = fs::metadata(path).map_err(ImageError::file("read", path))?;
            (seen.len(), seen.mtime(), seen.mtime_nsec()).hash(&mut hasher);
        }
        Ok(hasher.finish())
    }

    fn write(&self, program: &Path, directory: &Path, to: &Path) -> Result<(), ImageError> {
        let order = self.kernel.order()?;
        let failed = || ImageError::file("write", to);
        let file = new_file(directory).map_err(failed())?;
        self.fill(file.as_file(), program, &order)
            .map_err(failed())?;
        for old in old(directory).filter(|path| path != to) {
            let _ = fs::remove_file(old);
        }
        file.persist(to).map_err(|error| failed()(error.error))?;
        Ok(())
    }

    fn fill(&self, file: &File, program: &Path, order: &[String]) -> io::Result<()> {
        let mut archive = Archive::new(BufWriter::with_capacity(1 << 20, file));
        for directory in DIRECTORIES {
            archive.directory(directory, 0o755)?;
        }
        archive.file("init", 0o755, &fs::read(program)?)?;
        archive.file("etc/passwd", 0o644, PASSWD.as_bytes())?;
        archive.file("etc/group", 0o644, GROUP.as_bytes())?;
        archive.file("etc/protocols", 0o644, PROTOCOLS.as_bytes())?;
        if let Some(busybox) = &self.busybox {
            add_busybox(&mut archive, busybox)?;
            for name in LACKING {
                archive.link(&format!("bin/{name}"), "../init")?;
            }
        }
        let mut paths = String::new();
        for name in order {
            let bytes = fs::read(self.kernel.modules().join(name))?;
            archive.file(&format!("lib/modules/{name}"), 0o644, &bytes)?;
            paths += &format!("/lib/modules/{name}\n");
        }
        let modules = MODULES.trim_start_matches('/');
        archive.file(modules, 0o644, paths.as_bytes())?;
        archive.finish().map(drop)
    }

    /// What a machine boots: this archive, and the configuration of this boot.
    pub fn compose(base: &Path, join: &JoinFile, to: &Path) -> Result<(), ImageError> {
        let failed = || ImageError::file("write", to);
        let directory = to.parent().unwrap_or(Path::new("/"));
        let mut from = File::open(base).map_err(ImageError::file("read", base))?;
        let mut file = new_file(directory).map_err(failed())?;
        // Shares the bytes where the file system can.
        io::copy(&mut from, file.as_file_mut()).map_err(failed())?;
        let reported = join.archive().map_err(failed())?;
        file.write_all(&reported).map_err(failed())?;
        file.persist(to).map_err(|error| failed()(error.error))?;
        Ok(())
    }
}

/// A file that becomes what it is to be when it is whole.
pub(crate) fn new_file(directory: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(NEW).tempfile_in(directory)
}

/// Archives, and what a killed process did not finish.
fn old(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_old = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let written = entry.metadata().and_then(|seen| seen.modified());
        let age = written.ok().and_then(|at| at.elapsed().ok());
        name.starts_with(PREFIX)
            || name.starts_with(NEW) && age.is_some_and(|age| age > STALE_AFTER)
    };
    entries.filter(is_old).map(|entry| entry.path())
}

/// Debug information is removed, for a machine has it all in memory; where the
/// tool for that is missing, it stays.
async fn stripped(program: &Path, directory: &Path) -> Option<TempPath> {
    let to = new_file(directory).ok()?.into_temp_path();
    let stripping = tokio::process::Command::new("strip")
        .arg("-o")
        .arg(&to)
        .arg(program)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status();
    let ended = tokio::time::timeout(STRIP_TIMEOUT, stripping).await;
    matches!(ended, Ok(Ok(status)) if status.success()).then_some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: &str) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    #[tokio::test]
    async fn base_image_is_rebuilt_when_its_inputs_change() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        write(at("kernel/vmlinuz"), "");
        write(at("kernel/modules/order"), "a.ko\n");
        write(at("kernel/modules/a.ko"), "a module");
        let program = write(at("program"), "a program");
        let base = Base {
            program: program.clone(),
            kernel: KernelDirectory::find(Some(&at("kernel"))).unwrap(),
            busybox: None,
        };
        fs::create_dir(at("images")).unwrap();
        let first = base.clone().ensure(&at("images")).await.unwrap();
        let again = base.clone().ensure(&at("images")).await.unwrap();
        assert_eq!(first, again);
        let text = String::from_utf8_lossy(&fs::read(&first).unwrap()).into_owned();
        assert!(text.contains("a program") && text.contains("/lib/modules/a.ko"));
        write(program, "another program");
        let other = base.ensure(&at("images")).await.unwrap();
        assert_ne!(first, other);
        assert!(!first.exists(), "what nobody needs is gone");

        let join = JoinFile {
            server: "https://a:1".into(),
            token: "secret".into(),
            name: "m1".into(),
            labels: Default::default(),
            images: super::super::NodeImages::default(),
        };
        Base::compose(&other, &join, &at("initrd")).unwrap();
        let whole = fs::read(at("initrd")).unwrap();
        assert!(whole.starts_with(&fs::read(&other).unwrap()));
        let mode = fs::metadata(at("initrd")).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert!(!format!("{join:?}").contains("secret"));
    }
}
