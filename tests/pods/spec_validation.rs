//! Bad input: every field of a pod is looked at before anything is made.

use strata_testkit::pods::{idle, volume};
use strata_testkit::v1::health_check::Probe;
use strata_testkit::v1::pod_volume::Source;
use strata_testkit::v1::{
    ExecProbe, HealthCheck, HttpProbe, PodLimits, PodNetwork, PodSecurity, PodSpec, PodVolume,
    TcpProbe,
};
use strata_testkit::{Code, field_of};

use crate::pods::world;

type Change = Box<dyn Fn(&mut PodSpec)>;

fn change(change: impl Fn(&mut PodSpec) + 'static) -> Change {
    Box::new(change)
}

fn limits(set: impl Fn(&mut PodLimits) + 'static) -> Change {
    change(move |pod| set(pod.limits.get_or_insert_default()))
}

fn source(source: Source) -> Change {
    change(move |pod| pod.volumes = vec![volume(source.clone(), "/x")])
}

fn target(target: &str) -> Change {
    let target = target.to_owned();
    change(move |pod| pod.volumes = vec![volume(Source::Volume("v".into()), &target)])
}

fn probe(probe: Probe, set: impl Fn(&mut HealthCheck) + 'static) -> Change {
    change(move |pod| {
        let health = pod.health.get_or_insert_default();
        health.probe = Some(probe.clone());
        set(health);
    })
}

fn tcp(port: u32) -> Probe {
    Probe::Tcp(TcpProbe { port })
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

fn plain_fields() -> Vec<(&'static str, Change)> {
    let long = "x".repeat(5000);
    let (dir, user) = (format!("/{long}"), long.clone());
    vec![
        ("pod.name", change(|p| p.name.clear())),
        ("pod.name", change(|p| p.name = "Web".into())),
        ("pod.name", change(|p| p.name = "a/b".into())),
        ("pod.name", change(|p| p.name = "x".repeat(64))),
        ("pod.image", change(|p| p.image.clear())),
        ("pod.image", change(|p| p.image = "no reference!".into())),
        ("pod.image", change(move |p| p.image.clone_from(&long))),
        ("pod.pull", change(|p| p.pull = 7)),
        ("pod.entrypoint", change(|p| p.entrypoint = words(&[""]))),
        (
            "pod.entrypoint",
            change(|p| p.entrypoint = words(&["a\0b"])),
        ),
        ("pod.arguments", change(|p| p.arguments = words(&["a\0b"]))),
        (
            "pod.environment[1]",
            change(|p| p.environment = words(&["A=1", "B"])),
        ),
        (
            "pod.environment[0]",
            change(|p| p.environment = words(&["=1"])),
        ),
        (
            "pod.environment",
            change(|p| p.environment = vec!["A=1".into(); 101]),
        ),
        (
            "pod.working_directory",
            change(|p| p.working_directory = "relative".into()),
        ),
        (
            "pod.working_directory",
            change(move |p| p.working_directory.clone_from(&dir)),
        ),
        ("pod.user", change(|p| p.user = "a\0".into())),
        ("pod.user", change(move |p| p.user.clone_from(&user))),
        ("pod.hostname", change(|p| p.hostname = "not a host".into())),
        ("pod.cpu_shares", change(|p| p.cpu_shares = 1)),
        ("pod.cpu_shares", change(|p| p.cpu_shares = 262_145)),
        ("pod.network", change(|p| p.network = 9)),
        ("pod.address", change(|p| p.address = "300.1.1.1".into())),
        ("pod.restart", change(|p| p.restart = -1)),
        (
            "pod.stop_grace_ms",
            change(|p| p.stop_grace_ms = Some(u32::MAX)),
        ),
        (
            "pod.labels",
            change(|p| p.labels = [(String::new(), "x".into())].into()),
        ),
        (
            "pod.labels",
            change(|p| p.labels = [("a".into(), "x".repeat(300))].into()),
        ),
        (
            "pod.labels",
            change(|p| p.labels = (0..101).map(|i| (i.to_string(), String::new())).collect()),
        ),
    ]
}

fn lists() -> Vec<(&'static str, Change)> {
    vec![
        ("pod.limits.cpu_millis", limits(|l| l.cpu_millis = Some(0))),
        (
            "pod.limits.memory_bytes",
            limits(|l| l.memory_bytes = Some(1)),
        ),
        ("pod.limits.disk_bytes", limits(|l| l.disk_bytes = Some(1))),
        ("pod.limits.pids", limits(|l| l.pids = Some(0))),
        ("pod.ports[0]", change(|p| p.ports = words(&["80"]))),
        ("pod.ports[0]", change(|p| p.ports = words(&["0:80"]))),
        ("pod.ports[0]", change(|p| p.ports = words(&["80:80/sctp"]))),
        (
            "pod.ports[1]",
            change(|p| p.ports = words(&["8080:80", "8080:81"])),
        ),
        (
            "pod.ports",
            change(|p| p.ports = (1..=101).map(|i| format!("{i}:{i}")).collect()),
        ),
        (
            "pod.ports",
            change(|p| {
                p.network = PodNetwork::Isolated.into();
                p.ports = words(&["80:80"]);
            }),
        ),
        (
            "pod.volumes[0].source",
            change(|p| {
                p.volumes = vec![PodVolume {
                    target: "/x".into(),
                    ..PodVolume::default()
                }];
            }),
        ),
        (
            "pod.volumes[0].folder",
            source(Source::Folder("relative".into())),
        ),
        (
            "pod.volumes[0].folder",
            source(Source::Folder("/a/../b".into())),
        ),
        (
            "pod.volumes[0].volume",
            source(Source::Volume("../etc".into())),
        ),
        (
            "pod.volumes[0].volume",
            source(Source::Volume(String::new())),
        ),
        (
            "pod.volumes[0].memory_bytes",
            source(Source::MemoryBytes(0)),
        ),
        ("pod.volumes[0].target", target("")),
        ("pod.volumes[0].target", target("x")),
        ("pod.volumes[0].target", target("/")),
        ("pod.volumes[0].target", target("/proc")),
        ("pod.volumes[0].target", target("/a/../../b")),
        (
            "pod.volumes[1].target",
            change(|p| {
                p.volumes = vec![
                    volume(Source::Volume("a".into()), "/x"),
                    volume(Source::Volume("b".into()), "/x"),
                ];
            }),
        ),
        (
            "pod.rlimits[0]",
            change(|p| p.rlimits = words(&["files=1"])),
        ),
        (
            "pod.rlimits[0]",
            change(|p| p.rlimits = words(&["nofile=2:1"])),
        ),
        (
            "pod.sysctls[0]",
            change(|p| p.sysctls = words(&["kernel.panic=1"])),
        ),
        (
            "pod.sysctls[0]",
            change(|p| p.sysctls = words(&["net.ipv4/../../kernel.panic=1"])),
        ),
        (
            "pod.security.capabilities",
            change(|p| {
                p.security = Some(PodSecurity {
                    add_capabilities: words(&["NOPE"]),
                    ..PodSecurity::default()
                });
            }),
        ),
        (
            "pod.security.capabilities",
            change(|p| {
                p.security = Some(PodSecurity {
                    drop_capabilities: words(&[""]),
                    ..PodSecurity::default()
                });
            }),
        ),
        (
            "pod.security.user_namespace",
            change(|p| {
                p.network = PodNetwork::Host.into();
                p.security = Some(PodSecurity {
                    user_namespace: Some(true),
                    ..PodSecurity::default()
                });
            }),
        ),
        (
            "pod.health",
            change(|p| p.health = Some(HealthCheck::default())),
        ),
        (
            "pod.health.exec",
            probe(
                Probe::Exec(ExecProbe {
                    command: Vec::new(),
                }),
                |_| {},
            ),
        ),
        ("pod.health.tcp.port", probe(tcp(0), |_| {})),
        ("pod.health.tcp.port", probe(tcp(70_000), |_| {})),
        (
            "pod.health.http.path",
            probe(
                Probe::Http(HttpProbe {
                    port: 80,
                    path: "x".into(),
                }),
                |_| {},
            ),
        ),
        (
            "pod.health.http.path",
            probe(
                Probe::Http(HttpProbe {
                    port: 80,
                    path: "/a b\r\n".into(),
                }),
                |_| {},
            ),
        ),
        (
            "pod.health.interval_ms",
            probe(tcp(80), |h| h.interval_ms = Some(0)),
        ),
        (
            "pod.health.timeout_ms",
            probe(tcp(80), |h| h.timeout_ms = Some(0)),
        ),
        (
            "pod.health.retries",
            probe(tcp(80), |h| h.retries = Some(0)),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_pod_spec_is_refused_by_field_and_creates_nothing() {
    let world = world().await;
    let node = &world.node;
    let traces = world.daemon.host().settled().await;
    let mut wrong = Vec::new();
    for (i, (field, change)) in plain_fields().into_iter().chain(lists()).enumerate() {
        let mut spec = idle("web", &world.image);
        change(&mut spec);
        match node.run_pod(spec.clone()).await {
            Err(error)
                if error.code() == Code::InvalidArgument
                    && field_of(&error).as_deref() == Some(field) => {}
            other => wrong.push(format!("{i}: {field}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(node.pods().await.unwrap().is_empty());
    world.daemon.host().returns_to(&traces).await;
}
