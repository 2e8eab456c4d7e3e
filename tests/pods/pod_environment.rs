//! What a program in a pod sees: itself, its own files, and nothing of the
//! machine.

use std::fs;

use strata_testkit::images::Image;
use strata_testkit::pods::{idle, script};
use strata_testkit::v1::{PodLimits, PodNetwork, PodSecurity, PodSpec};
use strata_testkit::{Code, field_of, refused};

use crate::pods::{World, world};

#[tokio::test(flavor = "multi_thread")]
async fn pod_has_its_own_namespaces() {
    let world = world().await;
    let node = &world.node;
    let web = node.run_pod(idle("web", &world.image)).await.unwrap();
    let mut named = idle("named", &world.image);
    named.hostname = "elsewhere".into();
    node.run_pod(named).await.unwrap();
    for name in ["pid", "mnt", "uts", "ipc", "net", "cgroup"] {
        let inside = node
            .says("web", &format!("readlink /proc/self/ns/{name}"))
            .await;
        let ours = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        let other = node
            .says("named", &format!("readlink /proc/self/ns/{name}"))
            .await;
        assert_ne!(inside, ours.to_string_lossy(), "{name}");
        // Each of its processes has a cgroup namespace for itself; all else
        // they share, and no two pods do.
        if name != "cgroup" {
            let seen = fs::read_link(format!("/proc/{}/ns/{name}", web.process_id)).unwrap();
            assert_eq!(inside, seen.to_string_lossy(), "{name}");
            assert_ne!(inside, other, "{name}");
        }
    }
    // Init, main, a sleep of main, the shell and ps.
    let processes = node.says("web", "ls /proc | grep -c '^[0-9]'").await;
    assert!(processes.parse::<u32>().unwrap() <= 7, "{processes}");
    assert_eq!(
        node.says("web", "hostname; cat /etc/hostname").await,
        "web\nweb"
    );
    let asked = "hostname; cat /etc/hostname; echo $HOSTNAME; uname -n";
    let asked = node.says("named", asked).await;
    assert_eq!(asked, "elsewhere\nelsewhere\nelsewhere\nelsewhere");
    let groups = node
        .says("web", "cut -d: -f3 /proc/self/cgroup | sort -u")
        .await;
    assert_eq!(groups, "/");
    let interfaces = node.says("web", "ls /sys/class/net").await;
    assert_eq!(
        interfaces.split_whitespace().collect::<Vec<_>>(),
        ["eth0", "lo"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_has_the_expected_mounts() {
    let world = world().await;
    let node = &world.node;
    node.run_pod(idle("web", &world.image)).await.unwrap();
    let devices = "echo x > /dev/null && head -c 4 /dev/zero | od -An -tx1 && \
        head -c 8 /dev/urandom | wc -c && head -c 8 /dev/random | wc -c && \
        ! echo x 2>/dev/null > /dev/full && ls /dev | tr '\\n' ' '";
    let said = node.says("web", devices).await;
    let lines: Vec<_> = said.lines().map(str::trim).collect();
    assert_eq!(lines[..3], ["00 00 00 00", "8", "8"]);
    assert_eq!(
        lines[3],
        "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero"
    );
    let kinds = node.says("web", "cut -d' ' -f2,3 /proc/mounts").await;
    for mount in [
        "/proc proc",
        "/sys sysfs",
        "/dev tmpfs",
        "/dev/pts devpts",
        "/dev/shm tmpfs",
        "/dev/mqueue mqueue",
    ] {
        assert!(kinds.lines().any(|line| line == mount), "{mount}: {kinds}");
    }
    // Shared memory is there and bounded.
    node.says("web", "echo x > /dev/shm/x && cat /dev/shm/x")
        .await;
    let why = node
        .fails("web", "dd if=/dev/zero of=/dev/shm/big bs=1M count=65")
        .await;
    assert!(why.contains("No space left"), "{why}");
    for script in [
        "echo x > /sys/kernel/uevent_seqnum",
        "touch /sys/x",
        "echo 1 > /proc/sys/kernel/panic",
        "echo x > /proc/sysrq-trigger",
        "mount -t tmpfs x /tmp",
        "mknod /tmp/mem c 1 1 && cat /tmp/mem",
        "mknod /dev/mem c 1 1 && head -c 1 /dev/mem",
        "mknod /dev/vda b 254 0 && head -c 1 /dev/vda",
    ] {
        node.fails("web", script).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_cannot_read_masked_host_information() {
    let world = world().await;
    let node = &world.node;
    node.run_pod(idle("web", &world.image)).await.unwrap();
    for file in [
        "/proc/kcore",
        "/proc/keys",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/proc/latency_stats",
    ] {
        let size = node
            .says(
                "web",
                &format!("[ ! -e {file} ] || head -c 1 {file} | wc -c"),
            )
            .await;
        assert!(size.is_empty() || size == "0", "{file}: {size}");
    }
    for dir in [
        "/proc/acpi",
        "/proc/scsi",
        "/sys/firmware",
        "/sys/devices/virtual/powercap",
    ] {
        let files = node
            .says("web", &format!("[ ! -e {dir} ] || ls -A {dir}"))
            .await;
        assert_eq!(files, "", "{dir}");
    }
    // The way of its mounts on the machine is not told, nor is the machine to
    // be reached through any of its processes.
    let data = world.daemon.data_dir();
    let data = data.to_string_lossy();
    let seen = node.says("web", "cat /proc/self/mountinfo").await;
    let outside = |line: &&str| {
        line.split(' ')
            .nth(4)
            .is_some_and(|at| data.starts_with(at) && at != "/")
    };
    assert_eq!(seen.lines().find(outside), None);
    // Of control groups it sees its own: that of the process, or of the pod,
    // which is one above that of each of its processes.
    for group in seen.lines().filter(|line| line.contains(" - cgroup")) {
        let words: Vec<_> = group.split(' ').collect();
        assert!(["/", "/.."].contains(&words[3]), "{group}");
        assert!(words[4].starts_with("/sys/fs/cgroup"), "{group}");
    }
    let reach = format!(
        "for p in /proc/[0-9]*; do ls -d $p/root{data} $p/cwd{data} 2>/dev/null; done; true"
    );
    assert_eq!(node.says("web", &reach).await, "");
    let init =
        "for f in /proc/1/fd/* /proc/1/root /proc/1/cwd /proc/1/exe; do readlink $f; done; true";
    assert_eq!(node.says("web", init).await, "");
    node.fails("web", "cat /proc/1/maps").await;
    // Init cannot be ended from inside.
    node.says("web", "kill -9 1; true").await;
    node.says("web", "true").await;
}

/// What a pod wrote that ran to its end.
async fn log_of(world: &World, spec: PodSpec) -> Vec<String> {
    let name = spec.name.clone();
    world.node.run_pod(spec).await.expect("it runs");
    world.node.wait_pod(&name).await.expect("it ends");
    world.node.pod_log(&name).await.expect("it has a log")
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_environment_is_exactly_as_requested() {
    let world = world().await;
    let mut asked = script(
        "asked",
        &world.image,
        "env -u SHLVL -u PWD -u OLDPWD env | sort",
    );
    asked.environment = vec![
        "A=1".into(),
        "A=2".into(),
        "EMPTY=".into(),
        "EQ=a=b c".into(),
    ];
    let expected = [
        "A=2",
        "EMPTY=",
        "EQ=a=b c",
        "GREETING=hello from busybox",
        "HOME=/root",
        "HOSTNAME=asked",
        "PATH=/bin:/sbin:/usr/bin",
    ];
    assert_eq!(log_of(&world, asked).await, expected);
    // An image that names no PATH gets the one everybody has.
    let bare = Image::busybox().no_environment();
    let bare = bare.write_layout(&world.daemon.scratch().join("bare"), "v1");
    let lines = log_of(
        &world,
        script("bare", &bare, "env -u SHLVL -u PWD -u OLDPWD env | sort"),
    )
    .await;
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(lines, ["HOME=/root", "HOSTNAME=bare", path]);
}

#[tokio::test(flavor = "multi_thread")]
async fn entry_point_and_arguments_go_together_as_users_know_it() {
    let world = world().await;
    let image = Image::busybox()
        .entrypoint(["echo", "entry"])
        .cmd(["command"]);
    let image = image.write_layout(&world.daemon.scratch().join("combo"), "v1");
    let cases: [(&str, &[&str], &[&str], &str); 4] = [
        ("both", &[], &[], "entry command"),
        ("arguments", &[], &["mine"], "entry mine"),
        ("entrypoint", &["echo", "other"], &[], "other"),
        ("all", &["echo", "other"], &["mine"], "other mine"),
    ];
    for (name, entrypoint, arguments, said) in cases {
        let spec = PodSpec {
            name: name.into(),
            image: image.clone(),
            entrypoint: entrypoint.iter().map(ToString::to_string).collect(),
            arguments: arguments.iter().map(ToString::to_string).collect(),
            ..PodSpec::default()
        };
        assert_eq!(log_of(&world, spec).await, [said], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_directories_are_found_in_the_image() {
    let world = world().await;
    let node = &world.node;
    let ids = "id -u; id -g; id -G; echo $HOME; pwd";
    let cases = [
        ("name", "app", "1000 1000 1000 2000 /home/app"),
        ("number", "1000", "1000 1000 1000 2000 /home/app"),
        ("group", "app:extra", "1000 2000 2000 /home/app"),
        ("unknown", "4242", "4242 0 0 /"),
        ("pair", "4242:4343", "4242 4343 4343 /"),
        ("root", "", "0 0 0 /root"),
    ];
    for (name, user, expected) in cases {
        let mut spec = script(name, &world.image, ids);
        spec.user = user.into();
        // Made when it is missing.
        spec.working_directory = format!("/made/for/{name}");
        let said = log_of(&world, spec).await.join(" ");
        assert_eq!(said, format!("{expected} /made/for/{name}"));
    }
    for user in ["nobody", "app:nogroup", "4294967295", "-1", ":app:x"] {
        let mut spec = idle("bad", &world.image);
        spec.user = user.into();
        let error = node.run_pod(spec).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{user}: {error}");
        assert_eq!(field_of(&error).as_deref(), Some("pod.user"), "{user}");
        node.destroy_pod("bad").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_image_says_how_it_is_stopped() {
    let world = world().await;
    let node = &world.node;
    let image = Image::busybox().set("StopSignal", "SIGQUIT".into());
    let image = image.write_layout(&world.daemon.scratch().join("quit"), "v1");
    let quit = "trap 'echo quit; exit 7' QUIT; trap 'echo term; exit 8' TERM; echo up; \
        while :; do sleep 60 & wait; done";
    let mut spec = script("quit", &image, quit);
    spec.stop_grace_ms = Some(20_000);
    node.run_pod(spec).await.unwrap();
    crate::pods::logged(node, "quit", "up").await;
    let pod = node.stop_pod("quit").await.unwrap();
    assert_eq!(pod.exit_code, Some(7), "{}", pod.reason);
    assert_eq!(node.pod_log("quit").await.unwrap(), ["up", "quit"]);
    // One that does not listen is killed when its time is over.
    let deaf = script(
        "deaf",
        &world.image,
        "trap '' TERM; echo up; while :; do sleep 1; done",
    );
    node.run_pod(deaf).await.unwrap();
    crate::pods::logged(node, "deaf", "up").await;
    let pod = node.stop_pod("deaf").await.unwrap();
    assert_eq!(
        (pod.exit_code, pod.signal),
        (None, Some(9)),
        "{}",
        pod.reason
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn networks_can_be_the_machines_or_none() {
    let world = world().await;
    let node = &world.node;
    let mut host = idle("host", &world.image);
    host.network = PodNetwork::Host.into();
    let pod = node.run_pod(host).await.unwrap();
    assert_eq!(pod.address, "");
    let inside = node.says("host", "readlink /proc/self/ns/net").await;
    let outside = world.network.run(["readlink", "/proc/self/ns/net"]);
    assert_eq!(inside, outside.trim());
    assert_eq!(node.says("host", "hostname").await, "host");
    let mut alone = idle("alone", &world.image);
    alone.network = PodNetwork::Isolated.into();
    node.run_pod(alone).await.unwrap();
    let links = node.says("alone", "ls /sys/class/net; ip -o addr").await;
    assert!(
        links.starts_with("lo\n") && links.contains("127.0.0.1"),
        "{links}"
    );
    let mut both = idle("both", &world.image);
    both.network = PodNetwork::Host.into();
    both.ports = vec!["8080:80".into()];
    refused(node.run_pod(both).await, Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_sees_only_its_own_cgroup_limits() {
    let world = world().await;
    let node = &world.node;
    node.run_pod(idle("other", &world.image)).await.unwrap();
    let limits = PodLimits {
        memory_bytes: Some(96 << 20),
        cpu_millis: Some(1500),
        pids: Some(77),
        ..PodLimits::default()
    };
    let plain = PodSpec {
        limits: Some(limits),
        ..idle("plain", &world.image)
    };
    let mapped = PodSpec {
        name: "mapped".into(),
        security: Some(PodSecurity {
            user_namespace: Some(true),
            ..PodSecurity::default()
        }),
        ..plain.clone()
    };
    let v2 = fs::exists("/sys/fs/cgroup/cgroup.controllers").unwrap();
    let files = match v2 {
        true => "memory.max cpu.max pids.max",
        false => "memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us pids/pids.max",
    };
    let expected = match v2 {
        true => "100663296\n150000 100000\n77",
        false => "100663296\n150000\n77",
    };
    for spec in [plain, mapped] {
        let name = spec.name.clone();
        node.run_pod(spec).await.unwrap();
        let look = format!("cd /sys/fs/cgroup && cat {files}");
        assert_eq!(node.says(&name, &look).await, expected, "{name}");
        // The process that asks is among those that it sees.
        let member = match v2 {
            true => "cat /sys/fs/cgroup/*/cgroup.procs | grep -c .",
            false => "grep -c . /sys/fs/cgroup/memory/tasks",
        };
        let members: u32 = node.says(&name, member).await.parse().unwrap();
        assert!(members >= 1, "{name}: {members}");
        // Looked at, not touched; and no way up.
        let why = node
            .fails(
                &name,
                &format!("cd /sys/fs/cgroup; for f in {files}; do echo 1 > $f; done"),
            )
            .await;
        assert!(why.contains("Read-only"), "{name}: {why}");
        node.fails(&name, "mkdir /sys/fs/cgroup/x /sys/fs/cgroup/memory/x")
            .await;
        let mounts = node
            .says(&name, "grep ' /sys/fs/cgroup' /proc/self/mounts")
            .await;
        for mount in mounts.lines() {
            for flag in ["ro,", "nosuid", "nodev", "noexec"] {
                assert!(mount.contains(flag), "{name}: {mount}");
            }
        }
        let others = node
            .says(&name, "find /sys/fs/cgroup | grep -c other || true")
            .await;
        assert_eq!(others, "0", "{name}");
        let up = node
            .says(&name, "find /sys/fs/cgroup/ -name release_agent")
            .await;
        assert_eq!(up, "", "{name}");
    }
}
