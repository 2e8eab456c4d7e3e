//! What cannot be a machine is refused with the field, and leaves nothing.

use std::fs;

use strata_testkit::v1::vm_spec::Boot;
use strata_testkit::v1::{ListVmsRequest, VmDisk, VmSpec};
use strata_testkit::{Code, field_of};

use crate::vms::{World, world};

async fn refused(world: &World, field: &str, change: impl FnOnce(&mut VmSpec)) {
    let mut vm = world.guest("bad", "true");
    change(&mut vm);
    let status = world.run(vm).await.expect_err(field);
    assert_eq!(status.code(), Code::InvalidArgument, "{field}: {status:?}");
    assert_eq!(field_of(&status).as_deref(), Some(field), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_vm_spec_is_refused() {
    let Some(world) = world().await else { return };
    refused(&world, "vm.name", |vm| vm.name = "Bad".into()).await;
    refused(&world, "vm.boot", |vm| vm.boot = None).await;
    refused(&world, "vm.image", |vm| {
        vm.boot = Some(Boot::Image("x".into()));
    })
    .await;
    refused(&world, "vm.cpus", |vm| vm.cpus = 1000).await;
    refused(&world, "vm.memory", |vm| vm.memory_bytes = 1 << 20).await;
    refused(&world, "vm.machine", |vm| vm.machine = 9).await;
    refused(&world, "vm.ports[0]", |vm| vm.ports = vec!["80".into()]).await;
    refused(&world, "vm.disks[0].bytes", |vm| {
        vm.disks = vec![VmDisk::default()];
    })
    .await;
    refused(&world, "vm.no_network", |vm| {
        vm.no_network = true;
        vm.ports = vec!["80:80".into()];
    })
    .await;
    let mut missing = world.guest("bad", "true");
    missing.boot = Some(Boot::Image("/no/such".into()));
    let status = world
        .run(missing)
        .await
        .expect_err("there is no such image");
    assert_eq!(
        (status.code(), field_of(&status).as_deref()),
        (Code::NotFound, Some("vm.image"))
    );
    // An image that names another file would let a guest read it.
    let hostile = world.daemon.scratch().join("hostile.qcow2");
    let mut header = vec![0u8; 1 << 16];
    header[..8].copy_from_slice(b"QFI\xfb\0\0\0\x02");
    header[8..16].copy_from_slice(&512u64.to_be_bytes());
    header[16..20].copy_from_slice(&11u32.to_be_bytes());
    header[20..24].copy_from_slice(&16u32.to_be_bytes());
    header[24..32].copy_from_slice(&(1u64 << 20).to_be_bytes());
    header[512..523].copy_from_slice(b"/etc/shadow");
    fs::write(&hostile, header).unwrap();
    let hostile = hostile.to_string_lossy().into_owned();
    refused(&world, "vm.image", |vm| {
        vm.boot = Some(Boot::Image(hostile));
    })
    .await;
    let list = world
        .node
        .client()
        .vms()
        .list(ListVmsRequest {})
        .await
        .unwrap();
    assert!(list.into_inner().vms.is_empty());
    let dirs = world.daemon.data_dir().join("node/_vms/folders");
    assert_eq!(fs::read_dir(dirs).unwrap().count(), 0);
}
