//! What images take for granted because other runtimes have it: streams that
//! can be opened again, low ports, limits that runtimes find.

use strata_testkit::images::Image;
use strata_testkit::pods::{idle, script, shell};
use strata_testkit::v1::{ExecStart, PodLimits, PodSecurity, PodSpec};

use crate::pods::{World, logged, world};

/// The bit of NET_RAW.
const NET_RAW: u32 = 1 << 13;

fn with_host_users(spec: PodSpec) -> PodSpec {
    PodSpec {
        name: format!("{}-host", spec.name),
        security: Some(PodSecurity {
            user_namespace: Some(false),
            ..PodSecurity::default()
        }),
        ..spec
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_streams_can_be_opened_by_a_user_who_is_not_root() {
    let World { node, image, .. } = &world().await;
    let write = "echo out > /dev/stdout; echo err > /dev/stderr; \
        trap exit TERM; while :; do sleep 60 & wait; done";
    let mut spec = script("writer", image, write);
    spec.user = "app".into();
    for spec in [spec.clone(), with_host_users(spec)] {
        let name = spec.name.clone();
        node.run_pod(spec).await.unwrap();
        logged(node, &name, "out").await;
        logged(node, &name, "err").await;
        let said = node
            .exec(ExecStart {
                user: "1000".into(),
                ..shell(&name, "echo one > /dev/stdout; echo two > /dev/stderr")
            })
            .await
            .unwrap();
        assert_eq!((said.ok(), said.stderr.trim()), ("one", "two"), "{name}");
    }
    // Standard input, which is a named pipe.
    let mut reader = script(
        "reader",
        image,
        "exec 3< /dev/stdin && echo opened; cat <&3",
    );
    (reader.user, reader.stdin) = ("app".into(), true);
    node.run_pod(reader).await.unwrap();
    logged(node, "reader", "opened").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_with_capabilities_that_cannot_be_had_run_without() {
    let world = world().await;
    let node = &world.node;
    let busybox = std::fs::read("/bin/busybox").or_else(|_| std::fs::read("/usr/bin/busybox"));
    // As Debian packs ping: a program that asks for a capability no pod has.
    let image = Image::busybox()
        .layer()
        .capable("usr/bin/echo", NET_RAW, &busybox.unwrap())
        .write_layout(&world.daemon.scratch().join("capable"), "v1");
    let spec = idle("web", &image);
    for spec in [spec.clone(), with_host_users(spec)] {
        let name = spec.name.clone();
        node.run_pod(spec).await.unwrap();
        for user in ["root", "app"] {
            let start = ExecStart {
                user: user.into(),
                ..shell(&name, "exec /usr/bin/echo runs")
            };
            assert_eq!(
                node.exec(start).await.unwrap().ok(),
                "runs",
                "{name} {user}"
            );
        }
        let flags = "awk '$2 == \"/\" {print $4}' /proc/mounts";
        let flags = node.says(&name, flags).await;
        assert!(flags.contains("nosuid"), "{name}: {flags}");
    }
    let mut gaining = idle("gaining", &image);
    gaining.security = Some(PodSecurity {
        privilege_escalation: true,
        ..PodSecurity::default()
    });
    node.run_pod(gaining).await.unwrap();
    let flags = "awk '$2 == \"/\" {print $4}' /proc/mounts";
    let flags = node.says("gaining", flags).await;
    assert!(!flags.contains("nosuid"), "{flags}");
}

#[tokio::test(flavor = "multi_thread")]
async fn low_ports_are_open_to_users_who_are_not_root() {
    let World { node, image, .. } = &world().await;
    let spec = idle("web", image);
    for spec in [spec.clone(), with_host_users(spec)] {
        let name = spec.name.clone();
        node.run_pod(spec).await.unwrap();
        let page = "httpd -p 80 -h /etc && wget -qO- http://127.0.0.1/hostname";
        let start = ExecStart {
            user: "app".into(),
            ..shell(&name, page)
        };
        assert_eq!(node.exec(start).await.unwrap().ok(), name, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mounts_are_listed_and_cores_are_not_dumped() {
    let World { node, image, .. } = &world().await;
    node.run_pod(idle("web", image)).await.unwrap();
    let same = "readlink /etc/mtab; cmp /etc/mtab /proc/mounts && grep -c ' /proc ' /etc/mtab";
    assert_eq!(node.says("web", same).await, "/proc/mounts\n1");
    assert_eq!(node.says("web", "ulimit -Sc").await, "0");
    let mut none = idle("none", image);
    none.rlimits = vec!["core=0".into()];
    node.run_pod(none).await.unwrap();
    assert_eq!(node.says("none", "ulimit -c").await, "0");
}

/// Finds the limits as the JVM does: every controller among the mounts, the
/// group in it by `/proc/self/cgroup`. Where cgroups are v2 there is one.
const FIND_LIMITS: &str = r#"
find_group() {
    point=$(awk -v c="$1" '{ for (i = 7; i <= NF && $i != "-"; i++); kind = $(i + 1);
        if (kind == "cgroup2" && c == "") print $5;
        n = split($(i + 3), o, ","); for (j in o) if (kind == "cgroup" && o[j] == c) print $5 }' \
        /proc/self/mountinfo | head -n 1)
    path=$(awk -F: -v c="$1" '{ n = split($2, o, ","); if (c == "" && $2 == "") print $3;
        for (j in o) if (o[j] == c && c != "") print $3 }' /proc/self/cgroup)
    [ -n "$point" ] || { echo "no $1"; exit 1; }
    echo "$point$path"
}
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    group=$(find_group "") || { echo "$group"; exit 1; }
    cat $group/memory.max; cut -d' ' -f1 $group/cpu.max
else
    for one in memory cpu cpuacct cpuset; do
        find_group $one > /tmp/$one || { cat /tmp/$one; exit 1; }
    done
    cat $(cat /tmp/memory)/memory.limit_in_bytes $(cat /tmp/cpu)/cpu.cfs_quota_us
    for file in $(cat /tmp/cpuset)/cpuset.cpus $(cat /tmp/cpuset)/cpuset.mems \
        $(cat /tmp/cpuacct)/cpuacct.usage; do
        [ -n "$(cat $file)" ] || { echo "nothing in $file"; exit 1; }
    done
fi"#;

#[tokio::test(flavor = "multi_thread")]
async fn runtimes_find_the_limits_of_memory_and_cpu() {
    let World { node, image, .. } = &world().await;
    let mut spec = script("java", image, FIND_LIMITS);
    spec.set_restart(strata_testkit::v1::RestartPolicy::Never);
    spec.limits = Some(PodLimits {
        cpu_millis: Some(500),
        memory_bytes: Some(64 << 20),
        ..PodLimits::default()
    });
    for spec in [spec.clone(), with_host_users(spec)] {
        let name = spec.name.clone();
        node.run_pod(spec).await.unwrap();
        let ended = node.wait_pod(&name).await.unwrap();
        let said = node.pod_log(&name).await.unwrap();
        assert_eq!(ended.exit_code, Some(0), "{name}: {said:?}");
        assert_eq!(said, ["67108864", "50000"], "{name}");
    }
}
