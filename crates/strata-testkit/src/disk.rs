//! A small disk of one's own: a file system in a file, mounted for as long as
//! a test needs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::wait::{TEST_TIMEOUT, wait_for_blocking};

/// A mounted file system of few bytes.
#[derive(Debug)]
pub struct SmallDisk {
    dir: TempDir,
}

impl SmallDisk {
    /// An ext4 of so many bytes.
    ///
    /// # Panics
    /// When this machine cannot make or mount it.
    pub fn new(bytes: u64) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("strata-disk-")
            .tempdir()
            .expect("a directory can be made");
        let disk = Self { dir };
        let file = disk.dir.path().join("file");
        let made = std::fs::File::create(&file).and_then(|file| file.set_len(bytes));
        made.expect("a file can be made");
        std::fs::create_dir(disk.path()).expect("a directory can be made");
        let (file, mounted) = (file.to_string_lossy(), disk.path());
        run(
            "mkfs.ext4",
            &["-q", "-F", "-m", "0", "-O", "^has_journal", &file],
        );
        run("mount", &["-o", "loop", &file, &mounted.to_string_lossy()]);
        disk
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    /// Fills it but for so many bytes; what fills it goes with the file.
    ///
    /// # Panics
    /// When it cannot be filled.
    pub fn fill_but(&self, bytes: u64) -> PathBuf {
        let file = self.path().join("filling");
        let room = || {
            let stat = rustix::fs::statvfs(self.path()).expect("it can be asked");
            stat.f_bavail * stat.f_frsize
        };
        std::fs::File::create(&file).expect("a file can be made");
        while room() > bytes {
            let most = (room() - bytes).min(1 << 20) as usize;
            append(&file, most.max(4096));
        }
        file
    }
}

fn append(file: &Path, bytes: usize) {
    use std::io::Write as _;
    let mut file = std::fs::File::options()
        .append(true)
        .open(file)
        .expect("the file can be opened");
    file.write_all(&vec![1; bytes]).expect("there is room");
    file.sync_all().expect("there is room");
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    assert!(output.status.success(), "{program}: {output:?}");
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmount = || {
            let output = Command::new("umount").arg(self.path()).output();
            let output = output.map_err(|error| error.to_string())?;
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            output.status.success().then_some(()).ok_or(told)
        };
        if std::thread::panicking() {
            let _ = unmount();
            return;
        }
        // The kernel takes a moment to release what pods had mounted.
        wait_for_blocking("the small disk to be free", TEST_TIMEOUT, unmount);
    }
}
