//! Disks of machines: clones of images that stay as they are.

use std::fs;

use strata_testkit::v1::{PodState, StartVmRequest, VmDisk};

use crate::world;

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
