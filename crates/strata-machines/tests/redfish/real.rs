//! Against the emulator with a real machine: QEMU, driven by libvirt, boots
//! the medium that the driver serves.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use strata_bootimage::{Loaders, Medium, Part};
use strata_machines::redfish::Redfish;
use strata_machines::{Boot, Provider as _, ProviderError, Target};
use strata_testkit::guest::{Guest, kernel, small_initramfs};
use strata_testkit::{skip, wait_for};
use strata_types::machine::PowerState;

use super::archive::archive;
use super::emulator::{self, Emulator};
use super::{boot, config, optional, target};

const WITH_LIBVIRT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/redfish/libvirt.sh");
const BOOT: Duration = Duration::from_secs(180);
/// Stays up: it is the BMC that is to switch it off.
const SCRIPT: &str = "echo \"up with $(cat /token)\"; while true; do sleep 600; done";

fn lacks() -> Option<&'static str> {
    let found = |path: &str| Path::new(path).exists();
    if !found("/usr/sbin/libvirtd") || !found("/usr/bin/virsh") {
        return Some("no libvirt: install libvirt-daemon-system and libvirt-clients");
    }
    if !found("/usr/lib/python3/dist-packages/libvirt.py") {
        return Some("Python has no libvirt: install python3-libvirt");
    }
    Loaders::debian()
        .bios
        .is_none()
        .then_some("no isolinux: install isolinux and syslinux-common")
}

/// A PC with a disk, and what it prints in a file.
fn machine_xml(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "<domain type='qemu'><name>m1</name><memory unit='MiB'>512</memory><vcpu>1</vcpu>
        <os><type arch='x86_64' machine='pc'>hvm</type><boot dev='hd'/></os>
        <features><acpi/></features>
        <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
        <disk type='file' device='disk'><driver name='qemu' type='raw'/>
        <source file='{directory}/disk'/><target dev='hda' bus='ide'/></disk>
        <serial type='file'><source path='{directory}/console'/></serial>
        <memballoon model='none'/></devices></domain>"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redfish_server_boots_served_media_and_is_wiped() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    if let Some(why) = lacks() {
        return skip(why);
    }
    let Some(program) = emulator::program() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let world = directory.path().to_owned();
    File::create(world.join("disk"))
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    fs::write(world.join("machine.xml"), machine_xml(&world)).unwrap();
    let initramfs = world.join("initramfs");
    small_initramfs(&initramfs, SCRIPT).unwrap();
    let run = |world: &Path| {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            // Killed with its parent: the first process of the namespace, and
            // with it all others.
            .args([
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
            ])
            .args(["sh", WITH_LIBVIRT])
            .arg(program)
            .env("WORLD", world);
        command
    };
    let emulator = Emulator::start(directory, "", run).await;
    let medium = move |_: &Target, boot: &Boot| -> Result<Medium, ProviderError> {
        Ok(Medium {
            kernel: kernel(),
            initrd: vec![
                Part::File(initramfs.clone()),
                Part::Bytes(archive("token", boot.join_token.expose()).into()),
            ],
            command_line: "console=ttyS0 quiet panic=-1 no_timer_check".into(),
            loaders: Loaders::debian(),
        })
    };
    let driver = Redfish::new(optional(config(&emulator.url)), Arc::new(medium));
    let machine = target(&emulator.url, "");
    assert_eq!(driver.power_state(&machine).await, Ok(PowerState::Off));

    driver.boot(&machine, &boot()).await.unwrap();
    driver.wait(&machine).await.unwrap();
    let console = || fs::read_to_string(world.join("console")).unwrap_or_default();
    wait_for("the server's word", BOOT, async || {
        let console = console();
        let is_up = console.contains("up with token-of-this-boot");
        is_up.then_some(()).ok_or(console)
    })
    .await;

    driver.wipe(&machine).await.unwrap();
    assert_eq!(driver.power_state(&machine).await, Ok(PowerState::Off));
    let left = fs::read_to_string(world.join("libvirt/etc/qemu/m1.xml")).unwrap();
    assert!(!left.contains("cdrom"), "the medium is still in: {left}");
    assert!(
        left.contains("<boot order='1'/>"),
        "its own disk is next: {left}"
    );
}
