//! What a program in a pod may do, as the kernel tells it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use strata_testkit::pods::{dir, idle, script, shell, volume};
use strata_testkit::v1::pod_volume::Source;
use strata_testkit::v1::{ExecStart, PodSecurity, PodSpec};
use strata_testkit::{Code, field_of, refused};

use crate::pods::world;

fn with(name: &str, image: &str, security: PodSecurity) -> PodSpec {
    PodSpec {
        security: Some(security),
        ..idle(name, image)
    }
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// A line of `/proc/self/status`.
fn status(key: &str) -> String {
    format!("sed -n 's/^{key}:[[:space:]]*//p' /proc/self/status")
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_have_the_default_capabilities() {
    let world = world().await;
    let node = &world.node;
    node.run_pod(idle("usual", &world.image)).await.unwrap();
    for key in ["CapEff", "CapPrm", "CapBnd"] {
        assert_eq!(
            node.says("usual", &status(key)).await,
            "00000000a00405fb",
            "{key}"
        );
    }
    for key in ["CapInh", "CapAmb"] {
        assert_eq!(
            node.says("usual", &status(key)).await,
            "0000000000000000",
            "{key}"
        );
    }
    let as_user = |script: &str| ExecStart {
        user: "app".into(),
        ..shell("usual", script)
    };
    for key in ["CapEff", "CapPrm"] {
        let user = node.exec(as_user(&status(key))).await.unwrap();
        assert_eq!(user.ok(), "0000000000000000", "{key}");
    }
    let drop_all = PodSecurity {
        drop_capabilities: words(&["ALL"]),
        ..PodSecurity::default()
    };
    node.run_pod(with("none", &world.image, drop_all.clone()))
        .await
        .unwrap();
    assert_eq!(
        node.says("none", &status("CapEff")).await,
        "0000000000000000"
    );
    node.fails("none", "chown 1000 /srv").await;
    let one = PodSecurity {
        add_capabilities: words(&["CHOWN"]),
        ..drop_all
    };
    node.run_pod(with("one", &world.image, one)).await.unwrap();
    assert_eq!(
        node.says("one", &status("CapEff")).await,
        "0000000000000001"
    );
    node.says("one", "chown 1000 /srv").await;
    let network = PodSecurity {
        add_capabilities: words(&["NET_ADMIN"]),
        ..PodSecurity::default()
    };
    node.fails("usual", "ip link add br9 type bridge").await;
    node.run_pod(with("admin", &world.image, network))
        .await
        .unwrap();
    node.says(
        "admin",
        "ip link add br9 type bridge && ip link set br9 up && ip link show br9",
    )
    .await;
    // It is the pod's own network that it may change.
    let links = world.network.run(["ip", "-o", "link"]);
    assert!(!links.contains("br9"), "{links}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capability_does_not_open_the_machine() {
    let world = world().await;
    let node = &world.node;
    let makes = PodSecurity {
        add_capabilities: words(&["MKNOD", "NET_RAW"]),
        ..PodSecurity::default()
    };
    node.run_pod(with("maker", &world.image, makes))
        .await
        .unwrap();
    // Device nodes of the machine can be made, and not be opened.
    for script in [
        "mknod /dev/kmsg c 1 11 && head -c 1 /dev/kmsg",
        "mknod /dev/disk b 254 0 && head -c 1 /dev/disk",
        "mknod /tmp/null c 1 3 && echo x > /tmp/null",
        "mknod /dev/shm/null c 1 3 && echo x > /dev/shm/null",
    ] {
        let why = node.fails("maker", script).await;
        assert!(
            why.contains("not permitted") || why.contains("denied"),
            "{script}: {why}"
        );
    }
    node.says(
        "maker",
        "echo x > /dev/null; for d in zero random urandom; do head -c 1 /dev/$d; done",
    )
    .await;
    node.says("maker", "ping -c 1 127.0.0.1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn system_calls_are_filtered() {
    let world = world().await;
    let node = &world.node;
    node.run_pod(idle("usual", &world.image)).await.unwrap();
    let modes = format!("{}; {}", status("Seccomp"), status("NoNewPrivs"));
    assert_eq!(node.says("usual", &modes).await, "2\n1");
    for script in [
        "unshare -n true",
        "unshare -U true",
        "mount -t proc p /tmp",
        "umount /proc",
        "dmesg",
        "hostname x",
    ] {
        let why = node.fails("usual", script).await;
        let told = why.contains("not permitted") || why.contains("denied");
        assert!(told, "{script}: {why}");
    }
    // What programs do all day works.
    node.says("usual", "mkfifo /tmp/p; (echo x > /tmp/p &); cat /tmp/p; ps; ln -s a /tmp/l; kill -0 $$; nproc; date").await;
    let open = PodSecurity {
        any_system_call: true,
        privilege_escalation: true,
        ..PodSecurity::default()
    };
    node.run_pod(with("open", &world.image, open))
        .await
        .unwrap();
    assert_eq!(node.says("open", &modes).await, "0\n0");
}

#[tokio::test(flavor = "multi_thread")]
async fn resource_limits_and_settings_are_the_pods_own() {
    let world = world().await;
    let node = &world.node;
    let mut low = idle("low", &world.image);
    low.rlimits = words(&["nofile=64:128", "core=0"]);
    low.sysctls = words(&[
        "net.core.somaxconn=99",
        "net.ipv4.ip_unprivileged_port_start=0",
        "kernel.shm_rmid_forced=1",
    ]);
    node.run_pod(low).await.unwrap();
    let limits = node.says("low", "ulimit -Sn; ulimit -Hn; ulimit -c").await;
    assert_eq!(limits, "64\n128\n0");
    let set = "cat /proc/sys/net/core/somaxconn /proc/sys/kernel/shm_rmid_forced";
    assert_eq!(node.says("low", set).await, "99\n1");
    let outside = world.network.run(["cat", "/proc/sys/net/core/somaxconn"]);
    assert_ne!(outside.trim(), "99");
    // Beyond what the machine allows is told, or given where it may be.
    let mut high = idle("high", &world.image);
    high.rlimits = words(&["nofile=1048576:1073741816"]);
    let error = node.run_pod(high).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert_eq!(field_of(&error).as_deref(), Some("pod.rlimits"), "{error}");
    assert!(error.message().contains("not permitted"), "{error}");
    // A setting that there is not.
    let mut unknown = idle("unknown", &world.image);
    unknown.sysctls = words(&["net.ipv4.no_such_setting=1"]);
    let error = node.run_pod(unknown).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert_eq!(field_of(&error).as_deref(), Some("pod.sysctls"), "{error}");
    assert!(
        error.message().contains("net.ipv4.no_such_setting"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_users_are_mapped_to_unprivileged_host_ids() {
    let world = world().await;
    let node = &world.node;
    let own = PodSecurity {
        user_namespace: Some(true),
        ..PodSecurity::default()
    };
    let shared = world.daemon.scratch().join("shared");
    fs::create_dir(&shared).unwrap();
    let mut first = with("first", &world.image, own.clone());
    first.volumes = vec![dir(&shared, "/shared")];
    first.sysctls = words(&["net.core.somaxconn=99"]);
    first.hostname = "mapped".into();
    let first = node.run_pod(first).await.unwrap();
    let second = node
        .run_pod(with("second", &world.image, own))
        .await
        .unwrap();
    let owner = |pid: i64| fs::metadata(format!("/proc/{pid}")).unwrap().uid();
    let (one, two) = (owner(first.process_id), owner(second.process_id));
    assert!(
        one >= 1 << 30 && two >= 1 << 30 && one.abs_diff(two) >= 65536,
        "{one} {two}"
    );
    let map = node.says("first", "cat /proc/self/uid_map").await;
    let map: Vec<_> = map.split_whitespace().map(str::to_owned).collect();
    assert_eq!(map, ["0", &one.to_string(), "65536"]);
    assert_eq!(
        node.says("first", "id -u; cat /proc/sys/net/core/somaxconn; hostname")
            .await,
        "0\n99\nmapped"
    );
    // Whoever it is outside: on the disk it is root.
    node.says(
        "first",
        "echo x > /shared/file; echo x > /srv/file; chown 1000 /srv/file",
    )
    .await;
    let file = fs::metadata(shared.join("file")).unwrap();
    assert_eq!((file.uid(), file.gid()), (0, 0));
    assert_eq!(
        node.says("first", "stat -c %u /shared/file /srv/file")
            .await,
        "0\n1000"
    );
    let mapped = |script: &str| ExecStart {
        user: "app".into(),
        ..shell("first", script)
    };
    let session = node
        .exec(mapped("id -u; touch /tmp/mine; stat -c %u /tmp/mine"))
        .await
        .unwrap();
    assert_eq!(session.ok(), "1000\n1000");
    assert_eq!(node.says("first", &status("Seccomp")).await, "2");
    node.fails("first", "echo 1 > /proc/sys/kernel/panic").await;
    node.says(
        "first",
        "tty; echo x > /dev/null; head -c1 /dev/urandom >/dev/null; ls /sys/class/net; true",
    )
    .await;
    // What it wrote is there after a stop.
    node.stop_pod("first").await.unwrap();
    node.start_pod("first").await.unwrap();
    assert_eq!(
        node.says("first", "cat /srv/file /shared/file").await,
        "x\nx"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_can_be_unchangeable() {
    let world = world().await;
    let node = &world.node;
    let fixed = PodSecurity {
        read_only_root: true,
        ..PodSecurity::default()
    };
    let mut pod = with("fixed", &world.image, fixed);
    pod.volumes = vec![volume(Source::MemoryBytes(1 << 20), "/scratch/here")];
    pod.working_directory = "/made".into();
    node.run_pod(pod).await.unwrap();
    for path in ["/x", "/srv/x", "/etc/passwd", "/made/x"] {
        let why = node.fails("fixed", &format!("echo x >> {path}")).await;
        assert!(why.contains("Read-only"), "{path}: {why}");
    }
    node.says(
        "fixed",
        "echo x > /scratch/here/x; echo x > /dev/shm/x; cat /etc/hosts; pwd",
    )
    .await;
    let once = script("once", &world.image, "touch /x");
    node.run_pod(once).await.unwrap();
    assert_eq!(node.wait_pod("once").await.unwrap().exit_code, Some(0));
    refused(node.sh("once", "true").await, Code::FailedPrecondition);
}
