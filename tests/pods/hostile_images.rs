//! Images that mean harm: nothing hangs, nothing outside is touched, and the
//! pod runs or says why not.

use std::fs;

use strata_testkit::images::Image;
use strata_testkit::pods::{dir, idle, shell};
use strata_testkit::v1::{ExecStart, PodState, TerminalSize};

use crate::pods::{World, world};

/// Runs a pod of an image; what it was refused with, or nothing.
async fn tried(world: &World, name: &str, image: Image) -> Option<String> {
    let image = image.write_layout(&world.daemon.scratch().join(name), "v1");
    let mut spec = idle(name, &image);
    spec.entrypoint[0] = "/bin/busybox".into();
    spec.entrypoint.insert(1, "sh".into());
    match world.node.run_pod(spec).await {
        Ok(pod) => {
            assert_eq!(pod.state(), PodState::Running);
            let said = ExecStart {
                command: ["/bin/busybox", "true"].map(str::to_owned).to_vec(),
                terminal: Some(TerminalSize {
                    rows: 1,
                    columns: 1,
                }),
                ..shell(name, "")
            };
            let done = world.node.exec(said).await;
            done.expect("something runs in it").ok();
            None
        }
        Err(status) => {
            assert_eq!(
                status.code(),
                strata_testkit::Code::InvalidArgument,
                "{name}: {status}"
            );
            Some(status.message().to_owned())
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_of_an_image_lead_nowhere_else() {
    let world = world().await;
    let target = world.daemon.scratch().join("outside");
    fs::create_dir(&target).unwrap();
    let outside = target.to_string_lossy().into_owned();
    let base = || {
        let busybox = fs::read("/bin/busybox").or_else(|_| fs::read("/usr/bin/busybox"));
        Image::empty()
            .dir("bin", 0o755, 0)
            .program("bin/busybox", &busybox.unwrap())
    };
    let up = format!("../../../../../..{outside}");
    let mut told = Vec::new();
    for (name, path) in [
        ("etc", "etc"),
        ("dev", "dev"),
        ("proc", "proc"),
        ("sys", "sys"),
        ("work", "srv"),
    ] {
        for (kind, link) in [
            ("absolute", outside.as_str()),
            ("upwards", up.as_str()),
            ("root", "/"),
            ("loop", path),
        ] {
            let image = base().symlink(path, link).workdir("/srv/inner");
            let name = format!("{name}-{kind}");
            let failed = tried(&world, &name, image).await;
            told.extend(failed.map(|why| format!("{name}: {why}")));
            world.node.destroy_pod(&name).await.unwrap();
        }
    }
    // Files where directories are expected, and files of `/etc` that lead away.
    for (name, path) in [
        ("etc-file", "etc"),
        ("dev-file", "dev"),
        ("proc-file", "proc"),
    ] {
        let failed = tried(&world, name, base().file(path, b"x")).await;
        told.extend(failed.map(|why| format!("{name}: {why}")));
    }
    let host = target.join("victim");
    fs::write(&host, "mine").unwrap();
    for name in ["hosts", "resolv.conf", "hostname", "passwd"] {
        let image = base()
            .dir("etc", 0o755, 0)
            .symlink(&format!("etc/{name}"), &host.to_string_lossy());
        let pod = format!("link-{}", name.replace('.', "-"));
        let failed = tried(&world, &pod, image).await;
        told.extend(failed.map(|why| format!("{name}: {why}")));
    }
    let left: Vec<_> = fs::read_dir(&target)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["victim"], "{told:#?}");
    assert_eq!(fs::read_to_string(&host).unwrap(), "mine");
    // A link in place of a file is no hindrance: many images have one.
    let files = |why: &&String| {
        ["hosts", "resolv.conf", "hostname", "passwd"].contains(&why.split(':').next().unwrap())
    };
    assert_eq!(told.iter().find(files), None, "{told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_none_do_not_hang_or_flood() {
    let world = world().await;
    let node = &world.node;
    let many: String = (1..400_000)
        .map(|i| format!("u{i}:x:{i}:{i}::/:/bin/sh\n"))
        .collect();
    let cases = [
        ("pipe", Image::busybox().layer().special("etc/passwd", b'6')),
        (
            "device",
            Image::busybox().layer().special("etc/passwd", b'3'),
        ),
        (
            "folder",
            Image::busybox().layer().dir("etc/passwd", 0o755, 0),
        ),
        (
            "huge",
            Image::busybox().layer().file("etc/passwd", many.as_bytes()),
        ),
        (
            "binary",
            Image::busybox().layer().file("etc/passwd", &[0xff; 5000]),
        ),
    ];
    for (name, image) in cases {
        assert_eq!(tried(&world, name, image).await, None, "{name}");
        let user = ExecStart {
            user: "app".into(),
            ..shell(name, "true")
        };
        let error = node.exec(user).await.unwrap_err();
        assert!(
            error.message().contains("no user \"app\""),
            "{name}: {error}"
        );
        node.destroy_pod(name).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_cannot_affect_host_files_through_its_own() {
    let world = world().await;
    let node = &world.node;
    let target = world.daemon.scratch().join("outside");
    fs::create_dir(&target).unwrap();
    node.run_pod(idle("web", &world.image)).await.unwrap();
    // Everything the daemon reads or opens of a pod afterwards is a trap now.
    let outside = target.to_string_lossy();
    let script = format!(
        "rm /etc/passwd /etc/group; ln -s {outside}/passwd /etc/passwd; mkfifo /etc/group; \
         rm -rf /srv; ln -s {outside} /srv; ln -s {outside} /data"
    );
    node.says("web", &script).await;
    fs::write(target.join("passwd"), "spy:x:0:0::/:/bin/sh\n").unwrap();
    let spy = ExecStart {
        user: "spy".into(),
        ..shell("web", "true")
    };
    assert!(node.exec(spy).await.is_err());
    let error = node.sh("web", "true").await.unwrap_err();
    assert_eq!(
        strata_testkit::field_of(&error).as_deref(),
        Some("start.working_directory"),
        "{error}"
    );
    // A volume that is put on one of these links at the next start.
    node.destroy_pod("web").await.unwrap();
    let image = Image::busybox()
        .dir("srv", 0o755, 0)
        .symlink("data", "srv")
        .symlink("deep", "/srv");
    let image = image.write_layout(&world.daemon.scratch().join("linked"), "v1");
    let mine = world.daemon.scratch().join("mine");
    fs::create_dir(&mine).unwrap();
    let mut spec = idle("linked", &image);
    spec.volumes = vec![dir(&mine, "/data"), dir(&mine, "/deep/x/y")];
    node.run_pod(spec).await.unwrap();
    node.says("linked", "echo x > /data/file; echo x > /deep/x/y/other")
        .await;
    assert!(mine.join("file").exists() && mine.join("other").exists());
    let left: Vec<_> = fs::read_dir(&target)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["passwd"]);
}
