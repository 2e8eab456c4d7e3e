//! The medium boots, for real: in QEMU without KVM, by a BIOS and by UEFI.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod archive;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use archive::archive;
use strata_bootimage::{IsoError, Loaders, Medium, Part};
use strata_testkit::guest::{Guest, kernel, small_initramfs};
use strata_testkit::{skip, wait_for_blocking};

/// How long a boot may take without KVM; UEFI reads a CD by small steps.
const BOOT: Duration = Duration::from_secs(240);
const FIRMWARE: &str = "/usr/share/ovmf/OVMF.fd";
/// Reports what it was booted with, and switches off.
const SCRIPT: &str = "echo \"up: $(cat /second) by $(cat /proc/cmdline)\"; poweroff -f; sleep 600";

/// A QEMU, whose plug is pulled with it.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn medium(directory: &Path, loaders: Loaders) -> Medium {
    let initramfs = directory.join("initramfs");
    small_initramfs(&initramfs, SCRIPT).unwrap();
    Medium {
        kernel: kernel(),
        initrd: vec![
            Part::File(initramfs),
            Part::Bytes(archive("second", "two archives").into()),
        ],
        command_line: "console=ttyS0 quiet panic=-1 no_timer_check strata.test=yes".into(),
        loaders,
    }
}

fn boots(loaders: Loaders, firmware: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let (image, console) = (
        directory.path().join("a.iso"),
        directory.path().join("console"),
    );
    let medium = medium(directory.path(), loaders);
    let written = medium.write(&mut File::create(&image).unwrap()).unwrap();
    assert_eq!(fs::metadata(&image).unwrap().len(), written);
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
        .args(["-M", "q35", "-accel", "tcg", "-cpu", "max", "-m", "512"])
        .args([
            "-nodefaults",
            "-no-reboot",
            "-display",
            "none",
            "-net",
            "none",
        ])
        .args(firmware)
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .arg("-cdrom")
        .arg(&image)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut machine = Machine(command.spawn().unwrap());
    let shown = || String::from_utf8_lossy(&fs::read(&console).unwrap_or_default()).into_owned();
    let line = wait_for_blocking("the guest's word", BOOT, || {
        let console = shown();
        // A line is whole with its end.
        let mut lines = console.split_inclusive('\n');
        let line = lines.find(|line| line.starts_with("up: ") && line.ends_with('\n'));
        if let Some(line) = line {
            return Ok(line.to_owned());
        }
        assert!(
            machine.0.try_wait().unwrap().is_none(),
            "it is off: {console}"
        );
        Err(console)
    });
    assert!(line.contains("two archives"), "{line}");
    assert!(line.contains("strata.test=yes"), "{line}");
}

#[test]
fn boot_medium_boots_with_bios() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let loaders = Loaders::debian();
    if loaders.bios.is_none() {
        return skip("no isolinux: install isolinux and syslinux-common");
    }
    // With what is there for UEFI on it too: one must not disturb the other.
    boots(loaders.clone(), &[]);
    let uefi = None;
    boots(Loaders { uefi, ..loaders }, &[]);
}

#[test]
fn boot_medium_boots_with_uefi() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let loaders = Loaders::debian();
    if loaders.uefi.is_none() || !Path::new(FIRMWARE).exists() {
        return skip("no boot menu or no firmware: install systemd-boot-efi and ovmf");
    }
    boots(loaders.clone(), &["-bios", FIRMWARE]);
    let bios = None;
    boots(Loaders { bios, ..loaders }, &["-bios", FIRMWARE]);
}

#[test]
fn multi_line_kernel_command_line_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let loaders = Loaders {
        bios: Some(("/dev/null".into(), "/dev/null".into())),
        uefi: None,
    };
    let mut medium = Medium {
        kernel: "/dev/null".into(),
        initrd: Vec::new(),
        command_line: "a\nLABEL other".into(),
        loaders,
    };
    let mut to = Vec::new();
    assert!(matches!(medium.write(&mut to), Err(IsoError::CommandLine)));
    medium.command_line = "x".repeat(3000);
    assert!(matches!(medium.write(&mut to), Err(IsoError::CommandLine)));
    medium.command_line = "a".into();
    medium.kernel = directory.path().join("nowhere");
    assert!(matches!(
        medium.write(&mut to),
        Err(IsoError::Unreadable { .. })
    ));
}
