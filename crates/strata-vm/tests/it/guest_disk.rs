//! Disks of real guests: copies leave their base alone, and keep what is
//! written.
#![allow(clippy::unwrap_used)]

use std::fs;

use crate::common::{GuestDir, boot_sector, has_module, say, world};
use strata_vm::{
    Boot, Disk, DiskBus, DiskFormat, check_overlay, clone_disk, create_disk, disk_info,
};

/// Shows a sector, writes another, shows that again at the next boot. The
/// kernel of the tests has no driver for virtio disks built in.
const WRITER: &str = "\
disk=/dev/nvme0n1
show() { echo \"$1 $($b dd if=$disk bs=512 skip=$2 count=1 2>/dev/null | $b tr -d '\\0')\"; }
show base 3
show written 5000
echo \"from the guest\" | $b dd of=$disk bs=512 seek=5000 conv=sync,fsync 2>/dev/null
echo done
$b poweroff -f
";

/// A base of 8 MiB with a text in its fourth sector.
fn base() -> Vec<u8> {
    let mut bytes = vec![0; 8 << 20];
    bytes[3 * 512..][..13].copy_from_slice(b"from the base");
    bytes
}

async fn write_twice(place: &GuestDir, disk: Disk, host: &strata_vm::Host) {
    let mut spec = place.spec();
    spec.disks.push(Disk {
        bus: DiskBus::Nvme,
        ..disk
    });
    let mut first = place.start(&spec, host);
    first.wait_line("base from the base").await;
    first.wait_line("written ").await;
    assert!(first.wait_end().await.success());
    drop(first);
    let mut second = place.start(&spec, host);
    second.wait_line("base from the base").await;
    second.wait_line("written from the guest").await;
    assert!(second.wait_end().await.success());
}

#[tokio::test]
async fn a_clone_of_a_raw_base_keeps_what_is_written_and_the_base_as_it_was() {
    let Some(host) = world() else { return };
    let place = GuestDir::new(WRITER);
    // A comma would end a word of QEMU's, if it were let.
    let raw = place.path("base,with=odd name.img");
    fs::write(&raw, base()).unwrap();
    let info = clone_disk(&raw, &place.vm.disk(), Some(32 << 20)).unwrap();
    let disk = Disk::clone_of(place.vm.disk(), &raw, info.format);
    write_twice(&place, disk, &host).await;
    assert!(crate::common::same(&raw, &base()));
    let info = check_overlay(&place.vm.disk(), &raw).unwrap();
    assert_eq!(info.size, 32 << 20);
    assert!(info.allocated > 0 && info.allocated < 4 << 20, "{info:?}");
}

#[tokio::test]
async fn a_clone_of_a_qcow2_base_works_the_same() {
    let Some(host) = world() else { return };
    let place = GuestDir::new(
        "echo \"from the base\" | $b dd of=/dev/nvme0n1 bs=512 seek=3 conv=sync,fsync 2>/dev/null\n\
         $b poweroff -f\n",
    );
    let base = place.path("base.qcow2");
    create_disk(&base, DiskFormat::Qcow2, 64 << 20).unwrap();
    let mut spec = place.spec();
    spec.disks.push(Disk {
        bus: DiskBus::Nvme,
        ..Disk::new(&base, DiskFormat::Qcow2)
    });
    let mut maker = place.start(&spec, &host);
    assert!(maker.wait_end().await.success());
    drop(maker);
    let before = fs::read(&base).unwrap();
    let place = GuestDir::new(WRITER);
    let info = clone_disk(&base, &place.vm.disk(), None).unwrap();
    assert_eq!((info.format, info.size), (DiskFormat::Qcow2, 64 << 20));
    let disk = Disk::clone_of(place.vm.disk(), &base, info.format);
    write_twice(&place, disk, &host).await;
    assert!(crate::common::same(&base, &before));
}

#[tokio::test]
async fn a_disk_boots_by_its_own_boot_sector() {
    let Some(host) = world() else { return };
    let place = GuestDir::new("");
    let base = place.path("base.img");
    fs::write(&base, boot_sector(&say("\nbooted\n"))).unwrap();
    clone_disk(&base, &place.vm.disk(), None).unwrap();
    let mut spec = place.spec();
    spec.boot = Boot::Disk(Disk::clone_of(place.vm.disk(), &base, DiskFormat::Raw));
    let mut guest = place.start(&spec, &host);
    guest.wait_line("booted").await;
    let stats = guest.qmp().await.block_stats().await.unwrap();
    assert_eq!(stats[0].disk, "disk0");
    assert!(stats[0].read_bytes >= 512, "{stats:?}");
}

/// What a hostile guest can do: make its raw disk look like a qcow2 image that
/// stands on a file of the host. At the next start it is raw all the same.
#[tokio::test]
async fn a_raw_disk_that_pretends_to_be_qcow2_stays_raw() {
    let Some(host) = world() else { return };
    let script = "echo \"starts with $($b dd if=/dev/nvme0n1 bs=3 count=1 2>/dev/null)\"\n\
        $b poweroff -f\n";
    let place = GuestDir::new(script);
    let secret = place.path("secret");
    fs::write(&secret, vec![b's'; 1 << 20]).unwrap();
    let disk = place.path("disk.img");
    clone_disk(&secret, &disk, None).unwrap();
    assert_eq!(disk_info(&disk).unwrap().format, DiskFormat::Qcow2);
    let mut spec = place.spec();
    spec.disks.push(Disk {
        bus: DiskBus::Nvme,
        ..Disk::new(&disk, DiskFormat::Raw)
    });
    let mut guest = place.start(&spec, &host);
    guest.wait_line("starts with QFI").await;
}

#[tokio::test]
async fn linux_sees_a_virtio_disk_with_its_name() {
    let Some(host) = world() else { return };
    if !has_module("virtio_blk") {
        return;
    }
    let script = "cd /modules\nwhile read -r m; do $b insmod $m; done <order\n\
        echo \"serial $($b cat /sys/block/vda/serial)\"\n\
        echo \"trims $($b cat /sys/block/vda/queue/discard_max_bytes)\"\n$b poweroff -f\n";
    let place = GuestDir::new(script);
    create_disk(&place.vm.disk(), DiskFormat::Qcow2, 16 << 20).unwrap();
    let mut spec = place.spec();
    spec.disks
        .push(Disk::new(place.vm.disk(), DiskFormat::Qcow2));
    let mut guest = place.start(&spec, &host);
    guest.wait_line("serial disk0").await;
    assert!(guest.wait_end().await.success());
    assert!(!guest.console().contains("trims 0\n"));
}

/// And what a hostile image can: named as qcow2, its backing is not followed.
#[tokio::test]
async fn a_qcow2_disk_without_a_base_follows_no_name_in_its_header() {
    let Some(host) = world() else { return };
    let script = "echo \"starts with [$($b dd if=/dev/nvme0n1 bs=3 count=1 2>/dev/null | \
        $b tr -d '\\0')]\"\n$b poweroff -f\n";
    let place = GuestDir::new(script);
    let secret = place.path("secret");
    fs::write(&secret, vec![b's'; 1 << 20]).unwrap();
    let disk = place.path("disk.img");
    clone_disk(&secret, &disk, None).unwrap();
    let mut spec = place.spec();
    spec.disks.push(Disk {
        bus: DiskBus::Nvme,
        ..Disk::new(&disk, DiskFormat::Qcow2)
    });
    let mut guest = place.start(&spec, &host);
    guest.wait_line("starts with []").await;
}
