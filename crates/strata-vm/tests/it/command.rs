//! Command lines, as they are.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use strata_vm::{
    Accel, Boot, Disk, DiskBus, DiskFormat, Host, Inherited, Kvm, Machine, Network, OnReboot, Tap,
    Version, VmSpec, command,
};

fn host(kvm: Kvm) -> Host {
    Host {
        qemu: PathBuf::from("/usr/bin/qemu-system-x86_64"),
        version: Version {
            major: 7,
            minor: 2,
            micro: 22,
        },
        kvm,
        sandbox: true,
    }
}

fn broken() -> Host {
    host(Kvm::Broken("the guest hangs".into()))
}

fn spec() -> VmSpec {
    VmSpec {
        name: "web-1".parse().unwrap(),
        machine: Machine::Auto,
        cpus: 2,
        memory: 512 << 20,
        boot: Boot::Kernel {
            kernel: "/boot/vmlinuz".into(),
            initrd: Some("/boot/initrd".into()),
            cmdline: "quiet panic=-1".into(),
        },
        disks: Vec::new(),
        network: None,
        accel: Accel::Auto,
        on_reboot: OnReboot::Restart,
    }
}

/// One option a line.
fn lines(spec: &VmSpec, host: &Host) -> String {
    let launch = command(spec, host).unwrap();
    launch.command.words().join(" ").replace(" -", "\n-")
}

#[test]
fn a_kernel_without_kvm() {
    insta::assert_snapshot!(lines(&spec(), &broken()));
}

#[test]
fn a_disk_with_kvm_and_all_there_is() {
    let mut all = spec();
    all.boot = Boot::Disk(Disk::clone_of(
        "/var/lib/strata/vms/web-1/disk.qcow2",
        "/images/debian, 12.qcow2",
        DiskFormat::Qcow2,
    ));
    all.disks = vec![
        Disk {
            bus: DiskBus::Nvme,
            ..Disk::new("/data/\"quoted\".raw", DiskFormat::Raw)
        },
        Disk {
            read_only: true,
            ..Disk::new("/var/lib/strata/vms/web-1/seed.iso", DiskFormat::Raw)
        },
        Disk::new("/data/alone.qcow2", DiskFormat::Qcow2),
        Disk::clone_of("/data/clone.qcow2", "/images/raw.img", DiskFormat::Raw),
    ];
    all.network = Some(Network {
        mac: "02:53:0a:00:00:02".parse().unwrap(),
        tap: Tap::Inherited,
    });
    insta::assert_snapshot!(lines(&all, &host(Kvm::Works)));
    let launch = command(&all, &host(Kvm::Works)).unwrap();
    let file = |path: &str, read_only: bool| Inherited::File {
        path: path.into(),
        read_only,
    };
    let expected = [
        Inherited::Qmp,
        Inherited::Console,
        Inherited::Tap,
        file("/var/lib/strata/vms/web-1/disk.qcow2", false),
        file("/images/debian, 12.qcow2", true),
        file("/data/\"quoted\".raw", false),
        file("/var/lib/strata/vms/web-1/seed.iso", true),
        file("/data/alone.qcow2", false),
        file("/data/clone.qcow2", false),
        file("/images/raw.img", true),
    ];
    assert_eq!(launch.inherits, expected);
    assert!(launch.kvm && launch.memory > all.memory);
}

#[test]
fn the_small_board_without_a_sandbox() {
    let mut small = spec();
    small.machine = Machine::Microvm;
    small.on_reboot = OnReboot::Exit;
    small.network = Some(Network {
        mac: "02:53:0a:00:00:02".parse().unwrap(),
        tap: Tap::Named("tap-web-1".into()),
    });
    small.boot = Boot::Kernel {
        kernel: "/boot/vmlinuz".into(),
        initrd: None,
        cmdline: "console=hvc0".into(),
    };
    let host = Host {
        sandbox: false,
        ..broken()
    };
    insta::assert_snapshot!(lines(&small, &host));
}

#[test]
fn kvm_where_it_does_not_work_is_refused_with_the_reason() {
    let mut wants = spec();
    wants.accel = Accel::Kvm;
    let error = command(&wants, &broken()).unwrap_err();
    assert_eq!(error.field(), Some("accel"));
    assert!(error.message().contains("the guest hangs"), "{error}");
    assert!(command(&wants, &host(Kvm::Works)).unwrap().kvm);
    wants.accel = Accel::Tcg;
    assert!(!command(&wants, &host(Kvm::Works)).unwrap().kvm);
}

#[test]
fn every_wrong_field_is_named() {
    type Change = fn(&mut VmSpec);
    let wrong: [(&str, Change); 14] = [
        ("cpus", |s| s.cpus = 0),
        ("cpus", |s| s.cpus = 129),
        ("memory", |s| s.memory = 1 << 20),
        ("memory", |s| s.memory = (64 << 20) + 1),
        ("memory", |s| s.memory = u64::MAX),
        ("boot.kernel", |s| set_kernel(s, "vmlinuz", None, "")),
        ("boot.initrd", |s| set_kernel(s, "/k", Some("i"), "")),
        ("boot.cmdline", |s| set_kernel(s, "/k", None, "a\nb")),
        ("boot.cmdline", |s| {
            set_kernel(s, "/k", None, &"x".repeat(2048));
        }),
        ("boot.disk.path", |s| {
            s.boot = Boot::Disk(Disk::new("", DiskFormat::Raw));
        }),
        ("disks[0].base", |s| {
            let mut disk = Disk::clone_of("/a", "/b", DiskFormat::Raw);
            disk.format = DiskFormat::Raw;
            s.disks.push(disk);
        }),
        ("disks[1].base.path", |s| {
            s.disks.push(Disk::new("/a", DiskFormat::Raw));
            s.disks.push(Disk::clone_of("/a", "b", DiskFormat::Raw));
        }),
        ("disks", |s| {
            s.disks = vec![Disk::new("/a", DiskFormat::Raw); 17];
        }),
        ("network.tap", |s| {
            s.network = Some(Network {
                mac: "02:53:0a:00:00:02".parse().unwrap(),
                tap: Tap::Named("a,script=/bin/sh".into()),
            });
        }),
    ];
    for (field, change) in wrong {
        let mut spec = spec();
        change(&mut spec);
        let error = command(&spec, &broken()).unwrap_err();
        assert_eq!(error.field(), Some(field), "{error}");
    }
}

fn set_kernel(spec: &mut VmSpec, kernel: &str, initrd: Option<&str>, cmdline: &str) {
    spec.boot = Boot::Kernel {
        kernel: kernel.into(),
        initrd: initrd.map(Into::into),
        cmdline: cmdline.into(),
    };
}

#[test]
fn a_spec_survives_being_kept() {
    let text = serde_json::to_string(&spec()).unwrap();
    assert_eq!(serde_json::from_str::<VmSpec>(&text).unwrap(), spec());
    let least = r#"{"name": "a", "cpus": 1, "memory": 67108864,
        "boot": {"disk": {"path": "/d", "format": "raw"}}}"#;
    let least: VmSpec = serde_json::from_str(least).unwrap();
    least.check().unwrap();
    assert_eq!(least.machine, Machine::Auto);
    for bad in [r#"{"name": "a", "unknown": 1}"#, r#"{"name": "A B"}"#] {
        assert!(serde_json::from_str::<VmSpec>(bad).is_err());
    }
}
