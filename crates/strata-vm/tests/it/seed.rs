//! What a guest receives at its first boot, read by a real kernel.
#![allow(clippy::unwrap_used)]

use crate::common::{GuestDir, has_module, world};
use strata_vm::{Disk, DiskBus, DiskFormat, Seed};

fn seed() -> Seed {
    Seed {
        instance_id: "i-1".into(),
        hostname: "web-1".parse().unwrap(),
        ssh_keys: vec!["ssh-ed25519 AAAA \"me\" & co".into()],
        user_data: format!("#cloud-config\n# {}\nruncmd: [ls]\n", "x".repeat(5000)),
        network_config: Some("version: 2\n".into()),
    }
}

#[test]
fn every_wrong_field_is_named() {
    type Change = fn(&mut Seed);
    let wrong: [(&str, Change); 4] = [
        ("instance_id", |s| s.instance_id = String::new()),
        ("ssh_keys[1]", |s| s.ssh_keys.push("a\nb".into())),
        ("user_data", |s| s.user_data = "x".repeat((1 << 20) + 1)),
        ("network_config", |s| {
            s.network_config = Some("x".repeat((1 << 20) + 1));
        }),
    ];
    for (field, change) in wrong {
        let mut seed = seed();
        change(&mut seed);
        assert_eq!(seed.check().unwrap_err().field(), Some(field));
    }
}

#[test]
fn an_image_is_as_the_standard_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("seed.iso");
    seed().write(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(&bytes[16 * 2048 + 1..][..5], b"CD001");
    assert_eq!(&bytes[16 * 2048 + 40..][..7], b"cidata ");
    assert_eq!(bytes.len() % 2048, 0);
    let sectors = u32::from_le_bytes(bytes[16 * 2048 + 80..][..4].try_into().unwrap());
    assert_eq!(sectors as usize * 2048, bytes.len());
    assert_eq!(bytes[16 * 2048 + 881], 1);
    assert!(seed().write(&path).is_err(), "what is there stays");
}

#[tokio::test]
async fn a_kernel_mounts_it_and_finds_the_files_by_their_names() {
    let Some(host) = world() else { return };
    if !has_module("isofs") {
        return;
    }
    let script = "cd /modules\nwhile read -r m; do $b insmod $m; done <order\n\
        cd /\n$b mkdir /seed\n$b mount -t iso9660 -o ro /dev/nvme0n1 /seed && cd /seed\n\
        echo $($b ls)\n$b cat meta-data network-config\n$b tail -n 1 user-data\n\
        echo \"long $($b wc -c <user-data)\"\n$b poweroff -f\n";
    let place = GuestDir::new(script);
    seed().write(&place.vm.seed()).unwrap();
    let mut spec = place.spec();
    spec.disks.push(Disk {
        bus: DiskBus::Nvme,
        read_only: true,
        ..Disk::new(place.vm.seed(), DiskFormat::Raw)
    });
    let mut guest = place.start(&spec, &host);
    guest.wait_line("meta-data network-config user-data").await;
    guest.wait_line("version: 2").await;
    guest.wait_line("runcmd: [ls]").await;
    guest.wait_line("long 5030").await;
    assert!(guest.wait_end().await.success());
    let console = guest.console();
    assert!(console.contains(r#""public-keys":["ssh-ed25519 AAAA \"me\" & co"]"#));
}
