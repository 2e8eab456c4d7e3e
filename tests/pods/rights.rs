//! Who may run what, who sees what, and what root of a pod cannot reach.

use strata_testkit::pods::{folder, idle};
use strata_testkit::v1::{
    CreateVolumeRequest, ListVolumesRequest, PodNetwork, PodSecurity, PodSpec, PodState,
    RemoveVolumeRequest, RestartPolicy,
};
use strata_testkit::{Code, Daemon, Node, refused};

use crate::pods::{World, world};

/// A client with a role, over the node's TLS port: from inside the daemon's
/// network namespace only, so by a daemon of its own outside of one.
async fn as_role(daemon: &Daemon, role: &str) -> Node {
    let out = daemon.scratch().join(role);
    let out_text = out.to_string_lossy().into_owned();
    let words = [
        "certificate",
        "issue",
        "--role",
        role,
        "--name",
        role,
        "--out",
        &out_text,
    ];
    daemon.told_cli().run(words).await.ok();
    daemon.node_with(&out).await.expect("the node answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_stay_inside_pods_and_viewers_see_no_secrets() {
    let daemon = Daemon::build(crate::pods::STRATA).start().await;
    let admin = daemon.node().await;
    let image = strata_testkit::images::busybox_layout(&daemon.scratch());
    let plain = |name: &str| PodSpec {
        network: PodNetwork::Isolated.into(),
        ..idle(name, &image)
    };
    let mut secret = plain("secret");
    secret.environment = vec!["TOKEN=hunter2".into()];
    admin.run_pod(secret).await.unwrap();

    let operator = as_role(&daemon, "operator").await;
    let outward: [fn(&mut PodSpec); 3] = [
        |pod| pod.volumes = vec![folder(std::path::Path::new("/etc"), "/x")],
        |pod| pod.network = PodNetwork::Host.into(),
        |pod| {
            pod.security = Some(PodSecurity {
                add_capabilities: vec!["SYS_ADMIN".into()],
                ..PodSecurity::default()
            });
        },
    ];
    for change in outward {
        let mut pod = plain("out");
        // An image of the node's disk is for admins too.
        pod.image = "registry.example/none:1".into();
        change(&mut pod);
        refused(operator.run_pod(pod).await, Code::PermissionDenied);
    }
    let seen = operator.pod("secret").await.unwrap();
    assert_eq!(seen.spec.unwrap().environment, ["TOKEN=hunter2"]);
    let viewer = as_role(&daemon, "viewer").await;
    for seen in [
        viewer.pod("secret").await.unwrap(),
        viewer.pods().await.unwrap().remove(0),
    ] {
        assert_eq!(seen.spec.unwrap().environment, ["TOKEN="]);
    }

    // Volumes are an operator's to make, and a viewer's to look at.
    let create = CreateVolumeRequest {
        name: "data".into(),
        size_bytes: None,
    };
    let remove = RemoveVolumeRequest {
        name: "data".into(),
    };
    let mut volumes = operator.client().volumes();
    volumes.create(create.clone()).await.unwrap();
    let mut looked = viewer.client().volumes();
    let seen = looked.list(ListVolumesRequest {}).await.unwrap();
    assert_eq!(seen.into_inner().volumes.len(), 1);
    refused(looked.create(create).await, Code::PermissionDenied);
    refused(looked.remove(remove.clone()).await, Code::PermissionDenied);
    volumes.remove(remove).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_etc_are_no_way_around_a_limit() {
    let World { node, image, .. } = &world().await;
    node.run_pod(idle("web", image)).await.unwrap();
    for file in ["hosts", "hostname", "resolv.conf"] {
        let said = node
            .sh("web", &format!("echo x >> /etc/{file}"))
            .await
            .unwrap();
        assert_ne!(said.ended.exit_code, Some(0), "{file}");
    }
    // As elsewhere, everybody may ping and listen on low ports.
    let settings = "cd /proc/sys/net/ipv4; cat ping_group_range ip_unprivileged_port_start";
    let said = node.sh("web", settings).await.unwrap();
    let words: Vec<_> = said.ok().split_whitespace().collect();
    assert_eq!(words, ["0", "2147483647", "0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_once_at_most_is_not_run_again_when_its_end_was_lost() {
    let mut world = world().await;
    let mut pod = idle("once", &world.image);
    pod.set_restart(RestartPolicy::Never);
    let pid = world.node.run_pod(pod).await.unwrap().process_id;
    world.daemon.kill();
    // Its init goes with all in it, while nobody looks.
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let parent = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))
        .unwrap();
    let init = rustix::process::Pid::from_raw(parent.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(init, rustix::process::Signal::KILL).unwrap();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    let pod = world.node.pod_becomes("once", PodState::Exited).await;
    assert_eq!(pod.process_id, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_costs_nothing() {
    let mut world = world().await;
    let id = world
        .node
        .create_pod(idle("kept", &world.image))
        .await
        .unwrap()
        .id;
    world.daemon.kill();
    let pods = world.daemon.data_dir().join("node/_pods");
    let record = pods.join("records/kept.json");
    let whole = std::fs::read(&record).unwrap();
    for broken in [&b""[..], b"{\"not\": \"a record\"}"] {
        std::fs::write(&record, broken).unwrap();
        world.daemon.restart().await;
        assert!(world.daemon.node().await.pods().await.unwrap().is_empty());
        world.daemon.kill();
        assert!(pods.join("roots").join(&id).exists(), "{broken:?}");
    }
    std::fs::write(&record, whole).unwrap();
    world.daemon.restart().await;
    world.daemon.node().await.start_pod("kept").await.unwrap();
}
