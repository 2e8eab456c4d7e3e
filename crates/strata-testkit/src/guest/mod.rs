//! A machine of its own in QEMU, in which `strata` is PID 1 and cgroups are
//! v2. One boot takes seconds, so a test does all it can in one machine.
//!
//! The kernel is the one that `scripts/guest-kernel` fetches; what is known
//! of it, and why the command line is as it is, stands at the top of that
//! script.

mod image;
mod programs;
mod small;

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use strata_api::strata::v1::GetNodeInfoRequest;
use strata_client::{NodeClient, Target};
use strata_identity::{Ca, CertificateSpec};
use strata_types::Role;
use tempfile::TempDir;

pub use image::Image;
pub use programs::programs_archive;
pub use small::{kernel, small_initramfs};

use crate::{Node, wait_for};

const QEMU: &str = "qemu-system-x86_64";
/// How long a boot may take on a busy machine without KVM.
const BOOT: Duration = Duration::from_secs(120);
/// How many megabytes of memory it has.
const MEMORY: u32 = 768;
/// How large the machine's disk is.
const DISK: u64 = 256 << 20;
/// How much of the console is shown when something fails.
const TAIL: usize = 60;

/// A machine that runs. Dropping it pulls the plug.
pub struct Guest {
    process: Child,
    port: u16,
    authority: Ca,
    dir: TempDir,
    switched_on: Instant,
}

impl Guest {
    /// What this host lacks to run a machine; none when all is there.
    pub fn lacks() -> Option<String> {
        let kernel = kernel_dir().join("vmlinuz");
        if !kernel.exists() {
            return Some(format!("no {}: run scripts/guest-kernel", kernel.display()));
        }
        if strata_machines::image::busybox().is_none() {
            return Some("no busybox: install busybox-static".into());
        }
        let found = Command::new(QEMU).arg("--version").output();
        found
            .err()
            .map(|error| format!("{QEMU}: {error}: install qemu-system-x86"))
    }

    /// Builds the machine's image and switches it on.
    pub fn boot(image: &Image) -> io::Result<Self> {
        Self::boot_with(image, MEMORY)
    }

    /// The same with so many megabytes of memory, in which all its files are.
    pub fn boot_with(image: &Image, megabytes: u32) -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        let (ca, initramfs) = (dir.path().join("ca"), dir.path().join("initramfs"));
        let authority = Ca::open(&ca).map_err(io::Error::other)?;
        let kernel = kernel_dir();
        image.write(&initramfs, &kernel, &ca, dir.path())?;
        ext4(&dir.path().join("disk"), DISK)?;
        // No other process is given the number again so soon.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let switched_on = Instant::now();
        let process = command(&kernel, &initramfs, dir.path(), (port, megabytes))
            .stdin(Stdio::null())
            .stdout(File::create(dir.path().join("qemu.out"))?)
            .stderr(File::create(dir.path().join("qemu.err"))?)
            .spawn()?;
        Ok(Self {
            process,
            port,
            authority,
            dir,
            switched_on,
        })
    }

    /// Connects as `role` once the node answers; also returns how long after it
    /// was switched on that was.
    ///
    /// # Panics
    /// When it does not answer in time.
    pub async fn connect(&mut self, role: Role) -> (Node, Duration) {
        self.wait_console("ready ", BOOT).await;
        let target = self.target(role);
        let answers = wait_for("the node to answer", BOOT, async || {
            // What QEMU accepts before the node listens may hang forever.
            let answer = tokio::time::timeout(Duration::from_secs(5), ask(&target)).await;
            answer.map_err(|error| error.to_string())?
        });
        (Node::new(answers.await), self.switched_on.elapsed())
    }

    /// The node's port, and a certificate of its CA.
    ///
    /// # Panics
    /// When the CA does not issue one.
    pub fn target(&self, role: Role) -> Target {
        let name = format!("test-{role}").parse().expect("a name");
        let spec = CertificateSpec::caller(name, role);
        let address = format!("https://127.0.0.1:{}", self.port);
        Target::Tls {
            address: address.parse().expect("an address"),
            credentials: self.authority.issue(&spec).expect("a certificate"),
        }
    }

    /// What is on the machine's disk, an ext4 on `/dev/nvme0n1` inside.
    pub fn disk(&self) -> io::Result<Vec<u8>> {
        fs::read(self.dir.path().join("disk"))
    }

    /// All that the machine's console showed so far.
    pub fn console(&self) -> String {
        let bytes = fs::read(self.dir.path().join("console")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "")
    }

    /// Waits for a line on the console that begins with `start`.
    ///
    /// # Panics
    /// When there is none in time, or the machine is off.
    pub async fn wait_console(&mut self, start: &str, within: Duration) {
        wait_for("a line on the console", within, async || {
            let console = self.console();
            if console.lines().any(|line| line.starts_with(start)) {
                return Ok(());
            }
            let is_on = matches!(self.process.try_wait(), Ok(None));
            assert!(
                is_on,
                "the machine is off, without {start:?} on its console"
            );
            Err(format!("no {start:?} yet"))
        })
        .await;
    }

    /// Waits for the machine to switch itself off.
    ///
    /// # Panics
    /// When it does not in time.
    pub async fn wait_off(&mut self, within: Duration) -> ExitStatus {
        wait_for("the machine to switch itself off", within, async || {
            let status = self.process.try_wait().map_err(|error| error.to_string())?;
            status.ok_or_else(|| "it is on".to_owned())
        })
        .await
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            self.show();
        }
    }
}

impl Guest {
    #[allow(clippy::print_stderr)]
    fn show(&self) {
        let console = self.console();
        let lines: Vec<&str> = console.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL)..];
        eprintln!("--- the end of the console\n{}", tail.join("\n"));
        let errors = fs::read_to_string(self.dir.path().join("qemu.err"));
        eprintln!("--- QEMU\n{}", errors.unwrap_or_default());
    }
}

async fn ask(target: &Target) -> Result<NodeClient, String> {
    let client = NodeClient::connect(target)
        .await
        .map_err(|error| error.to_string())?;
    let info = client.node().get_info(GetNodeInfoRequest {}).await;
    info.map(|_| client).map_err(|status| status.to_string())
}

fn command(kernel: &Path, initramfs: &Path, dir: &Path, (port, megabytes): (u16, u32)) -> Command {
    // Dies with the thread that boots it, should that not get to dropping it.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", QEMU])
        .args(["-M", "q35", "-accel", "tcg", "-cpu", "max"])
        .args(["-m", &megabytes.to_string()])
        .args(["-nodefaults", "-no-reboot", "-display", "none"])
        .arg("-serial")
        .arg(format!("file:{}", dir.join("console").display()))
        .arg("-kernel")
        .arg(kernel.join("vmlinuz"))
        .arg("-initrd")
        .arg(initramfs)
        // What stands behind the two dashes goes to the init.
        .args([
            "-append",
            "console=ttyS0 quiet panic=-1 no_timer_check -- --node-listen 0.0.0.0:7710",
        ])
        .arg("-netdev")
        .arg(format!("user,id=n0,hostfwd=tcp:127.0.0.1:{port}-:7710"))
        .args(["-device", "virtio-net-pci,netdev=n0,romfile="])
        // The one kind of disk whose driver this kernel has built in.
        .arg("-drive")
        .arg(format!(
            "file={},if=none,id=d0,format=raw",
            dir.join("disk").display()
        ))
        .args(["-device", "nvme,drive=d0,serial=disk"]);
    command
}

/// A sparse file with an ext4 on it.
fn ext4(file: &Path, bytes: u64) -> io::Result<()> {
    File::create(file)?.set_len(bytes)?;
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-O", "^has_journal"])
        .arg(file)
        .status()?;
    match made.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("mkfs.ext4: {made}"))),
    }
}

/// Where `scripts/guest-kernel` puts the kernel.
fn kernel_dir() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/strata");
    std::env::var_os("STRATA_CACHE")
        .map_or_else(home, PathBuf::from)
        .join("guest")
}
