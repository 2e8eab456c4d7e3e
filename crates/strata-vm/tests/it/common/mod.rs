//! Real guests for tests: busybox on the kernel of `scripts/guest-kernel`.
#![allow(dead_code, unreachable_pub, clippy::print_stderr)]

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use strata_testkit::skip;
use strata_vm::{
    Accel, Boot, Host, Inherited, Launch, OnReboot, ProgramFiles, Qmp, VmDir, VmSpec, command,
    probe,
};
use tempfile::TempDir;

/// How long a boot may take on a busy machine without KVM.
pub const BOOT: Duration = Duration::from_secs(120);
const BUSYBOX: &str = "/bin/busybox";
/// What every script begins with.
const INIT: &str = "#!/bin/busybox sh\nb=/bin/busybox\n$b mount -t proc proc /proc\n\
    $b mount -t sysfs sys /sys\n$b mount -t devtmpfs dev /dev\n";

/// What this host has to run guests; none if it lacks something.
pub fn world() -> Option<Host> {
    let kernel = kernel_dir().join("vmlinuz");
    for (file, help) in [
        (kernel, "scripts/guest-kernel"),
        (BUSYBOX.into(), "busybox-static"),
    ] {
        if !file.exists() {
            skip(format!("no {}: see {help}", file.display()));
            return None;
        }
    }
    match probe(&std::env::var_os("PATH").unwrap_or_default()) {
        Ok(host) => Some(host),
        Err(error @ strata_vm::ProbeError::NoProgram { .. }) => {
            skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Where `scripts/guest-kernel` puts the kernel.
pub fn kernel_dir() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/strata");
    let cache = std::env::var_os("STRATA_CACHE").map_or_else(home, PathBuf::from);
    cache.join("guest")
}

/// Whether the kernel's modules have this one; prints a message when not.
pub fn has_module(name: &str) -> bool {
    let file = kernel_dir().join("modules").join(format!("{name}.ko"));
    if !file.exists() {
        skip(format!("no {}: see scripts/guest-kernel", file.display()));
    }
    file.exists()
}

/// Code of 16 bits that writes a text to the serial port.
pub fn say(text: &str) -> Vec<u8> {
    let mut code = vec![0xba, 0xf8, 0x03]; // mov dx, 0x3f8
    for letter in text.bytes() {
        code.extend([0xb0, letter, 0xee]); // mov al, letter; out dx, al
    }
    code
}

/// A disk of 1 MiB that the firmware boots: it runs the code, then halts.
pub fn boot_sector(code: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    bytes[..code.len()].copy_from_slice(code);
    bytes[code.len()..code.len() + 2].copy_from_slice(&[0xfa, 0xf4]); // cli; hlt
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    bytes
}

/// A place for guests, with an initramfs whose init runs `script`.
pub struct GuestDir {
    pub dir: TempDir,
    pub vm: VmDir,
}

impl GuestDir {
    pub fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let jail = dir.path().join("jail");
        fs::write(&jail, strata_cell::JAIL).unwrap();
        fs::set_permissions(&jail, fs::Permissions::from_mode(0o755)).unwrap();
        let archive = initramfs(&format!("{INIT}{script}"));
        fs::write(dir.path().join("initramfs"), archive).unwrap();
        let vm = VmDir::new(dir.path()).unwrap();
        Self { dir, vm }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A guest that boots the initramfs.
    pub fn spec(&self) -> VmSpec {
        VmSpec {
            name: "test".parse().unwrap(),
            machine: strata_vm::Machine::Auto,
            cpus: 1,
            memory: 256 << 20,
            boot: Boot::Kernel {
                kernel: kernel_dir().join("vmlinuz"),
                initrd: Some(self.path("initramfs")),
                cmdline: "quiet panic=-1".into(),
            },
            disks: Vec::new(),
            network: None,
            accel: Accel::Auto,
            on_reboot: OnReboot::Exit,
        }
    }

    pub fn start(&self, spec: &VmSpec, host: &Host) -> Guest<'_> {
        self.start_by(&[], &command(spec, host).unwrap())
    }

    /// What QEMU inherits.
    fn open(&self, what: &Inherited) -> OwnedFd {
        let listen = |path: PathBuf| {
            let _ = fs::remove_file(&path);
            OwnedFd::from(UnixListener::bind(path).unwrap())
        };
        match what {
            Inherited::Qmp => listen(self.vm.qmp()),
            Inherited::Console => listen(self.vm.console()),
            Inherited::Tap => panic!("no test here hands a tap over"),
            Inherited::File { path, read_only } => {
                let mut options = OpenOptions::new();
                options.read(true).write(!read_only);
                options.open(path).unwrap().into()
            }
        }
    }

    /// Starts a guest through a program that executes the rest of its words,
    /// and through the jail, as a node does.
    pub fn start_by(&self, through: &[&str], launch: &Launch) -> Guest<'_> {
        let files: Vec<OwnedFd> = launch.inherits.iter().map(|what| self.open(what)).collect();
        let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
        let stdin = strata_cell::hand_over(&files).unwrap();
        let qemu = Path::new(&launch.command.words()[0]);
        let programs = ProgramFiles::find(qemu).unwrap().programs;
        let programs: Vec<&str> = programs.iter().filter_map(|path| path.to_str()).collect();
        let jail = self.path("jail").to_string_lossy().into_owned();
        let words = strata_cell::jailed(&jail, &programs, launch.command.words());
        // Dies with the thread of the test, should that not get to ending it.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .args(through)
            .args(words)
            .stdin(stdin)
            .stdout(File::create(self.path("console.log")).unwrap())
            .stderr(File::create(self.path("qemu.log")).unwrap())
            .spawn()
            .unwrap();
        Guest {
            place: self,
            process,
        }
    }
}

/// A guest that runs. Dropping it pulls the plug.
pub struct Guest<'a> {
    place: &'a GuestDir,
    process: Child,
}

impl Guest<'_> {
    pub async fn qmp(&self) -> Qmp {
        Qmp::connect(&self.place.vm.qmp(), BOOT).await.unwrap()
    }

    /// All that the log of the console has.
    pub fn console(&self) -> String {
        let bytes = fs::read(self.place.path("console.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "")
    }

    /// Waits for a line on the console.
    pub async fn wait_line(&mut self, wanted: &str) {
        wait_for(BOOT, || {
            let is_there = self.console().lines().any(|line| line == wanted);
            let status = self.process.try_wait().unwrap();
            assert!(
                is_there || status.is_none(),
                "QEMU ended ({status:?}) without {wanted:?}"
            );
            is_there.then_some(())
        })
        .await;
    }

    /// Waits for QEMU to end.
    pub async fn wait_end(&mut self) -> ExitStatus {
        wait_for(BOOT, || self.process.try_wait().unwrap()).await
    }

    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let errors = fs::read_to_string(self.place.path("qemu.log"));
            eprintln!("--- the console\n{}", self.console());
            eprintln!("--- QEMU\n{}", errors.unwrap_or_default());
        }
    }
}

/// Waits for a condition.
pub async fn wait_for<T>(within: Duration, mut check: impl FnMut() -> Option<T>) -> T {
    let asked = async || check().ok_or_else(|| "not yet".to_owned());
    strata_testkit::wait_for("a condition", within, asked).await
}

/// An archive with busybox, the script as init, and the kernel's modules.
fn initramfs(script: &str) -> Vec<u8> {
    let mut archive = Vec::new();
    for dir in ["bin", "dev", "proc", "sys", "modules"] {
        entry(&mut archive, dir, 0o040_755, &[]);
    }
    entry(&mut archive, "init", 0o100_755, script.as_bytes());
    let busybox = fs::read(BUSYBOX).unwrap();
    entry(&mut archive, "bin/busybox", 0o100_755, &busybox);
    for file in fs::read_dir(kernel_dir().join("modules")).unwrap() {
        let file = file.unwrap();
        let name = format!("modules/{}", file.file_name().to_string_lossy());
        entry(
            &mut archive,
            &name,
            0o100_644,
            &fs::read(file.path()).unwrap(),
        );
    }
    entry(&mut archive, "TRAILER!!!", 0, &[]);
    archive
}

/// One entry of a cpio archive of the kind "newc".
fn entry(archive: &mut Vec<u8>, name: &str, mode: u32, bytes: &[u8]) {
    let inode = archive.len() as u32;
    let (size, name_size) = (bytes.len() as u32, name.len() as u32 + 1);
    archive.extend(b"070701");
    for field in [inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0] {
        archive.extend(format!("{field:08x}").as_bytes());
    }
    archive.extend(name.as_bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend(bytes);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// Whether two files have the same bytes.
pub fn same(one: &Path, other: &[u8]) -> bool {
    fs::read(one).unwrap() == other
}
