//! How pods are reached: by address, by name, through ports of the machine.

use strata_testkit::images::busybox_layout;
use strata_testkit::pods::{idle, script};
use strata_testkit::v1::{PodSpec, PodState};
use strata_testkit::{
    Code, Daemon, NetworkNamespace, TEST_TIMEOUT, field_of, holds, refused, wait_for,
};

use crate::pods::{STRATA, World, world, world_with};

/// A pod that answers with its name on port 80.
fn server(name: &str, image: &str) -> PodSpec {
    let text = "mkdir -p www; hostname > www/name; httpd -h www; \
        trap exit TERM; while :; do sleep 60 & wait; done";
    script(name, image, text)
}

fn got(network: &NetworkNamespace, url: &str) -> Result<String, String> {
    let output = network.output(["curl", "-sf", "-m", "2", url]);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{url}: {output:?}")),
    }
}

async fn answers(network: &NetworkNamespace, url: &str, name: &str) {
    wait_for("an answer", TEST_TIMEOUT, async || {
        let said = got(network, url)?;
        if said == name { Ok(()) } else { Err(said) }
    })
    .await;
}

/// A namespace beside the daemon's, joined to it: 192.0.2.1 and 192.0.2.2.
fn outside(inner: &NetworkNamespace) -> NetworkNamespace {
    let outer = NetworkNamespace::new();
    let path = outer.path().display().to_string();
    let pid = path.split('/').nth(2).expect("a path of proc").to_owned();
    inner.run([
        "ip", "link", "add", "wan", "type", "veth", "peer", "name", "lan", "netns", &pid,
    ]);
    inner.run(["ip", "addr", "add", "192.0.2.1/24", "dev", "wan"]);
    inner.run(["ip", "link", "set", "wan", "up"]);
    outer.run(["ip", "addr", "add", "192.0.2.2/24", "dev", "lan"]);
    outer.run(["ip", "link", "set", "lan", "up"]);
    outer
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_find_each_other_and_are_found() {
    let world = world().await;
    let node = &world.node;
    let web = node.run_pod(server("web", &world.image)).await.unwrap();
    node.run_pod(idle("client", &world.image)).await.unwrap();
    answers(
        &world.network,
        &format!("http://{}/name", web.address),
        "web",
    )
    .await;
    let fetch = |host: &str| format!("timeout 5 wget -q -O - http://{host}/name");
    for host in [web.address.as_str(), "web"] {
        assert_eq!(node.says("client", &fetch(host)).await, "web", "{host}");
    }
    let looked_up = node.says("client", "nslookup web || true").await;
    assert!(looked_up.contains(&web.address), "{looked_up}");
    // Itself, by its name and from its own loopback.
    assert_eq!(node.says("web", &fetch("web")).await, "web");
    assert_eq!(node.says("web", &fetch("127.0.0.1")).await, "web");
    // Who is gone has no name any more.
    node.destroy_pod("web").await.unwrap();
    node.fails("client", &fetch("web")).await;
    let resolver = node.says("client", "cat /etc/resolv.conf /etc/hosts").await;
    assert!(
        resolver.contains("nameserver 10.42.") && resolver.contains("\tclient"),
        "{resolver}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn published_ports_lead_to_the_pod_from_everywhere() {
    let world = world().await;
    let node = &world.node;
    let outer = outside(&world.network);
    let mut web = server("web", &world.image);
    web.ports = vec![
        "8080:80".into(),
        "5353:53/udp".into(),
        "127.0.0.1:8081:80".into(),
    ];
    let web = node.run_pod(web).await.unwrap();
    node.run_pod(idle("client", &world.image)).await.unwrap();
    answers(&outer, "http://192.0.2.1:8080/name", "web").await;
    answers(&world.network, "http://127.0.0.1:8080/name", "web").await;
    answers(&world.network, "http://192.0.2.1:8080/name", "web").await;
    answers(&world.network, "http://127.0.0.1:8081/name", "web").await;
    // The port of the loopback is not one for others.
    assert!(got(&outer, "http://192.0.2.1:8081/name").is_err());
    // Pods reach it through the machine as well, also the very pod.
    let gateway = node
        .says(
            "client",
            "ip route | sed -n 's/default via \\([0-9.]*\\).*/\\1/p'",
        )
        .await;
    for pod in ["client", "web"] {
        for address in [gateway.as_str(), "192.0.2.1"] {
            let fetch = format!("timeout 5 wget -q -O - http://{address}:8080/name");
            assert_eq!(node.says(pod, &fetch).await, "web", "{pod} to {address}");
        }
    }
    // Nobody listens in the pod: it says so, all the way back.
    wait_for("an answer over UDP", TEST_TIMEOUT, async || {
        let ask = "exec 3<>/dev/udp/192.0.2.1/5353; echo x >&3; read -r -t 2 -u 3";
        let asked = outer.output(["bash", "-c", ask]);
        let said = String::from_utf8_lossy(&asked.stderr).into_owned();
        holds(said.contains("refused")).map_err(|_| said)
    })
    .await;
    let unwanted = "grep '^Udp:' /proc/net/snmp | tail -n 1 | cut -d ' ' -f 3";
    assert_ne!(node.says("web", unwanted).await, "0");
    // Whoever empties the machine's rules does not cut it off for long.
    world.network.run(["nft", "flush", "ruleset"]);
    answers(&outer, "http://192.0.2.1:8080/name", "web").await;
    assert_eq!(
        node.says(
            "client",
            &format!("timeout 5 wget -q -O - http://{}/name", web.address)
        )
        .await,
        "web"
    );
    node.stop_pod("web").await.unwrap();
    assert!(got(&outer, "http://192.0.2.1:8080/name").is_err());
    node.start_pod("web").await.unwrap();
    answers(&outer, "http://192.0.2.1:8080/name", "web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn occupied_port_is_reported_and_available_after_release() {
    let world = world().await;
    let node = &world.node;
    let mut first = server("first", &world.image);
    first.ports = vec!["8080:80".into()];
    node.run_pod(first.clone()).await.unwrap();
    let groups = world.daemon.host().look().cgroups;
    let before = world.network.look();
    let second = PodSpec {
        name: "second".into(),
        ..first
    };
    let error = node.run_pod(second).await.unwrap_err();
    assert_eq!(error.code(), Code::AlreadyExists, "{error}");
    assert_eq!(field_of(&error).as_deref(), Some("pod.ports"), "{error}");
    assert!(error.message().contains("8080"), "{error}");
    let pod = node.pod("second").await.unwrap();
    assert_eq!((pod.state(), pod.process_id), (PodState::Failed, 0));
    assert_eq!(world.daemon.host().look().cgroups, groups);
    assert_eq!(world.network.look(), before);
    node.stop_pod("first").await.unwrap();
    node.start_pod("second").await.unwrap();
    answers(&world.network, "http://127.0.0.1:8080/name", "second").await;
    // The same with a program of the machine that has the port.
    node.stop_pod("second").await.unwrap();
    let mut other = world
        .network
        .command(["busybox", "nc", "-l", "-p", "8080"])
        .spawn()
        .unwrap();
    wait_for("the port", TEST_TIMEOUT, async || {
        let listening = world
            .network
            .run(["cat", "/proc/net/tcp", "/proc/net/tcp6"]);
        let listens = listening.contains(":1F90 ");
        if listens { Ok(()) } else { Err(listening) }
    })
    .await;
    let why = refused(node.start_pod("second").await, Code::AlreadyExists);
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(why.contains("8080"), "{why}");
    node.start_pod("second").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_are_bounded_and_given_back() {
    let world = world_with("[network]\nsubnet = \"10.42.9.0/29\"\n").await;
    let node = &world.node;
    let mut names = Vec::new();
    let error = loop {
        let name = format!("pod{}", names.len());
        match node.create_pod(idle(&name, &world.image)).await {
            Ok(pod) => assert!(pod.address.starts_with("10.42.9."), "{}", pod.address),
            Err(error) => break error,
        }
        names.push(name);
    };
    assert_eq!(names.len(), 5);
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    assert_eq!(node.pods().await.unwrap().len(), 5);
    let freed = node.pod("pod2").await.unwrap().address;
    node.destroy_pod("pod2").await.unwrap();
    let mut wanted = idle("wanted", &world.image);
    wanted.address.clone_from(&freed);
    assert_eq!(node.run_pod(wanted).await.unwrap().address, freed);
    assert!(
        node.says("wanted", "ip -o -4 addr show eth0")
            .await
            .contains(&freed)
    );
    node.destroy_pod("pod3").await.unwrap();
    for (name, address, code) in [
        ("taken", freed.as_str(), Code::AlreadyExists),
        ("gateway", "10.42.9.1", Code::InvalidArgument),
        ("foreign", "10.42.10.9", Code::InvalidArgument),
    ] {
        let mut spec = idle(name, &world.image);
        spec.address = address.into();
        let error = node.run_pod(spec).await.unwrap_err();
        assert_eq!(error.code(), code, "{name}: {error}");
        assert_eq!(
            field_of(&error).as_deref(),
            Some("pod.address"),
            "{name}: {error}"
        );
    }
    assert_eq!(node.pods().await.unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_daemons_share_a_machine() {
    let World {
        node,
        image,
        daemon,
        network,
    } = world().await;
    let other = Daemon::build(STRATA).within(&network).start().await;
    let other_node = other.node().await;
    let other_image = busybox_layout(&other.scratch());
    let one = node.run_pod(server("web", &image)).await.unwrap();
    let mut second = server("web", &other_image);
    second.hostname = "other".into();
    let two = other_node.run_pod(second).await.unwrap();
    let subnet = |address: &str| address.rsplit_once('.').unwrap().0.to_owned();
    assert_ne!(subnet(&one.address), subnet(&two.address));
    answers(&network, &format!("http://{}/name", one.address), "web").await;
    answers(&network, &format!("http://{}/name", two.address), "other").await;
    node.run_pod(idle("client", &image)).await.unwrap();
    assert_eq!(
        node.says("client", "timeout 5 wget -q -O - http://web/name")
            .await,
        "web"
    );
    other_node
        .run_pod(idle("client", &other_image))
        .await
        .unwrap();
    assert_eq!(
        other_node
            .says("client", "timeout 5 wget -q -O - http://web/name")
            .await,
        "other"
    );
    // One that goes leaves the other's network alone.
    drop(other_node);
    drop(other);
    assert_eq!(
        node.says("client", "timeout 5 wget -q -O - http://web/name")
            .await,
        "web"
    );
    drop(node);
    drop(daemon);
    let links = network.run(["ip", "-o", "link"]);
    assert_eq!(links.lines().count(), 1, "{links}");
}
