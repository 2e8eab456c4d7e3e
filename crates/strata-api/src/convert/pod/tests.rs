//! What is asked for is what is kept, and what is wrong names its field.
use std::collections::HashMap;

use super::*;

fn wire() -> v1::PodSpec {
    v1::PodSpec {
        name: "web".into(),
        image: "registry.example/web:1".into(),
        ..v1::PodSpec::default()
    }
}

fn full() -> v1::PodSpec {
    v1::PodSpec {
        pull: v1::PullPolicy::Always.into(),
        entrypoint: vec!["/bin/sh".into()],
        arguments: vec!["-c".into(), "true".into()],
        environment: vec!["A=b".into()],
        working_directory: "/srv".into(),
        user: "www:www".into(),
        hostname: "web-1".into(),
        limits: Some(v1::PodLimits {
            cpu_millis: Some(500),
            memory_bytes: Some(64 << 20),
            disk_bytes: Some(1 << 30),
            pids: Some(100),
        }),
        cpu_shares: 512,
        address: "10.42.0.9".into(),
        ports: vec!["8080:80".into(), "53:53/udp".into()],
        volumes: vec![
            v1::PodVolume {
                source: Some(v1::pod_volume::Source::MemoryBytes(1 << 20)),
                target: "/scratch".into(),
                read_only: false,
            },
            v1::PodVolume {
                source: Some(v1::pod_volume::Source::Pool("data".into())),
                target: "/data".into(),
                read_only: true,
            },
        ],
        security: Some(v1::PodSecurity {
            drop_capabilities: vec!["CHOWN".into()],
            add_capabilities: vec!["NET_ADMIN".into()],
            read_only_root: true,
            ..v1::PodSecurity::default()
        }),
        rlimits: vec!["nofile=10:20".into()],
        sysctls: vec!["net.core.somaxconn=10".into()],
        health: Some(v1::HealthCheck {
            probe: Some(v1::health_check::Probe::Tcp(v1::TcpProbe { port: 80 })),
            interval_ms: Some(1000),
            timeout_ms: Some(100),
            retries: Some(2),
            start_period_ms: Some(0),
        }),
        restart: v1::RestartPolicy::Never.into(),
        stop_grace_ms: Some(3000),
        stdin: true,
        aliases: vec!["web.shop".into()],
        labels: HashMap::from([("app".into(), "web".into())]),
        ..wire()
    }
}

#[test]
fn pod_spec_round_trips() {
    let spec = PodSpec::try_from(full()).unwrap();
    assert_eq!(v1::PodSpec::from(&spec), full());
}

#[test]
fn invalid_field_is_named() {
    type Change = fn(&mut v1::PodSpec);
    let cases: [(&str, Change); 14] = [
        ("pod.name", |p| p.name = "Web".into()),
        ("pod.image", |p| p.image.clear()),
        ("pod.pull", |p| p.pull = 9),
        ("pod.network", |p| p.network = 9),
        ("pod.restart", |p| p.restart = 9),
        ("pod.entrypoint", |p| p.entrypoint = vec![String::new()]),
        ("pod.environment[0]", |p| p.environment = vec!["A".into()]),
        ("pod.hostname", |p| p.hostname = "a.b".into()),
        ("pod.address", |p| p.address = "::1".into()),
        ("pod.ports[0]", |p| p.ports = vec!["80".into()]),
        ("pod.rlimits[0]", |p| p.rlimits = vec!["files=1".into()]),
        ("pod.sysctls[0]", |p| p.sysctls = vec!["vm.x=1".into()]),
        ("pod.health", |p| {
            p.health = Some(v1::HealthCheck::default());
        }),
        ("pod.security.capabilities", |p| {
            p.security = Some(v1::PodSecurity {
                add_capabilities: vec!["NOPE".into()],
                ..v1::PodSecurity::default()
            });
        }),
    ];
    for (field, change) in cases {
        let mut pod = wire();
        change(&mut pod);
        let error = PodSpec::try_from(pod).unwrap_err();
        assert_eq!(error.field(), Some(field), "{error}");
    }
}

#[test]
fn every_state_has_its_number() {
    let numbers: Vec<i32> = PodState::ALL
        .into_iter()
        .map(|state| v1::PodState::from(state).into())
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}
