//! What every test owns: a directory with roots and layers in it. At its end
//! nothing of it may be mounted anywhere or attached to a loop device.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, UnmountFlags, mount_change, move_mount, unmount,
};
use rustix::thread::UnshareFlags;
use strata_rootfs::Roots;

pub(crate) struct World {
    home: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        // Not in /tmp, which may be a file system in memory.
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        // Processes in user namespaces come through here.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(home.path().join("inside")).unwrap();
        Self { home }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::open(&self.path("roots")).unwrap()
    }

    /// A layer with these files in it; a name that ends in `/` is a directory.
    pub(crate) fn layer(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let layer = self.path("layers").join(name);
        fs::create_dir_all(&layer).unwrap();
        for (path, text) in files {
            let path = layer.join(path);
            if path.to_str().unwrap().ends_with('/') {
                fs::create_dir_all(path).unwrap();
            } else {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        layer
    }

    /// Runs this in a mount namespace of its own, with the mount put on a
    /// directory whose path it is given.
    pub(crate) fn inside<T: Send>(
        &self,
        mount: OwnedFd,
        look: impl FnOnce(&Path) -> T + Send,
    ) -> T {
        let place = self.path("inside");
        privately(|| {
            attach(&mount, &place);
            // As an init does: the mount is its namespace's alone.
            drop(mount);
            let seen = look(&place);
            unmount(&place, UnmountFlags::DETACH).unwrap();
            seen
        })
    }

    /// Loop devices and mounts that belong to this world.
    pub(crate) fn traces(&self) -> Vec<String> {
        let home = self.home.path().to_str().unwrap();
        let mut found = Vec::new();
        for table in ["/proc/self/mountinfo", "/proc/1/mountinfo"] {
            let table = fs::read_to_string(table).unwrap();
            found.extend(
                table
                    .lines()
                    .filter(|line| line.contains(home))
                    .map(String::from),
            );
        }
        for device in fs::read_dir("/sys/block").unwrap() {
            let file = device.unwrap().path().join("loop/backing_file");
            if let Ok(backing) = fs::read_to_string(&file)
                && backing.contains(home)
            {
                found.push(format!("{} {backing}", file.display()));
            }
        }
        found
    }

    /// Mounts go a moment after their last user.
    pub(crate) fn is_clean(&self) {
        wait_until("no mount and no loop device is left", || {
            let traces = self.traces();
            if traces.is_empty() {
                Ok(())
            } else {
                Err(traces.join("\n"))
            }
        });
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.is_clean();
        }
    }
}

/// Runs this on a thread with a mount namespace of its own, which ends with it.
pub(crate) fn privately<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let result = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                // Safe with these flags: the table of open files stays shared.
                #[allow(deprecated)]
                rustix::thread::unshare(UnshareFlags::NEWNS | UnshareFlags::FS).unwrap();
                let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
                mount_change("/", private).unwrap();
                work()
            })
            .join()
    });
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub(crate) fn attach(mount: &OwnedFd, place: &Path) {
    move_mount(
        mount,
        "",
        CWD,
        place,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .unwrap();
}

pub(crate) fn whiteout(path: &Path) {
    mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
}

pub(crate) fn opaque(path: &Path) {
    setxattr(path, "trusted.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Everything a tree is made of, as text: two equal ones are the same tree.
pub(crate) fn picture(dir: &Path) -> String {
    run(
        "sh",
        &[
            "-c",
            &format!(
                "cd '{}' && find . -printf '%p %y %m %U %G %s %T@ %C@ %l\\n' | sort && find . -type f -exec sha256sum {{}} + | sort",
                dir.display()
            ),
        ],
    )
}

/// A file system in a file, mounted in the namespace of this thread only.
pub(crate) fn mounted(world: &World, make: &[&str], options: &str) -> Result<PathBuf, String> {
    let (file, place) = (world.path("disk"), world.path("disk-mounted"));
    fs::File::create(&file).unwrap().set_len(512 << 20).unwrap();
    let (file, target) = (file.to_str().unwrap(), place.to_str().unwrap());
    run(make[0], &[&make[1..], &[file]].concat());
    fs::create_dir(&place).unwrap();
    let output = Command::new("mount")
        .args(["-o", options, file, target])
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(place)
}

/// Runs a program that must succeed; gives what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn wait_until(what: &str, mut check: impl FnMut() -> Result<(), String>) {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match check() {
            Ok(()) => return,
            Err(state) if Instant::now() > until => panic!("not so after 10 s: {what}\n{state}"),
            Err(_) => std::thread::yield_now(),
        }
    }
}
