//! The driver on machines inside this machine, with Kubernetes as it is. It
//! takes a program of this product (`STRATA_PROGRAM`), a bundle, and minutes.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "real/hands.rs"]
mod hands;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use hands::Reached;
use strata_clusters::catalogue::{Bundle, Catalogue};
use strata_clusters::kubeadm::{Kubeadm, KubeadmSettings};
use strata_clusters::{ClusterFacts, Drained, Driver};
use strata_testkit::machines::{Outside, machine};
use strata_testkit::{Credentials, NetworkNamespace, NodeClient, Target};
use strata_types::cluster::{ClusterRole, Member};

/// A daemon, its machines, and the driver on them.
struct World {
    outside: Outside,
    driver: Kubeadm,
    cluster: ClusterFacts,
    bundles: Vec<Bundle>,
    begun: Instant,
    _snapshots: tempfile::TempDir,
}

impl World {
    async fn new(names: &[&str]) -> Option<Self> {
        let program = PathBuf::from(std::env::var_os("STRATA_PROGRAM")?);
        let cache = std::env::var_os("STRATA_CACHE").map_or_else(
            || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/strata"),
            PathBuf::from,
        );
        let catalogue = Catalogue::new(cache.join("kubernetes"));
        let bundles = catalogue.versions();
        let version = bundles.first()?.version;
        let network = NetworkNamespace::new();
        enter(&network);
        let config = format!(
            "[storage]\nenabled = false\n[node]\nkubernetes = {:?}\n",
            catalogue.folder()
        );
        let daemon = strata_testkit::Daemon::build(program).config(&config);
        let daemon = daemon.within(&network).start().await;
        let outside = Outside { daemon, network };
        let node = outside.node().await;
        let (mut reached, mut members) = (HashMap::new(), Vec::new());
        for (at, name) in names.iter().enumerate() {
            let made = node.spawn(machine(name)).await.unwrap();
            let target = Target::Tls {
                address: made.endpoint.parse().unwrap(),
                credentials: Credentials::read(&outside.daemon.data_dir().join("client")).unwrap(),
            };
            let client = NodeClient::connect(&target).await.unwrap();
            reached.insert((*name).to_owned(), strata_testkit::Node::new(client));
            members.push(Member {
                machine: name.parse().unwrap(),
                role: match name.starts_with('c') {
                    true => ClusterRole::ControlPlane,
                    false => ClusterRole::Worker,
                },
                pool: String::new(),
                number: u8::try_from(at + 1).unwrap(),
                labels: [("tier".to_owned(), "test".to_owned())].into(),
                version,
                address: made.address.clone(),
                joined: false,
                added_at_ms: 0,
            });
        }
        let snapshots = tempfile::tempdir().unwrap();
        let settings = KubeadmSettings {
            catalogue: catalogue.folder().to_owned(),
            snapshots: snapshots.path().to_owned(),
        };
        let driver = Kubeadm::new(Arc::new(Reached(reached)), settings);
        let name = "blue".parse().unwrap();
        let cluster = ClusterFacts {
            secrets: driver.secrets(&name).unwrap(),
            name,
            id: "one".into(),
            version,
            members,
        };
        Some(Self {
            outside,
            driver,
            cluster,
            bundles,
            begun: Instant::now(),
            _snapshots: snapshots,
        })
    }

    fn tell(&self, what: &str) {
        eprintln!("{:6.1} s  {what}", self.begun.elapsed().as_secs_f64());
    }

    /// Installs a machine and has it enter, the first by `init`.
    async fn enter(&mut self, at: usize) {
        let member = self.cluster.members[at].clone();
        let name = member.machine.to_string();
        let told = |what: String| self.tell(&format!("{name}: {what}"));
        let driver = &self.driver;
        driver.install(&self.cluster, &member, &told).await.unwrap();
        let entered = match at {
            0 => driver.init(&self.cluster, &member, &told).await,
            _ => driver.join(&self.cluster, &member, &told).await,
        };
        entered.unwrap();
        self.tell(&format!("{name} is in"));
        self.cluster.members[at].joined = true;
        self.driver.introduce(&self.cluster).await.unwrap();
    }
}

/// Puts this thread, and those that it starts, into a network.
fn enter(network: &NetworkNamespace) {
    let file = std::fs::File::open(network.path()).unwrap();
    let kind = rustix::thread::LinkNameSpaceType::Network;
    rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(kind)).unwrap();
}

#[tokio::test]
#[ignore = "takes a program, a bundle and minutes"]
async fn a_cluster_comes_to_be_is_changed_and_is_restored() {
    let Some(mut world) = World::new(&["c1", "w1"]).await else {
        return strata_testkit::skip("STRATA_PROGRAM or a bundle of Kubernetes is missing");
    };
    for at in 0..2 {
        world.enter(at).await;
    }
    let seen = world.driver.observe(&world.cluster).await;
    world.tell(&format!("{seen:?}"));
    assert!(
        seen.serves && seen.nodes.iter().all(|node| node.ready),
        "{seen:?}"
    );
    let w1 = world.cluster.members[1].clone();
    let snapshot = world
        .driver
        .snapshot(&world.cluster, "asked")
        .await
        .unwrap();
    world.tell(&format!("{snapshot:?}"));
    world
        .driver
        .admit(&world.cluster, "ada", Some("view"))
        .await
        .unwrap();
    world
        .driver
        .cordon(&world.cluster, "w1", true)
        .await
        .unwrap();
    loop {
        let drained = world.driver.drain(&world.cluster, "w1").await.unwrap();
        world.tell(&format!("{drained:?}"));
        if drained == Drained::Empty {
            break;
        }
    }
    world.driver.forget(&world.cluster, &w1).await.unwrap();
    let told = |what: String| world.tell(&what);
    world
        .driver
        .restore(&world.cluster, &snapshot.id, &told)
        .await
        .unwrap();
    world.tell("restored");
    let seen = world.driver.observe(&world.cluster).await;
    assert_eq!(seen.nodes.len(), 2, "the node is back: {seen:?}");
    let c1 = &world.cluster.members[0];
    assert!(!world.driver.renew(&world.cluster, c1).await.unwrap());
    if let Some(next) = world.bundles.get(1) {
        let checked = world
            .driver
            .preflight(&world.cluster, next.version)
            .await
            .unwrap();
        world.tell(&format!("{checked:?}"));
        for (at, member) in world.cluster.members.iter().enumerate() {
            let to = next.version;
            let upgraded = world
                .driver
                .upgrade(&world.cluster, member, to, at == 0, &told);
            upgraded.await.unwrap();
            world.tell("upgraded");
        }
        let seen = world.driver.observe(&world.cluster).await;
        world.tell(&format!("{seen:?}"));
        assert_eq!(seen.version, next.version.to_string());
        // Back to what was before, with the version that it was then.
        let restored = world.driver.restore(&world.cluster, &snapshot.id, &told);
        restored.await.unwrap();
        let seen = world.driver.observe(&world.cluster).await;
        world.tell(&format!("{seen:?}"));
        assert_eq!(seen.version, world.cluster.version.to_string());
    }
    drop(world.outside);
}

#[tokio::test]
#[ignore = "takes a program, a bundle and minutes"]
async fn a_control_plane_of_three_loses_one_and_goes_on() {
    let Some(mut world) = World::new(&["c1", "c2", "c3"]).await else {
        return strata_testkit::skip("STRATA_PROGRAM or a bundle of Kubernetes is missing");
    };
    for at in 0..3 {
        world.enter(at).await;
    }
    let lost = world.cluster.members[2].clone();
    let node = world.outside.node().await;
    node.destroy_machine("c3").await.unwrap();
    world.tell("c3 is gone");
    let driver = &world.driver;
    driver.forget(&world.cluster, &lost).await.unwrap();
    world.tell("c3 is forgotten");
    world.cluster.members.pop();
    let driver = &world.driver;
    let seen = driver.observe(&world.cluster).await;
    assert!(seen.serves && seen.nodes.len() == 2, "{seen:?}");
    let snapshot = driver.snapshot(&world.cluster, "asked").await.unwrap();
    let told = |what: String| world.tell(&what);
    let restored = driver.restore(&world.cluster, &snapshot.id, &told);
    restored.await.unwrap();
    world.tell("restored");
    let seen = driver.observe(&world.cluster).await;
    assert!(seen.serves && seen.nodes.len() == 2, "{seen:?}");
}
