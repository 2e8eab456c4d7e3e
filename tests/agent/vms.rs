//! Virtual machines are instances like any other.

use strata_testkit::guest::{Guest, kernel, small_initramfs};
use strata_testkit::skip;
use strata_testkit::v1::assignment::Spec;
use strata_testkit::v1::vm_spec::Boot;
use strata_testkit::v1::{Assignment, PodSpec, PodState, VmKernel, VmSpec};

use crate::agent::{run, stopped, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_runs_stops_and_goes() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let mut world = world().await;
    let server = world.followed().await;
    assert!(server.hello().await.runs_vms);
    let initrd = world.daemon.scratch().join("guest.initramfs");
    small_initramfs(&initrd, "while :; do sleep 60; done").unwrap();
    let guest = VmSpec {
        name: "guest".into(),
        memory_bytes: 192 << 20,
        boot: Some(Boot::Kernel(VmKernel {
            kernel: kernel().to_string_lossy().into_owned(),
            initrd: initrd.to_string_lossy().into_owned(),
            command_line: "console=ttyS0 quiet panic=-1".into(),
        })),
        stop_grace_ms: Some(500),
        ..VmSpec::default()
    };
    let guest = Assignment {
        spec: Some(Spec::Vm(guest)),
        ..run("vm", PodSpec::default())
    };
    server.assign(&guest).await;
    let report = server.becomes("vm", PodState::Running).await;
    assert!(report.address.starts_with("10.42.77."), "{report:?}");
    server.assign(&stopped(&guest)).await;
    server.becomes("vm", PodState::Stopped).await;
    server.withdraw("vm").await;
    server.becomes("vm", PodState::Unspecified).await;
}
