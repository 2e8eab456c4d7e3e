//! What a pod may use at most, and how it is told when it wants more.

use std::fs;
use std::path::PathBuf;

use strata_testkit::pods::{idle, script};
use strata_testkit::v1::{PodLimits, PodState, RestartPolicy};
use strata_testkit::{Code, TEST_TIMEOUT, field_of, wait_for};

use crate::pods::{World, world};

/// A file of the pod's control group, in whichever hierarchy has it.
fn group_file(world: &World, pod: &str, names: [&str; 2]) -> String {
    let groups = world.daemon.host().look().cgroups;
    let of_pod = |path: &&PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().contains(pod))
    };
    let files = groups
        .iter()
        .filter(of_pod)
        .flat_map(|group| names.map(|name| group.join(name)));
    let texts: Vec<String> = files
        .filter_map(|file| fs::read_to_string(file).ok())
        .collect();
    texts
        .first()
        .map(|text| text.trim().to_owned())
        .unwrap_or_else(|| panic!("{groups:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_memory_is_distinguished_from_other_exits() {
    let world = world().await;
    let node = &world.node;
    let mut hungry = script("hungry", &world.image, "tail /dev/zero");
    hungry.entrypoint = ["/bin/busybox", "tail", "/dev/zero"]
        .map(str::to_owned)
        .to_vec();
    hungry.restart = RestartPolicy::Never.into();
    hungry.limits = Some(PodLimits {
        memory_bytes: Some(16 << 20),
        ..PodLimits::default()
    });
    node.run_pod(hungry).await.unwrap();
    let pod = node.wait_pod("hungry").await.unwrap();
    assert_eq!(pod.state(), PodState::Exited);
    assert!(pod.out_of_memory, "{pod:?}");
    assert!(pod.reason.contains("out of memory"), "{}", pod.reason);
    // Killed by somebody, or ended by itself: no lack of memory.
    for (name, script_text, ends) in [
        ("killed", "kill -9 $$", (None, Some(9))),
        ("ended", "exit 9", (Some(9), None)),
    ] {
        let mut spec = script(name, &world.image, script_text);
        spec.restart = RestartPolicy::Never.into();
        node.run_pod(spec).await.unwrap();
        let pod = node.wait_pod(name).await.unwrap();
        assert_eq!(
            (pod.exit_code, pod.signal, pod.out_of_memory),
            (ends.0, ends.1, false),
            "{name}"
        );
    }
    // A further process that is too hungry does not end the pod.
    let mut web = idle("web", &world.image);
    web.limits = Some(PodLimits {
        memory_bytes: Some(16 << 20),
        ..PodLimits::default()
    });
    node.run_pod(web).await.unwrap();
    let done = node.sh("web", "tail /dev/zero").await.unwrap();
    assert_ne!(done.ended.exit_code, Some(0), "{done:?}");
    assert_eq!(node.pod("web").await.unwrap().state(), PodState::Running);
    node.says("web", "true").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_and_processors_are_limited() {
    let world = world().await;
    let node = &world.node;
    let mut few = idle("few", &world.image);
    few.limits = Some(PodLimits {
        pids: Some(10),
        cpu_millis: Some(250),
        ..PodLimits::default()
    });
    few.cpu_shares = 512;
    node.run_pod(few).await.unwrap();
    let why = node
        .fails(
            "few",
            "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done; wait",
        )
        .await;
    assert!(why.contains("can't fork"), "{why}");
    node.says("few", "killall sleep; true").await;
    let quota = group_file(&world, "few", ["cpu.max", "cpu.cfs_quota_us"]);
    assert_eq!(quota.split(' ').next(), Some("25000"));
    let shares = group_file(&world, "few", ["cpu.weight", "cpu.shares"]);
    assert!(["512", "20"].contains(&shares.as_str()), "{shares}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_disk_is_limited_and_counted() {
    let world = world().await;
    let node = &world.node;
    let mut small = idle("small", &world.image);
    small.limits = Some(PodLimits {
        disk_bytes: Some(32 << 20),
        ..PodLimits::default()
    });
    node.run_pod(small).await.unwrap();
    node.says("small", "dd if=/dev/zero of=/srv/fits bs=1M count=8; sync")
        .await;
    let used = node.pod("small").await.unwrap().usage.unwrap().disk_bytes;
    assert!((8 << 20..20 << 20).contains(&used), "{used}");
    let why = node
        .fails("small", "dd if=/dev/zero of=/srv/big bs=1M count=40")
        .await;
    assert!(
        why.contains("No space left") || why.contains("quota"),
        "{why}"
    );
    // Elsewhere it may write as before, and the pod goes on.
    node.says(
        "small",
        "echo x > /dev/shm/x; rm /srv/big /srv/fits; echo y > /srv/y",
    )
    .await;
    node.stop_pod("small").await.unwrap();
    node.start_pod("small").await.unwrap();
    assert_eq!(node.says("small", "cat /srv/y").await, "y");
    wait_for("the figures", TEST_TIMEOUT, async || {
        let used = node.pod("small").await.unwrap().usage.unwrap().disk_bytes;
        if used < 8 << 20 {
            Ok(())
        } else {
            Err(used.to_string())
        }
    })
    .await;
    let mut tiny = idle("tiny", &world.image);
    tiny.limits = Some(PodLimits {
        disk_bytes: Some(1 << 10),
        ..PodLimits::default()
    });
    let error = node.run_pod(tiny).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert_eq!(field_of(&error).as_deref(), Some("pod.limits.disk_bytes"));
}
