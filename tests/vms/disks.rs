//! Disks of machines: clones of images that stay as they are.

use std::fs;

use strata_testkit::pool::TestPool;
use strata_testkit::v1::{DestroyVmRequest, PodState, StartVmRequest, VmDisk};
use strata_testkit::{Code, field_of};

use crate::vms::{world, world_with};

/// Says what is on the disk, then writes to it.
const WRITES: &str = "echo found-$(head -c 5 /dev/vda)-$(head -c 5 /dev/vdb | tr -d '\\0'); \
    echo -n guest >/dev/vda; echo -n guest >/dev/vdb; sync; poweroff -f";

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_writes_to_a_clone_and_the_image_stays() {
    let Some(world) = world().await else { return };
    let image = world.daemon.scratch().join("base.raw");
    let mut bytes = b"base!".to_vec();
    bytes.resize(4 << 20, 7);
    fs::write(&image, &bytes).unwrap();
    let mut guest = world.guest("writer", WRITES);
    guest.disks = vec![
        VmDisk {
            image: image.to_string_lossy().into_owned(),
            ..VmDisk::default()
        },
        VmDisk {
            bytes: 8 << 20,
            ..VmDisk::default()
        },
    ];
    world.run(guest).await.unwrap();
    world.says("writer", "found-base!-").await;
    let vm = world.becomes("writer", PodState::Exited).await;
    assert!(vm.disk_bytes > 0);
    // What it wrote is there at the next start, and the image is untouched.
    let request = StartVmRequest {
        name: "writer".into(),
    };
    world.node.client().vms().start(request).await.unwrap();
    world.says("writer", "found-guest-guest").await;
    world.becomes("writer", PodState::Exited).await;
    assert!(fs::read(&image).unwrap() == bytes);
}

/// Says how large the disk of the pool is and what is on it, writes to it and
/// stays.
const KEEPS: &str = "echo size-$(cat /sys/block/vda/size)-$(head -c 5 /dev/vda | tr -d '\\0'); \
    echo -n guest >/dev/vda; sync; echo written; while :; do sleep 60; done";

fn of_pool(name: &str) -> VmDisk {
    VmDisk {
        pool: name.into(),
        ..VmDisk::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_of_the_pool_stays_and_one_machine_at_a_time_has_it() {
    let pool = TestPool::new();
    let Some(world) = world_with(&pool.config()).await else {
        return;
    };
    let mut guest = world.guest("first", KEEPS);
    guest.disks = vec![of_pool("db")];
    // Nobody in it listens to the power button.
    guest.stop_grace_ms = Some(500);
    // A volume that is missing is told, and so is one that is no disk.
    let status = world.run(guest.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{status}");
    assert!(status.message().contains("volume create db"), "{status}");
    pool.volume("files");
    let mut wrong = guest.clone();
    wrong.disks = vec![of_pool("files")];
    let status = world.run(wrong).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let mut both = guest.clone();
    both.disks[0].bytes = 1 << 20;
    let status = world.run(both).await.unwrap_err();
    assert_eq!(field_of(&status).as_deref(), Some("vm.disks[0].pool"));

    let file = pool.disk("db", 8 << 20);
    world.run(guest).await.unwrap();
    world.says("first", "size-16384-").await;
    world.says("first", "written").await;
    assert_eq!(fs::read(&file).unwrap()[..5], *b"guest");
    let mut second = world.guest("second", KEEPS);
    second.disks = vec![of_pool("db")];
    second.stop_grace_ms = Some(500);
    let status = world.run(second.clone()).await.unwrap_err();
    assert!(
        status.message().contains("another virtual machine"),
        "{status}"
    );
    // What it wrote is there for the next one, and stays when both are gone.
    let destroy = async |name: &str| {
        let request = DestroyVmRequest { name: name.into() };
        world.node.client().vms().destroy(request).await.unwrap();
    };
    destroy("first").await;
    let request = StartVmRequest {
        name: "second".into(),
    };
    world.node.client().vms().start(request).await.unwrap();
    world.says("second", "size-16384-guest").await;
    destroy("second").await;
    assert_eq!(fs::metadata(&file).unwrap().len(), 8 << 20);
}
