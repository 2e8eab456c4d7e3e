//! Real guests, from power on to power off, by the command line we make.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::Duration;

use crate::common::{BOOT, Guest, GuestDir, boot_sector, has_module, say, world};
use strata_vm::{
    Boot, Disk, DiskFormat, Event, Kvm, Machine, Network, OnReboot, Qmp, Stopped, Tap, command,
    shut_down,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// Waits for the power button, which the kernel counts once it has a driver
/// for it.
const BUTTON: &str = "\
$b insmod /modules/button.ko
echo ready
while :; do
  read -r pressed rest </sys/firmware/acpi/interrupts/ff_pwr_btn
  [ \"$pressed\" = 0 ] || { echo button; $b poweroff -f; }
  $b usleep 20000
done
";

#[tokio::test]
async fn a_kernel_boots_to_its_console_and_ends_qemu_when_off() {
    let Some(host) = world() else { return };
    let place = GuestDir::new("echo \"hello from $($b nproc) cpus\"\n$b poweroff -f\n");
    let mut guest = place.start(&place.spec(), &host);
    guest.wait_line("hello from 1 cpus").await;
    assert!(guest.wait_end().await.success());
}

#[tokio::test]
async fn a_guest_sees_what_it_was_given() {
    let Some(host) = world() else { return };
    let script = "echo \"cpus $($b nproc)\"\nread -r name kib unit </proc/meminfo\n\
        echo \"memory $((kib / 1024 > 300))\"\n$b cat /proc/cmdline\n$b poweroff -f\n";
    let place = GuestDir::new(script);
    let mut spec = place.spec();
    (spec.cpus, spec.memory) = (2, 384 << 20);
    let mut guest = place.start(&spec, &host);
    guest.wait_line("cpus 2").await;
    guest.wait_line("memory 1").await;
    let timer = match &host.kvm {
        Kvm::Works => "",
        Kvm::Broken(_) => "no_timer_check ",
    };
    let command_line = format!("{timer}console=ttyS0 quiet panic=-1");
    guest.wait_line(&command_line).await;
    assert!(guest.wait_end().await.success());
}

/// Presses the button of a guest that is ready for it, and follows it out.
async fn leaves_by_itself(place: &GuestDir, mut guest: Guest<'_>) {
    let qmp = Qmp::connect(&place.vm.qmp(), BOOT).await.unwrap();
    guest.wait_line("ready").await;
    let mut events = qmp.events();
    let stopped = shut_down(&qmp, BOOT).await.unwrap();
    assert_eq!(stopped, Stopped::ByItself);
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event);
    }
    assert!(seen.contains(&Event::PowerDown), "{seen:?}");
    assert!(
        seen.contains(&Event::Shutdown { by_guest: true }),
        "{seen:?}"
    );
    assert!(guest.wait_end().await.success());
    assert!(guest.console().contains("button"));
}

#[tokio::test]
async fn linux_hears_its_power_button_and_leaves_by_itself() {
    let Some(host) = world() else { return };
    if !has_module("button") {
        return;
    }
    let place = GuestDir::new(BUTTON);
    leaves_by_itself(&place, place.start(&place.spec(), &host)).await;
}

/// The same without a kernel: a boot sector that does what its driver would.
#[tokio::test]
async fn a_guest_without_a_kernel_hears_its_power_button_too() {
    let Some(host) = world() else { return };
    let place = GuestDir::new("");
    let mut code = Vec::new();
    code.extend([0xba, 0x02, 0x06, 0xb8, 0x00, 0x01, 0xef]); // PM1_EN = button
    code.extend(say("\nready\n"));
    code.extend([0xba, 0x00, 0x06, 0xed, 0xf6, 0xc4, 0x01, 0x74, 0xfa]); // until in PM1_STS
    code.extend(say("button\n"));
    code.extend([0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef]); // PM1_CNT = off
    fs::write(place.path("disk.img"), boot_sector(&code)).unwrap();
    let mut spec = place.spec();
    spec.boot = Boot::Disk(Disk::new(place.path("disk.img"), DiskFormat::Raw));
    leaves_by_itself(&place, place.start(&spec, &host)).await;
}

#[tokio::test]
async fn a_guest_deaf_to_its_button_is_ended_when_its_time_is_up() {
    let Some(host) = world() else { return };
    let place = GuestDir::new("echo ready\nwhile :; do $b usleep 1000000; done\n");
    let mut guest = place.start(&place.spec(), &host);
    guest.wait_line("ready").await;
    let qmp = guest.qmp().await;
    let stopped = shut_down(&qmp, Duration::from_millis(300)).await.unwrap();
    assert_eq!(stopped, Stopped::Pulled);
    assert!(guest.wait_end().await.success());
}

#[tokio::test]
async fn a_guest_is_found_again_by_its_socket_and_is_the_same() {
    let Some(host) = world() else { return };
    let place =
        GuestDir::new("echo ready\nread -r line\necho \"still here: $line\"\n$b poweroff -f\n");
    let mut guest = place.start(&place.spec(), &host);
    let first = guest.qmp().await;
    assert_eq!(first.version(), host.version);
    guest.wait_line("ready").await;
    first.pause().await.unwrap();
    assert_eq!(first.status().await.unwrap().state, "paused");
    // One client at a time: another is not greeted as long as we are there.
    let second = Qmp::connect(&place.vm.qmp(), Duration::from_millis(200)).await;
    assert!(
        matches!(second, Err(strata_vm::QmpError::NoGreeting { .. })),
        "{second:?}"
    );
    drop(first);
    let again = guest.qmp().await;
    assert!(!again.status().await.unwrap().running);
    again.resume().await.unwrap();
    assert!(again.status().await.unwrap().running);
    assert_eq!(again.memory().await.unwrap(), 256 << 20);
    let mut console = UnixStream::connect(place.vm.console()).await.unwrap();
    console.write_all(b"friend\n").await.unwrap();
    guest.wait_line("still here: friend").await;
    assert!(guest.wait_end().await.success());
}

#[tokio::test]
async fn the_console_can_be_typed_on_and_is_logged_all_the_same() {
    let Some(host) = world() else { return };
    let place = GuestDir::new("echo ready\nwhile read -r line; do echo \"you said $line\"; done\n");
    let mut guest = place.start(&place.spec(), &host);
    guest.wait_line("ready").await;
    for word in ["one", "two"] {
        let mut console = UnixStream::connect(place.vm.console()).await.unwrap();
        console
            .write_all(format!("{word}\n").as_bytes())
            .await
            .unwrap();
        let wanted = format!("you said {word}");
        let mut read = String::new();
        while !read.contains(&wanted) {
            let mut buffer = [0; 256];
            let next = tokio::time::timeout(BOOT, console.read(&mut buffer)).await;
            let count = next.expect("an echo in time").unwrap();
            assert!(count > 0, "the console hung up after {read:?}");
            read += &String::from_utf8_lossy(&buffer[..count]);
        }
        guest.wait_line(&wanted).await;
    }
    // No client is connected now, and the log goes on.
    assert!(guest.console().contains("ready"));
}

#[tokio::test]
async fn a_reboot_boots_again_in_the_same_process() {
    let Some(host) = world() else { return };
    let place = GuestDir::new("echo up\nread -r line\n$b reboot -f\n");
    let mut spec = place.spec();
    spec.on_reboot = OnReboot::Restart;
    let mut guest = place.start(&spec, &host);
    let qmp = guest.qmp().await;
    let mut events = qmp.events();
    guest.wait_line("up").await;
    let mut console = UnixStream::connect(place.vm.console()).await.unwrap();
    console.write_all(b"\n").await.unwrap();
    let reset = async {
        loop {
            let event = events.next().await.expect("a guest that runs");
            if event == (Event::Reset { by_guest: true }) {
                return;
            }
        }
    };
    tokio::time::timeout(BOOT, reset).await.expect("a reset");
    crate::common::wait_for(BOOT, || {
        (guest.console().matches("up\n").count() == 2).then_some(())
    })
    .await;
    assert!(!guest.has_ended());
}

#[tokio::test]
async fn a_guest_reaches_its_tap_interface() {
    let Some(host) = world() else { return };
    let script = "cd /modules\nwhile read -r m; do $b insmod $m; done <order\n\
        $b ip addr add 10.9.0.2/24 dev eth0\n$b ip link set eth0 up\n\
        $b cat /sys/class/net/eth0/address\n\
        $b ping -c 1 -w 60 10.9.0.1 >/dev/null && echo reached\n$b poweroff -f\n";
    let place = GuestDir::new(script);
    let mut spec = place.spec();
    spec.network = Some(Network {
        mac: "02:53:0a:09:00:02".parse().unwrap(),
        tap: Tap::Named("tap0".into()),
    });
    let launch = command(&spec, &host).unwrap();
    // A network namespace of its own, which ends with the guest.
    let make = "ip tuntap add dev tap0 mode tap && ip addr add 10.9.0.1/24 dev tap0 && \
        ip link set tap0 up && exec \"$@\"";
    let through = ["unshare", "--net", "sh", "-c", make, "sh"];
    let mut guest = place.start_by(&through, &launch);
    guest.wait_line("02:53:0a:09:00:02").await;
    guest.wait_line("reached").await;
    assert!(guest.wait_end().await.success());
}

/// Some boots of this board hang without KVM, so only QEMU's reaction to its
/// command line is checked.
#[tokio::test]
async fn the_small_board_starts() {
    let Some(host) = world() else { return };
    let place = GuestDir::new("$b poweroff -f\n");
    let mut spec = place.spec();
    spec.machine = Machine::Microvm;
    let guest = place.start(&spec, &host);
    let qmp = guest.qmp().await;
    assert!(qmp.status().await.unwrap().running);
}
