//! What the probe reports of this machine, against a real boot.
#![allow(clippy::unwrap_used)]

use crate::common::{GuestDir, world};
use strata_vm::{Accel, Host, Kvm, command};

#[tokio::test]
async fn the_probe_agrees_with_a_real_boot() {
    let Some(host) = world() else { return };
    let place = GuestDir::new("echo up\n$b poweroff -f\n");
    let launch = command(&place.spec(), &host).unwrap();
    assert_eq!(launch.kvm, host.kvm == Kvm::Works);
    let mut guest = place.start(&place.spec(), &host);
    guest.wait_line("up").await;
}

#[tokio::test]
async fn kvm_guest_is_refused_when_the_probe_fails() {
    let Some(host) = world() else { return };
    let Kvm::Broken(why) = &host.kvm else {
        return;
    };
    assert!(!why.is_empty());
    let place = GuestDir::new("echo up\n$b poweroff -f\n");
    let mut spec = place.spec();
    spec.accel = Accel::Kvm;
    let error = command(&spec, &host).unwrap_err();
    assert_eq!(error.field(), Some("accel"));
    // Against its advice.
    let believed = Host {
        kvm: Kvm::Works,
        ..host.clone()
    };
    let mut guest = place.start(&spec, &believed);
    // It ends at once, or hangs: no longer than this is waited for that.
    let within = std::time::Duration::from_secs(10);
    let _ = tokio::time::timeout(within, guest.wait_end()).await;
    assert!(!guest.console().contains("up\n"));
}
