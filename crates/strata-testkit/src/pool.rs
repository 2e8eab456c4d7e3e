//! A storage pool of one's own: a btrfs in a file, mounted for as long as a
//! test needs it, with volumes as nodes expect them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::wait::{TEST_TIMEOUT, wait_for_blocking};

/// The least that a btrfs with one kind of block needs, and some room.
const BYTES: u64 = 256 << 20;

/// A pool, mounted or not.
#[derive(Debug)]
pub struct TestPool {
    dir: TempDir,
}

impl TestPool {
    /// A pool that is mounted.
    ///
    /// # Panics
    /// When this machine cannot make or mount it.
    pub fn new() -> Self {
        let pool = Self::unmounted();
        pool.mount();
        pool
    }

    /// A pool that is not mounted yet.
    ///
    /// # Panics
    /// When this machine cannot make it.
    pub fn unmounted() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("strata-pool-")
            .tempdir()
            .expect("a directory can be made");
        let pool = Self { dir };
        let made = fs::File::create(pool.file()).and_then(|file| file.set_len(BYTES));
        made.expect("a file can be made");
        fs::create_dir(pool.path()).expect("a directory can be made");
        run("mkfs.btrfs", &["-q".as_ref(), pool.file().as_ref()]);
        pool
    }

    /// Mounts it; the first time it gets its id.
    ///
    /// # Panics
    /// When this machine cannot mount it.
    pub fn mount(&self) {
        let (file, path) = (self.file(), self.path());
        let words: [&Path; 4] = ["-o".as_ref(), "loop".as_ref(), &file, &path];
        run("mount", &words);
        fs::create_dir_all(path.join("volumes")).expect("a directory can be made");
        fs::write(path.join("pool-id"), format!("{}\n", self.id())).expect("there is room");
    }

    /// Takes it away from where it is mounted; users of parts of it keep them.
    ///
    /// # Panics
    /// When it cannot be taken away.
    pub fn unmount(&self) {
        run("umount", &[&self.path()]);
    }

    /// Its id.
    pub fn id(&self) -> &'static str {
        "0b5e7a1c-pool"
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("mount")
    }

    /// The configuration of a node that sees it.
    pub fn config(&self) -> String {
        format!("[node]\npool = {:?}\n", self.path())
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    /// Makes a volume of files; where its files are.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn volume(&self, name: &str) -> PathBuf {
        let data = self.subvolume(name).join("data");
        fs::create_dir(&data).expect("a directory can be made");
        data
    }

    /// Makes a volume that is a disk; its file.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn disk(&self, name: &str, bytes: u64) -> PathBuf {
        let file = self.subvolume(name).join("disk.raw");
        let made = fs::File::create(&file).and_then(|file| file.set_len(bytes));
        made.expect("a file can be made");
        file
    }

    fn subvolume(&self, name: &str) -> PathBuf {
        let path = self.path().join("volumes").join(name);
        let words: [&Path; 3] = ["subvolume".as_ref(), "create".as_ref(), &path];
        run("btrfs", &words);
        path
    }
}

impl Default for TestPool {
    fn default() -> Self {
        Self::new()
    }
}

fn run(program: &str, arguments: &[&Path]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    assert!(output.status.success(), "{program}: {output:?}");
}

impl Drop for TestPool {
    fn drop(&mut self) {
        let unmount = || {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
            if !mounts.contains(&*self.path().to_string_lossy()) {
                return Ok(());
            }
            let output = Command::new("umount").arg(self.path()).output();
            let output = output.map_err(|error| error.to_string())?;
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            output.status.success().then_some(()).ok_or(told)
        };
        if std::thread::panicking() {
            let _ = unmount();
            return;
        }
        wait_for_blocking("the pool to be free", TEST_TIMEOUT, unmount);
    }
}
