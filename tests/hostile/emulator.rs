//! A guest that has taken over its emulator finds nothing to go on with: the
//! emulator is a user of its own without rights, in a root without files of
//! the host, and the kernel answers it nothing but what an emulator needs.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strata_testkit::guest::{Guest, kernel, small_initramfs};
use strata_testkit::v1::vm_spec::Boot;
use strata_testkit::v1::{
    CreateVmRequest, DestroyVmRequest, GetVmRequest, PodState, StartVmRequest, StopVmRequest, Vm,
    VmKernel, VmSpec,
};
use strata_testkit::{Daemon, NetworkNamespace, Node, serde_json, skip, wait_for};

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/hostile/qemu.c");
const REAL_QEMU: &str = "/usr/bin/qemu-system-x86_64";
const BOOT: Duration = Duration::from_secs(120);
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EROFS: i32 = 30;
const ENOSYS: i32 = 38;
/// Users of virtual machines, as the manual says.
const USERS: std::ops::Range<u32> = 1_000_000_000..1_016_777_216;

struct World {
    node: Node,
    daemon: Daemon,
    _network: NetworkNamespace,
}

impl World {
    /// None where guests cannot run.
    async fn new(first_in_path: Option<&Path>) -> Option<Self> {
        if let Some(why) = Guest::lacks() {
            skip(why);
            return None;
        }
        let network = NetworkNamespace::new();
        let mut builder = Daemon::build(STRATA).within(&network);
        if let Some(path) = first_in_path {
            builder = builder.programs(path);
        }
        let daemon = builder.start().await;
        let node = daemon.node().await;
        Some(Self {
            node,
            daemon,
            _network: network,
        })
    }

    fn guest(&self, name: &str, append: &str) -> VmSpec {
        let initrd = self.daemon.scratch().join(format!("{name}.initramfs"));
        let script = "echo ready-to-serve; while :; do sleep 60; done";
        small_initramfs(&initrd, script).expect("an initramfs can be written");
        VmSpec {
            name: name.into(),
            memory_bytes: 192 << 20,
            boot: Some(Boot::Kernel(VmKernel {
                kernel: kernel().to_string_lossy().into_owned(),
                initrd: initrd.to_string_lossy().into_owned(),
                command_line: format!("console=ttyS0 quiet panic=-1 {append}"),
            })),
            no_network: true,
            stop_grace_ms: Some(0),
            ..VmSpec::default()
        }
    }

    async fn create(&self, vm: VmSpec, start: bool) -> Vm {
        let request = CreateVmRequest {
            vm: Some(vm),
            start,
        };
        let answer = self.node.client().vms().create(request).await;
        answer.expect("a guest can be made").into_inner()
    }

    async fn get(&self, name: &str) -> Vm {
        let request = GetVmRequest { name: name.into() };
        let answer = self.node.client().vms().get(request).await;
        answer.expect("the guest is there").into_inner()
    }

    async fn start(&self, name: &str) -> Vm {
        let request = StartVmRequest { name: name.into() };
        let answer = self.node.client().vms().start(request).await;
        answer.expect("the guest can be started").into_inner()
    }

    async fn stop(&self, name: &str) {
        let request = StopVmRequest {
            name: name.into(),
            grace_ms: Some(0),
        };
        let answer = self.node.client().vms().stop(request).await;
        answer.expect("the guest can be stopped");
    }

    async fn destroy(&self, name: &str) {
        let request = DestroyVmRequest { name: name.into() };
        let answer = self.node.client().vms().destroy(request).await;
        answer.expect("the guest can be destroyed");
    }

    fn vms(&self) -> PathBuf {
        self.daemon.data_dir().join("node/_vms")
    }

    /// The directory of the only guest.
    fn directory_of(&self, name: &str) -> PathBuf {
        let record = fs::read_to_string(self.vms().join(format!("records/{name}.json"))).unwrap();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        self.vms()
            .join("folders")
            .join(record["id"].as_str().unwrap())
    }

    /// What is logged of the guest's console.
    fn log(&self, name: &str) -> String {
        let cell = self.vms().join("cells").join(name);
        let mut text = String::new();
        for run in fs::read_dir(cell).into_iter().flatten().flatten() {
            for file in fs::read_dir(run.path()).into_iter().flatten().flatten() {
                let name = file.file_name().to_string_lossy().into_owned();
                let number = name.strip_prefix("stdout.").unwrap_or("x");
                if number.bytes().all(|byte| byte.is_ascii_digit()) {
                    text += &String::from_utf8_lossy(&fs::read(file.path()).unwrap());
                }
            }
        }
        text
    }
}

/// A field of `/proc/PID/status`.
fn status(pid: i64, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{field}:")));
    line.unwrap().split_once(':').unwrap().1.trim().to_owned()
}

fn uid_of(vm: &Vm) -> u32 {
    let ids = status(vm.process_id, "Uid");
    let ids: Vec<u32> = ids
        .split_whitespace()
        .map(|id| id.parse().unwrap())
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let groups = status(vm.process_id, "Gid");
    assert!(groups.starts_with(&ids[0].to_string()), "{groups}");
    assert_eq!(status(vm.process_id, "Groups"), "");
    ids[0]
}

/// Builds the emulator that was taken over, in a directory for `PATH`.
fn hostile_qemu() -> Option<tempfile::TempDir> {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let built = Command::new("cc")
        .arg(format!("-DREAL_QEMU=\"{REAL_QEMU}\""))
        .args(["-O1", "-pthread", "-o"])
        .arg(directory.path().join("qemu-system-x86_64"))
        .arg(SOURCE)
        .output();
    match built {
        Ok(output) if output.status.success() => Some(directory),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            skip(format!("no C compiler: {error}"));
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emulator_that_was_taken_over_gets_nowhere() {
    if !Path::new(REAL_QEMU).exists() {
        return skip(format!("no {REAL_QEMU}"));
    }
    let Some(programs) = hostile_qemu() else {
        return;
    };
    let Some(world) = World::new(Some(programs.path())).await else {
        return;
    };
    // Another guest, whose disk, sockets and record are to be had.
    let mut victim = world.guest("victim", "");
    victim.disks = vec![strata_testkit::v1::VmDisk {
        bytes: 1 << 20,
        ..Default::default()
    }];
    world.create(victim, false).await;
    let directory = world.directory_of("victim");
    let targets = [
        directory.join("disk-0.qcow2"),
        directory.join("qmp.sock"),
        world.vms().join("records/victim.json"),
        world.daemon.data_dir().join("client/token"),
        world.daemon.data_dir().join("node.sock"),
        PathBuf::from("/etc/hostname"),
        std::env::current_exe().unwrap(),
    ];
    let mut tries: Vec<String> = targets
        .iter()
        .map(|path| format!("try={}", path.display()))
        .collect();
    let has_landlock = strata_cell::landlock_version().is_some();
    if has_landlock {
        tries.push("landlock".into());
    }
    world
        .create(world.guest("taken", &tries.join(" ")), false)
        .await;
    let pattern = fs::read("/proc/sys/kernel/core_pattern").unwrap();
    let request = StartVmRequest {
        name: "taken".into(),
    };
    let error = world.node.client().vms().start(request).await.unwrap_err();
    assert!(error.message().contains("ended at once"), "{error}");
    let log = world.log("taken");
    assert!(log.ends_with("done\n"), "{log}\n{error}");
    assert_eq!(fs::read("/proc/sys/kernel/core_pattern").unwrap(), pattern);
    check_attempts(&log, targets.len());
    if has_landlock {
        assert!(log.contains("exec-library=13\n"), "{log}");
    }
    check_possessions(&log);
}

/// What became of each attempt.
fn check_attempts(log: &str, targets: usize) {
    let attempts: BTreeMap<&str, i32> = log
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, errno)| (name, errno.parse().unwrap()))
        .collect();
    let expect = |names: &[&str], allowed: &[i32]| {
        for name in names {
            let errno = attempts
                .get(name)
                .unwrap_or_else(|| panic!("{name} was not tried"));
            assert!(allowed.contains(errno), "{name}: errno {errno}\n{log}");
        }
    };
    assert_eq!(attempts["thread"], 0, "{log}");
    let files = [
        "write-core-pattern",
        "write-overcommit",
        "read-proc-status",
        "read-init-root",
        "read-sys",
        "read-shadow",
        "read-passwd",
        "run-shell-file",
        "open-kvm",
        "open-tun",
    ];
    expect(&files, &[ENOENT]);
    for i in 0..targets {
        expect(&[&format!("read-{i}")], &[ENOENT]);
        expect(&[&format!("connect-{i}")], &[EPERM]);
    }
    let made = [
        "make-in-root",
        "make-in-dev",
        "make-in-jail",
        "write-itself",
        "write-kernel",
    ];
    expect(&made, &[EACCES, EROFS]);
    expect(&["exec-shell"], &[ENOENT]);
    expect(&["exec-jail"], &[EACCES]);
    expect(
        &["other-architecture", "x32", "unknown", "clone3"],
        &[ENOSYS],
    );
    let refused = [
        "mkdir",
        "symlink",
        "unlink",
        "rename",
        "mknod",
        "chmod",
        "chown",
        "fork",
        "clone",
        "clone-user",
        "vfork",
        "execveat",
        "memfd",
        "ptrace-me",
        "ptrace-init",
        "read-init",
        "pidfd",
        "kill-init",
        "tgkill-init",
        "unshare-user",
        "unshare-mount",
        "setns",
        "mount",
        "umount",
        "open-tree",
        "fsopen",
        "pivot-root",
        "chroot",
        "bpf",
        "perf",
        "keyctl",
        "io-uring",
        "userfaultfd",
        "by-handle",
        "module",
        "kexec",
        "reboot",
        "dumpable",
        "keep-capabilities",
        "become-root",
        "become-group",
        "groups",
        "socket-unix",
        "socket-inet",
        "socket-netlink",
        "socket-vsock",
    ];
    expect(&refused, &[EPERM]);
}

/// It has its user, its files and a root with nothing in it.
fn check_possessions(log: &str) {
    let user = log
        .lines()
        .find_map(|line| line.strip_prefix("uid "))
        .unwrap();
    let words: Vec<&str> = user.split_whitespace().collect();
    let uid: u32 = words[0].parse().unwrap();
    assert!(USERS.contains(&uid), "{user}");
    let id = words[0];
    assert_eq!(words, [id, id, "gid", id, id, "groups", "0"]);
    let files = log.lines().filter(|line| line.starts_with("fd "));
    // /dev/null, three ends of pipes, two sockets.
    let expected = [
        "fd 0 20000",
        "fd 1 10000",
        "fd 2 10000",
        "fd 3 10000",
        "fd 4 140000",
        "fd 5 140000",
    ];
    assert_eq!(files.collect::<Vec<_>>(), expected, "{log}");
    let root = log.lines().filter_map(|line| line.strip_prefix("root "));
    for name in root {
        let known = ["boot", "dev", "etc", "lib", "lib64", "strata", "usr", "tmp"];
        assert!(known.contains(&name), "{name} in the root");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_guest_has_a_user_of_its_own_for_as_long_as_it_is_there() {
    let Some(mut world) = World::new(None).await else {
        return;
    };
    let first = world.create(world.guest("one", ""), true).await;
    let second = world.create(world.guest("two", ""), true).await;
    let (one, two) = (uid_of(&first), uid_of(&second));
    assert!(USERS.contains(&one) && USERS.contains(&two));
    assert_ne!(one, two);
    for vm in [&first, &second] {
        let pid = vm.process_id;
        for field in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(status(pid, field), "0000000000000000", "{field}");
        }
        assert_eq!(status(pid, "NoNewPrivs"), "1");
        assert_eq!(status(pid, "Seccomp"), "2");
        // A crash hands its memory, and the guest's, to nothing.
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let cores = limits.lines().find(|line| line.starts_with("Max core"));
        let cores: Vec<&str> = cores.unwrap().split_whitespace().collect();
        assert_eq!(cores[4..6], ["1", "1"], "{limits}");
        let filter = fs::read_to_string(format!("/proc/{pid}/coredump_filter")).unwrap();
        assert_eq!(filter.trim(), "00000000");
        // No file system but its own, none of which it can write to.
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
        assert!(
            !mounts.contains(" - proc ") && !mounts.contains(" - sysfs "),
            "{mounts}"
        );
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        for path in [
            "proc/self",
            "etc/passwd",
            "bin/sh",
            "usr/bin/env",
            "dev/kvm",
            "var",
        ] {
            assert!(!root.join(path).exists(), "{path}");
        }
    }
    // Its sockets are in a directory that it neither sees nor owns.
    let directory = world.directory_of("one");
    for path in [directory.clone(), directory.join("qmp.sock")] {
        assert_eq!(path.metadata().unwrap().uid(), 0);
    }
    assert_eq!(directory.metadata().unwrap().mode() & 0o777, 0o700);

    // It keeps its user over restarts of itself and of the daemon.
    world.daemon.kill();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    world.stop("one").await;
    let again = world.start("one").await;
    assert_eq!(uid_of(&again), one);
    // A user is free again with its guest: that one name begins its search
    // elsewhere each time, so only that it differs from others can be seen.
    world.destroy("one").await;
    let third = world.create(world.guest("one", ""), true).await;
    assert_ne!(uid_of(&third), two);
}

/// A record as versions before had them, and files that root alone may read.
#[tokio::test(flavor = "multi_thread")]
async fn a_guest_from_before_starts_as_a_user_of_its_own() {
    let Some(mut world) = World::new(None).await else {
        return;
    };
    let mut guest = world.guest("old", "");
    let secret = world.daemon.scratch().join("vmlinuz");
    fs::copy(kernel(), &secret).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    if let Some(Boot::Kernel(boot)) = &mut guest.boot {
        boot.kernel = secret.to_string_lossy().into_owned();
    }
    guest.disks = vec![strata_testkit::v1::VmDisk {
        bytes: 1 << 20,
        ..Default::default()
    }];
    world.create(guest, false).await;
    world.daemon.kill();
    let path = world.vms().join("records/old.json");
    let mut record: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let made = record["made"].as_object_mut().unwrap();
    assert!(made.remove("uid").is_some() && made.remove("pins").is_some());
    fs::write(&path, record.to_string()).unwrap();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    let vm = world.start("old").await;
    let uid = uid_of(&vm);
    assert!(USERS.contains(&uid));
    let record: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(record["made"]["uid"].as_u64(), Some(uid.into()));
    wait_for("the guest's console", BOOT, async || {
        match world.log("old").contains("ready-to-serve") {
            true => Ok(()),
            false => Err(world.log("old")),
        }
    })
    .await;
    assert_eq!(world.get("old").await.state(), PodState::Running);
    // The kernel that only root may read is still that.
    assert_eq!(secret.metadata().unwrap().mode() & 0o777, 0o600);
}
