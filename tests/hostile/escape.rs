//! A pod cannot leave its root through a directory that its init has open:
//! by the working directory of an image, of a specification or of an exec, by
//! a program, a health check or a volume.

use std::fs;
use std::path::Path;

use futures_util::StreamExt as _;
use strata_testkit::cluster::Cluster;
use strata_testkit::images::Image;
use strata_testkit::pods::{idle, shell, volume};
use strata_testkit::serde_json::json;
use strata_testkit::v1::health_check::Probe;
use strata_testkit::v1::pod_volume::Source;
use strata_testkit::v1::{ExecProbe, ExecStart, HealthCheck, PodHealth, RestartPolicy};
use strata_testkit::{Code, rounds};

use super::STRATA;
use super::project_world::{Caller, project, run, script};
use crate::pods::{World, world};

/// More than an init has open.
const DESCRIPTORS: std::ops::Range<u32> = 0..1024;
/// What an init has open when it starts its first process is among the lowest
/// descriptors; the campaign tries all that it could have.
fn descriptors() -> std::ops::Range<u32> {
    0..rounds(24, DESCRIPTORS.end)
}
const CONCURRENT_EXECS: usize = 16;
const MARKER: &str = "reached-the-host";
const UP: &str = "../../../../../../../../../../../..";

/// Writes a file that a process which stands outside of its root would see,
/// on the host's own `/`, through the daemon's data directory.
fn mark(world: &World) -> std::path::PathBuf {
    let marker = world.daemon.scratch().join(MARKER);
    fs::write(&marker, MARKER).expect("the marker can be written");
    marker
}

/// What a process prints that got out: the marker, or a directory beyond `/`.
fn look_around(marker: &Path) -> String {
    let up = format!("{UP}{}", marker.display());
    format!("pwd; cat {up}; readlink /proc/self/cwd")
}

#[track_caller]
fn stays_inside(way: &str, said: &str) {
    assert!(!said.contains(MARKER), "{way}: {said}");
    assert!(!said.contains("unreachable"), "{way}: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_with_any_descriptor_as_working_directory_is_refused() {
    let world = world().await;
    let marker = mark(&world);
    world.node.run_pod(idle("web", &world.image)).await.unwrap();
    let ways = DESCRIPTORS.flat_map(|descriptor| {
        [
            format!("/proc/self/fd/{descriptor}"),
            format!("/proc/1/fd/{descriptor}"),
        ]
    });
    let others = ["/proc/1/cwd", "/proc/1/root", "/proc/self/cwd", "/dev/fd/9"];
    let ways = ways.chain(others.map(str::to_owned));
    let node = &world.node;
    let tries = ways.map(|directory| {
        let start = ExecStart {
            working_directory: directory.clone(),
            ..shell("web", &look_around(&marker))
        };
        async move {
            match node.exec(start).await {
                Ok(done) => {
                    stays_inside(&directory, &done.stdout);
                    panic!("{directory} was entered: {done:?}");
                }
                Err(status) => assert_eq!(status.code(), Code::InvalidArgument, "{status}"),
            }
        }
    });
    let tried = futures_util::stream::iter(tries)
        .buffer_unordered(CONCURRENT_EXECS)
        .count()
        .await;
    assert_eq!(tried, 2052);
}

#[tokio::test(flavor = "multi_thread")]
async fn image_and_specification_cannot_begin_outside() {
    let world = world().await;
    let marker = mark(&world);
    let node = &world.node;
    for descriptor in descriptors() {
        let directory = format!("/proc/self/fd/{descriptor}");
        // By the image alone: no caller needs to be hostile.
        let scratch = world.daemon.scratch().join(format!("image-{descriptor}"));
        let image = Image::busybox().workdir(&directory);
        let image = image.write_layout(&scratch, "v1");
        let by_image = idle(&format!("image-{descriptor}"), &image);
        let mut by_spec = idle(&format!("spec-{descriptor}"), &world.image);
        by_spec.working_directory = directory;
        // Through a link that the image holds.
        let scratch = world.daemon.scratch().join(format!("link-{descriptor}"));
        let image = Image::busybox()
            .layer()
            .symlink("work", &format!("/proc/self/fd/{descriptor}"))
            .workdir("/work");
        let by_link = idle(
            &format!("link-{descriptor}"),
            &image.write_layout(&scratch, "v1"),
        );
        for spec in [by_image, by_spec, by_link] {
            let name = spec.name.clone();
            let Err(status) = node.run_pod(spec).await else {
                let said = node.sh(&name, &look_around(&marker)).await.unwrap();
                stays_inside(&name, &said.stdout);
                panic!("{name} runs");
            };
            assert_eq!(status.code(), Code::InvalidArgument, "{name}: {status}");
            node.destroy_pod(&name).await.ok();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_check_and_program_cannot_be_taken_from_outside() {
    let world = world().await;
    let node = &world.node;
    let host_shell = |descriptor| format!("/proc/1/fd/{descriptor}/{UP}/bin/sh");
    for descriptor in descriptors() {
        let name = format!("health-{descriptor}");
        let mut spec = idle(&name, &world.image);
        spec.restart = RestartPolicy::Never.into();
        spec.health = Some(HealthCheck {
            probe: Some(Probe::Exec(ExecProbe {
                command: vec![host_shell(descriptor), "-c".into(), "exit 0".into()],
            })),
            interval_ms: Some(100),
            timeout_ms: Some(2000),
            retries: Some(1),
            start_period_ms: None,
        });
        node.run_pod(spec).await.unwrap();
        let start = ExecStart {
            command: vec![host_shell(descriptor), "-c".into(), "exit 0".into()],
            ..shell(&name, "")
        };
        let refused = node.exec(start).await;
        assert!(refused.is_err(), "{descriptor}: {refused:?}");
        node.pod_until(&name, |pod| pod.health() == PodHealth::Unhealthy)
            .await;
        node.destroy_pod(&name).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn volume_target_through_a_link_of_the_image_stays_inside() {
    let world = world().await;
    let node = &world.node;
    for descriptor in descriptors() {
        let scratch = world.daemon.scratch().join(format!("image-{descriptor}"));
        let link = format!("/proc/self/fd/{descriptor}");
        let image = Image::busybox().layer().symlink("data", &link);
        let image = image.write_layout(&scratch, "v1");
        for (kind, target) in [("at", "/data"), ("below", "/data/made/here")] {
            let name = format!("{kind}-{descriptor}");
            let mut spec = idle(&name, &image);
            spec.volumes = vec![volume(Source::MemoryBytes(1 << 20), target)];
            let status = node.run_pod(spec).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{name}: {status}");
            node.destroy_pod(&name).await.ok();
        }
    }
}

/// By the REST API, with the weakest token that may run anything.
#[tokio::test(flavor = "multi_thread")]
async fn token_of_a_project_does_not_leave_an_instance() {
    let cluster = Cluster::start(STRATA, 1).await;
    project(&cluster, json!({ "name": "shop" })).await;
    run(&cluster, script(&cluster, "shop", "web", "sleep 1000")).await;
    let caller = Caller::new(&cluster, "operator", &["shop"]).await;
    for descriptor in descriptors() {
        for process in ["self", "1"] {
            let body = json!({
                "command": ["/bin/busybox", "pwd"],
                "workingDirectory": format!("/proc/{process}/fd/{descriptor}"),
            });
            let answer = caller.call("POST", "/instance/id-web/exec", body).await;
            assert!(
                (400..500).contains(&answer.status),
                "{descriptor}: {answer:?}"
            );
        }
    }
    let fine = json!({ "command": ["/bin/busybox", "pwd"], "workingDirectory": "/tmp" });
    let answer = caller.call("POST", "/instance/id-web/exec", fine).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
