//! Virtual machines that boot our own node.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use futures_util::{FutureExt as _, StreamExt as _};
use strata_machines::image::NodeImages;
use strata_machines::{Power, Provider as _, ProviderError, Qemu, QemuConfig};
use strata_testkit::guest::{Guest, kernel, small_initramfs};
use strata_testkit::pods::idle;
use strata_testkit::v1::vm_spec::Boot as VmBoot;
use strata_testkit::v1::{CreateVmRequest, PodLogsRequest, VmKernel, VmSpec};
use strata_testkit::{TEST_TIMEOUT, holds, skip, wait_for};

use crate::providers::conformance::{self, target};
use crate::providers::world::World;
use crate::providers::{STRATA, tell};

/// A guest on a busy host without KVM.
const BOOTS_WITHIN: Duration = Duration::from_secs(90);

fn driver(world: &World) -> Qemu {
    let config = QemuConfig {
        directory: world.0.daemon.scratch().join("machines"),
        kernel_folder: None,
        program: STRATA.into(),
        server: None,
        images: NodeImages::default(),
    };
    Qemu::new(world.node(), config)
}

#[tokio::test(flavor = "multi_thread")]
async fn virtual_machines_hold_the_promises() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let world = World::start().await;
    let qemu = driver(&world);
    let boots = || world.boot("m1").boxed();
    conformance::holds_its_promises(&qemu, &boots).await;
    // What machines boot is gone with them.
    let left = fs::read_dir(world.0.daemon.scratch().join("machines")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "the base alone: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_for_virtual_machines_can_be_dropped() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let world = World::start().await;
    let qemu = driver(&world);
    let boots = || world.boot("m2").boxed();
    conformance::copes_with_dropped_calls(&qemu, &boots).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_of_a_virtual_machine_joins_and_runs_cells() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let world = World::start().await;
    let bare = bare_boot(&world).await;
    let qemu = driver(&world);
    let mut ours = target(&qemu, "0a1b2c3d", "m1");
    ours.spec.disk = Some(4);
    // The first one builds what all of them boot.
    qemu.boot(&ours, &world.boot("m1").await).await.unwrap();
    qemu.wipe(&ours).await.unwrap();

    let boot = world.boot("m1").await;
    let begin = Instant::now();
    qemu.boot(&ours, &boot).await.unwrap();
    let (booted, up) = (begin.elapsed(), qemu.wait(&ours).await.unwrap());
    let node = world.node_is_ready("m1").await;
    let ready = begin.elapsed();
    tell(&format!(
        "qemu: bare guest in user space {bare:.2?}; switched on {booted:.2?}, node ready {ready:.2?}"
    ));
    assert!(node.contains("zone"), "{node}");
    assert!(!node.contains("strata.dev/tag"), "{node}");
    secret_is_kept(&world, boot.join_token.expose());

    let address = up.address.unwrap();
    let inside = world.runs_something(&address).await;
    let looked = "hostname; ls /etc/strata; grep -c strata /proc/mounts; cat /etc/resolv.conf";
    let seen = inside.node.shell("a", "look", looked).await;
    let gateway = "nameserver 10.42.7.1";
    assert!(seen.contains("modules") && seen.contains(gateway), "{seen}");
    assert!(
        !seen.contains("join.json"),
        "what it joined with is gone: {seen}"
    );
    inside.node.shell("a", "make", IMAGE).await;
    let pod = idle("p", "oci:/var/lib/busybox:latest");
    inside.node.run_pod(pod).await.unwrap();
    assert_eq!(inside.node.says("p", "echo here").await, "here");
    drop(inside);

    // It has a disk, so it is the same node when it comes back by itself.
    qemu.power(&ours, Power::Off).await.unwrap();
    world.node_is_not_ready("m1").await;
    qemu.power(&ours, Power::On).await.unwrap();
    world.node_is_ready("m1").await;
    drop(world.runs_something(&address).await);
    qemu.wipe(&ours).await.unwrap();
}

/// Makes an image of busybox in the machine itself.
const IMAGE: &str = r#"
set -e
mkdir -p /var/lib/busybox/blobs/sha256 /run/root/bin
cp -a /bin/. /run/root/bin/
cd /var/lib/busybox
keep() { digest=$(sha256sum <new | cut -d" " -f1); size=$(wc -c <new); mv new blobs/sha256/$digest; }
tar -C /run/root -cf new .
keep
layer="{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"sha256:$digest\",\"size\":$size}"
echo "{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{\"Env\":[\"PATH=/bin\"]},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:$digest\"]}}" >new
keep
config="{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":\"sha256:$digest\",\"size\":$size}"
echo "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"config\":$config,\"layers\":[$layer]}" >new
keep
echo "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"sha256:$digest\",\"size\":$size,\"annotations\":{\"org.opencontainers.image.ref.name\":\"latest\"}}]}" >index.json
echo "{\"imageLayoutVersion\":\"1.0.0\"}" >oci-layout
"#;

/// Nobody but root reads what a machine is told, and the node does not show it.
fn secret_is_kept(world: &World, token: &str) {
    let machines = world.0.daemon.scratch().join("machines");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&machines), 0o700);
    assert_eq!(mode(&machines.join("strata-0a1b2c3d-m1/initrd")), 0o600);
    assert!(!world.0.daemon.log().contains(token));
}

/// How long a guest without a node takes to user space, from the same call.
async fn bare_boot(world: &World) -> Duration {
    let initrd = world.0.daemon.scratch().join("bare.initramfs");
    small_initramfs(&initrd, "echo in user space; while :; do sleep 60; done").unwrap();
    let vm = VmSpec {
        name: "bare".into(),
        memory_bytes: 640_000_000,
        boot: Some(VmBoot::Kernel(VmKernel {
            kernel: kernel().to_string_lossy().into_owned(),
            initrd: initrd.to_string_lossy().into_owned(),
            command_line: "console=ttyS0 quiet panic=-1".into(),
        })),
        stop_grace_ms: Some(0),
        ..VmSpec::default()
    };
    let node = world.0.node().await;
    let mut took = Duration::ZERO;
    // The first one finds out what QEMU can do here.
    for _ in 0..2 {
        let begin = Instant::now();
        let request = CreateVmRequest {
            vm: Some(vm.clone()),
            start: true,
        };
        node.client().vms().create(request).await.unwrap();
        let request = PodLogsRequest {
            name: "bare".into(),
            follow: true,
            ..PodLogsRequest::default()
        };
        let lines = node.client().vms().logs(request).await.unwrap();
        let up = lines.into_inner().any(|line| {
            let up = line.unwrap().line.starts_with(b"in user space");
            std::future::ready(up)
        });
        assert!(tokio::time::timeout(BOOTS_WITHIN, up).await.unwrap());
        took = begin.elapsed();
        let request = strata_testkit::v1::DestroyVmRequest {
            name: "bare".into(),
        };
        node.client().vms().destroy(request).await.unwrap();
    }
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_that_the_daemon_did_not_live_to_answer_is_taken_up() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let mut world = World::start().await;
    let qemu = driver(&world);
    let ours = target(&qemu, "0a1b2c3d", "m1");
    let boot = world.boot("m1").await;
    let booting = {
        let (qemu, ours, boot) = (qemu.clone(), ours.clone(), boot.clone());
        tokio::spawn(async move { qemu.boot(&ours, &boot).await })
    };
    let record = world.0.daemon.data_dir().join("node/_vms/records/m1.json");
    wait_for("the machine to be made", TEST_TIMEOUT, async || {
        holds(record.exists())
    })
    .await;
    world.0.daemon.kill();
    let cut = booting.await.unwrap();
    let cut = cut.as_ref().err();
    assert!(cut.is_none_or(ProviderError::is_transient), "{cut:?}");
    world.0.daemon.restart().await;
    qemu.boot(&ours, &boot).await.unwrap();
    qemu.wait(&ours).await.unwrap();
    world.node_is_ready("m1").await;
    let all = qemu.discover().await.unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
}

#[tokio::test]
async fn without_a_kernel_it_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start().await;
    let config = QemuConfig {
        directory: dir.path().join("machines"),
        kernel_folder: Some(dir.path().join("none")),
        program: STRATA.into(),
        server: Some("https://10.42.7.1:7700".into()),
        images: NodeImages::default(),
    };
    let qemu = Qemu::new(world.node(), config);
    let ours = target(&qemu, "0a1b2c3d", "m1");
    let error = qemu.boot(&ours, &world.boot("m1").await).await.unwrap_err();
    assert!(matches!(error, ProviderError::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("kernel_directory"), "{error}");
    let seen = qemu.server_seen_from_machines();
    assert_eq!(seen.as_deref(), Some("https://10.42.7.1:7700"));
}
