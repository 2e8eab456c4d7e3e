//! Who may run what, who sees what, and what root of a pod cannot reach.

use strata_testkit::pods::{dir, idle};
use strata_testkit::v1::{
    CreateVolumeRequest, ListVolumesRequest, PodLimits, PodNetwork, PodSecurity, PodSpec, PodState,
    RemoveVolumeRequest, RestartPolicy,
};
use strata_testkit::{Code, Daemon, refused};

use crate::pods::{World, world};

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

    let operator = daemon.node_as("operator").await;
    let outward: [fn(&mut PodSpec); 6] = [
        |pod| pod.rlimits = vec!["rtprio=99".into()],
        |pod| pod.rlimits = vec!["nice=0:40".into()],
        |pod| {
            pod.security = Some(PodSecurity {
                user_namespace: Some(false),
                ..PodSecurity::default()
            });
        },
        |pod| pod.volumes = vec![dir(std::path::Path::new("/etc"), "/x")],
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
    let viewer = daemon.node_as("viewer").await;
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
    let world = world().await;
    let World { node, image, .. } = &world;
    let mut limited = idle("limited", image);
    limited.limits = Some(PodLimits {
        disk_bytes: Some(8 << 20),
        ..PodLimits::default()
    });
    node.run_pod(limited).await.unwrap();
    let hosts = node.says("limited", "cat /etc/hosts").await;
    for file in ["hosts", "hostname", "resolv.conf"] {
        let add = format!("echo '# own' >> /etc/{file} && tail -n 1 /etc/{file}");
        assert_eq!(node.says("limited", &add).await, "# own", "{file}");
    }
    let fill = "dd if=/dev/zero of=/etc/hosts bs=1M count=32 2>&1; dd if=/dev/zero of=/fill bs=1k";
    let said = node.sh("limited", fill).await.unwrap();
    let full = ["No space left", "quota exceeded"];
    assert!(full.iter().any(|why| said.stdout.contains(why)), "{said:?}");
    // The node's own are what they were, and a pod without room starts.
    node.stop_pod("limited").await.unwrap();
    node.start_pod("limited").await.unwrap();
    assert_eq!(node.says("limited", "cat /etc/hosts").await, hosts);
    // A root that cannot be changed has them too.
    let mut fixed = idle("fixed", image);
    fixed.security = Some(PodSecurity {
        read_only_root: true,
        ..PodSecurity::default()
    });
    node.run_pod(fixed).await.unwrap();
    let said = node.says("fixed", "cat /etc/hosts /etc/hostname").await;
    assert!(said.ends_with("fixed\nfixed"), "{said}");
    let why = node.fails("fixed", "echo x >> /etc/hosts").await;
    assert!(why.contains("Read-only"), "{why}");
    node.run_pod(idle("web", image)).await.unwrap();
    // As elsewhere, everybody may ping and listen on low ports.
    let settings = "cd /proc/sys/net/ipv4; cat ping_group_range ip_unprivileged_port_start";
    let said = node.sh("web", settings).await.unwrap();
    let words: Vec<_> = said.ok().split_whitespace().collect();
    assert_eq!(words, ["0", "65535", "0"]);
    let said = node.sh("web", "cat /proc/self/uid_map").await.unwrap();
    let map: Vec<_> = said.ok().split_whitespace().collect();
    assert_ne!(map[1], "0", "users of its own by default: {map:?}");
    // The same where it has the users of the host.
    let mut host = idle("host-users", image);
    host.security = Some(PodSecurity {
        user_namespace: Some(false),
        ..PodSecurity::default()
    });
    node.run_pod(host).await.unwrap();
    let said = node.sh("host-users", settings).await.unwrap();
    let words: Vec<_> = said.ok().split_whitespace().collect();
    assert_eq!(words, ["0", "2147483647", "0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_with_restart_never_is_not_rerun_when_its_exit_was_lost() {
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
