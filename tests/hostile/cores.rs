//! What crashes leaves no memory behind for others: neither daemons nor the
//! shim, nor QEMU, nor, by default, pods, whatever the host does with cores.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use strata_testkit::pods::{idle, script};
use strata_testkit::v1::{Pod, PodState};
use strata_testkit::{Daemon, skip, wait_for};

use super::{STRATA, TEST_TIMEOUT};
use crate::pods::{World, world};

/// Too little for a file, and what the kernel starts no core program for.
const NONE: &str = "1";

/// Soft and hard limit of the cores of a process.
fn limits(pid: i64) -> (String, String) {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = text.lines().find(|line| line.starts_with("Max core file"));
    let mut words = line.unwrap().split_whitespace().skip(4);
    let mut word = || words.next().unwrap().to_owned();
    (word(), word())
}

fn parent(pid: i64) -> i64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.unwrap().trim().parse().unwrap()
}

/// Whether cores are files in the directory of the process that crashed.
fn cores_are_local_files() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let local = !pattern.starts_with(['|', '@', '/']);
    if !local {
        skip(format!("cores of this host go elsewhere: {pattern}"));
    }
    local
}

/// Has a process crash while its limit of cores allows every size.
fn crash(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    let all = Rlimit {
        current: None,
        maximum: None,
    };
    prlimit(pid, Resource::Core, all).unwrap();
    kill_process(pid.unwrap(), Signal::ABORT).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_leave_no_core_whatever_their_limit_is() {
    for role in ["up", "server", "node"] {
        let mut daemon = Daemon::build(STRATA).role(role).start().await;
        assert_eq!(limits(daemon.pid().into()).0, NONE, "{role}");
        if !cores_are_local_files() {
            continue;
        }
        crash(daemon.pid());
        let (status, _) = daemon.terminate().await;
        assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{role}");
        assert!(!status.core_dumped(), "{role}");
        daemon.restart().await;
    }
}

/// Threads of a daemon change their ids to make roots of pods, which the kernel
/// answers by what `fs.suid_dumpable` says.
#[tokio::test(flavor = "multi_thread")]
async fn daemon_that_made_pods_leaves_no_core_either() {
    let mut world = world().await;
    let pod = world.node.run_pod(idle("web", &world.image)).await.unwrap();
    let init = parent(pod.process_id);
    let shim = parent(init);
    assert_eq!(limits(init).0, NONE);
    assert_eq!(limits(shim).0, NONE);
    if !cores_are_local_files() {
        return;
    }
    // The shim is not our child: it would leave a file.
    let directory = fs::read_link(format!("/proc/{shim}/cwd")).unwrap();
    let before = cores_in(&directory);
    crash(world.daemon.pid());
    let (status, _) = world.daemon.terminate().await;
    assert!(!status.core_dumped());
    crash(u32::try_from(shim).unwrap());
    wait_for("the shim to end", TEST_TIMEOUT, async || {
        let left = fs::read_to_string(format!("/proc/{shim}/stat"));
        match left {
            Err(_) => Ok(()),
            Ok(stat) if stat.contains(") Z ") => Ok(()),
            Ok(stat) => Err(stat),
        }
    })
    .await;
    assert_eq!(cores_in(&directory), before);
    world.daemon.restart().await;
}

fn cores_in(directory: &std::path::Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut cores: Vec<_> = paths
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name == "core" || name.starts_with("core.")
        })
        .collect();
    cores.sort();
    cores
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_leaves_a_core_only_where_it_asks_for_one() {
    let World { node, image, .. } = &world().await;
    let crash = |name: &str, first: &str| {
        // The shell that crashes is another one than the pod's.
        let text = format!("cd /tmp; {first} sh -c 'kill -SEGV $$'; ls /tmp; echo done");
        script(name, image, &text)
    };
    let left = async |name: &str| {
        let ended: Pod = node.wait_pod(name).await.unwrap();
        assert_eq!(ended.state, i32::from(PodState::Exited), "{ended:?}");
        let log = node.pod_log(name).await.unwrap().join("\n");
        assert!(log.contains("done"), "{log}");
        log.contains("core")
    };
    let pod = node.run_pod(idle("limits", image)).await.unwrap();
    assert_eq!(limits(pod.process_id).0, NONE);
    node.run_pod(crash("quiet", "")).await.unwrap();
    assert!(!left("quiet").await);
    let mut none = crash("none", "");
    none.rlimits = vec!["core=0".into()];
    node.run_pod(none).await.unwrap();
    assert!(!left("none").await);
    if !cores_are_local_files() {
        let (_, hard) = limits(pod.process_id);
        assert_eq!(hard, NONE, "a pod cannot feed a program of the host");
        return;
    }
    // What the specification allows, and what a program asks for, are dumped:
    // into the pod's own root.
    let mut asked = crash("asked", "");
    asked.rlimits = vec!["core=unlimited".into()];
    node.run_pod(asked).await.unwrap();
    assert!(left("asked").await);
    node.run_pod(crash("raised", "ulimit -c unlimited;"))
        .await
        .unwrap();
    assert!(left("raised").await);
}
