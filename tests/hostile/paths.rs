//! Paths that operators name lie where pods can write. What is checked when
//! something is made may be exchanged before it is used: by a link, at any
//! place of the path, at any time. It is the named thing or nothing.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use strata_testkit::guest::{Guest, kernel, small_initramfs};
use strata_testkit::images::{Image, busybox_layout};
use strata_testkit::pods::{dir, idle, script};
use strata_testkit::v1::vm_spec::Boot;
use strata_testkit::v1::{
    CreateVmRequest, PodNetwork, PodSpec, PullImageRequest, StartVmRequest, VmDisk, VmKernel,
    VmSpec,
};
use strata_testkit::{Code, Daemon, Node, Status, refused, skip};

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
/// How long two sides race.
const RACE: Duration = Duration::from_secs(8);

/// A node with one directory for operators, and an operator's connection.
struct World {
    operator: Node,
    admin: Node,
    daemon: Daemon,
    directory: tempfile::TempDir,
    image: String,
}

impl World {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("open")).unwrap();
        fs::create_dir_all(directory.path().join("closed/inner")).unwrap();
        fs::write(directory.path().join("closed/secret"), "secret").unwrap();
        fs::write(directory.path().join("closed/inner/secret"), "secret").unwrap();
        let open = directory.path().join("open");
        let image = busybox_layout(&open);
        let daemon = Daemon::build(STRATA)
            .config(&format!(
                "[images]\nhigh_water = 100\nlocal_folders = [{open:?}]"
            ))
            .start()
            .await;
        let credentials = daemon.scratch().join("operator");
        let out = credentials.display().to_string();
        let words = ["certificate", "issue", "--role", "operator", "--name", "op"];
        let words = [&words[..], &["--out", &out]].concat();
        daemon.cli_with_endpoints().run(words).await.ok();
        Self {
            operator: daemon
                .node_with(&credentials)
                .await
                .expect("it may connect"),
            admin: daemon.node().await,
            daemon,
            directory,
            image,
        }
    }

    fn open(&self, path: &str) -> PathBuf {
        self.directory.path().join("open").join(path)
    }

    fn closed(&self, path: &str) -> PathBuf {
        self.directory.path().join("closed").join(path)
    }

    /// Puts a link where something is, which is kept aside.
    fn swap(&self, path: &str, target: &Path) {
        let aside = self.open(&format!("{path}.aside"));
        fs::rename(self.open(path), aside).unwrap();
        symlink(target, self.open(path)).unwrap();
    }

    fn swap_back(&self, path: &str) {
        fs::remove_file(self.open(path)).unwrap();
        let aside = self.open(&format!("{path}.aside"));
        fs::rename(aside, self.open(path)).unwrap();
    }
}

/// A pod without a network, which so changes nothing of the host's.
fn alone(mut pod: PodSpec, volume: &Path, target: &str) -> PodSpec {
    pod.network = PodNetwork::Isolated.into();
    pod.volumes = vec![dir(volume, target)];
    pod
}

/// Ends a race, also when a side of it panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_place_of_a_volume_is_not_mounted() {
    let world = World::new().await;
    let operator = &world.operator;
    fs::create_dir_all(world.open("x/inner")).unwrap();
    fs::write(world.open("x/file"), "mine").unwrap();
    let attacker = alone(idle("attacker", &world.image), &world.open(""), "/open");
    operator.run_pod(attacker).await.unwrap();
    for (name, path) in [("whole", "x"), ("nested", "x/inner"), ("file", "x/file")] {
        let victim = alone(idle(name, &world.image), &world.open(path), "/v");
        operator.create_pod(victim).await.unwrap();
    }
    // By the pod itself, as the attack goes: to the root, upwards, through
    // what the kernel makes links of, and to a directory that has the rest of
    // the path.
    let targets = ["/", "..", "/proc/self/root", "/proc/1/cwd"];
    let inner = world.closed("");
    for target in targets.into_iter().map(Path::new).chain([inner.as_path()]) {
        let swap = format!("mv /open/x /open/y && ln -s {} /open/x", target.display());
        operator.sh("attacker", &swap).await.unwrap().ok();
        for name in ["whole", "nested", "file"] {
            let error = operator.start_pod(name).await.unwrap_err();
            let words = error.message();
            let refused = words.contains("link") || words.contains("No such file");
            assert!(refused, "{target:?} {name}: {error}");
        }
        operator
            .sh("attacker", "rm /open/x && mv /open/y /open/x")
            .await
            .unwrap()
            .ok();
    }
    // Links further in, which lead to a place that may be named, as well.
    fs::create_dir(world.open("other")).unwrap();
    world.swap("x/inner", &world.open("other"));
    assert!(operator.start_pod("nested").await.is_err());
    world.swap_back("x/inner");
    // What is what it was is mounted.
    for name in ["whole", "nested", "file"] {
        operator.start_pod(name).await.unwrap();
    }
    assert_eq!(
        operator.sh("whole", "cat /v/file").await.unwrap().ok(),
        "mine"
    );
    assert_eq!(operator.sh("file", "cat /v").await.unwrap().ok(), "mine");
    // And a link cannot be named in the first place.
    symlink(world.closed(""), world.open("way")).unwrap();
    for path in ["way", "way/inner"] {
        let pod = alone(idle("refused", &world.image), &world.open(path), "/v");
        refused(operator.create_pod(pod).await, Code::PermissionDenied);
    }
    for path in ["../closed", "x/../../closed"] {
        let pod = alone(idle("refused", &world.image), &world.open(path), "/v");
        refused(operator.create_pod(pod).await, Code::InvalidArgument);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_comes_and_goes_is_never_mounted() {
    let world = World::new().await;
    let operator = &world.operator;
    fs::create_dir_all(world.open("x/inner")).unwrap();
    fs::write(world.open("x/inner/own"), "own").unwrap();
    let victim = script(
        "victim",
        &world.image,
        "[ -e /v/secret ] && touch /v/escaped; sleep 60",
    );
    let victim = alone(victim, &world.open("x/inner"), "/v");
    operator.create_pod(victim).await.unwrap();
    let over = AtomicBool::new(false);
    let mut starts = 0;
    let swaps = std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            let mut swaps = 0;
            while !over.load(Ordering::Relaxed) {
                world.swap("x", &world.closed(""));
                world.swap_back("x");
                swaps += 1;
            }
            swaps
        });
        let stop = Stop(&over);
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| {
            runtime.block_on(async {
                let started = Instant::now();
                while started.elapsed() < RACE {
                    if operator.start_pod("victim").await.is_ok() {
                        starts += 1;
                    }
                    operator.stop_pod("victim").await.unwrap();
                }
            });
        });
        drop(stop);
        swapping.join().unwrap()
    });
    assert!(swaps > 100, "{swaps}");
    assert!(starts > 0 && !world.closed("inner/escaped").exists());
}

/// A machine whose image or kernel is exchanged for a link.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_place_of_an_image_is_not_booted() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let world = World::new().await;
    let client = world.operator.client();
    fs::write(world.closed("disk"), vec![7; 1 << 20]).unwrap();
    for name in ["disk.raw", "more.raw"] {
        fs::write(world.open(name), vec![0; 1 << 20]).unwrap();
    }
    fs::copy(kernel(), world.open("vmlinuz")).unwrap();
    small_initramfs(&world.open("initrd"), "poweroff -f").unwrap();
    let text = |path: &str| world.open(path).to_string_lossy().into_owned();
    let base = |name: &str, boot: Boot| VmSpec {
        name: name.into(),
        memory_bytes: 192 << 20,
        boot: Some(boot),
        no_network: true,
        ..VmSpec::default()
    };
    let direct = Boot::Kernel(VmKernel {
        kernel: text("vmlinuz"),
        initrd: text("initrd"),
        command_line: "console=ttyS0".into(),
    });
    let mut with_disk = base("direct", direct);
    with_disk.disks = vec![VmDisk {
        image: text("more.raw"),
        ..VmDisk::default()
    }];
    for vm in [base("image", Boot::Image(text("disk.raw"))), with_disk] {
        let request = CreateVmRequest {
            vm: Some(vm),
            start: false,
        };
        client.vms().create(request).await.unwrap();
    }
    let start = async |name: &str| -> Result<(), Status> {
        let request = StartVmRequest { name: name.into() };
        client.vms().start(request).await.map(drop)
    };
    for (vm, path) in [
        ("image", "disk.raw"),
        ("direct", "more.raw"),
        ("direct", "vmlinuz"),
        ("direct", "initrd"),
    ] {
        for target in [world.closed("disk"), PathBuf::from("/etc/shadow")] {
            world.swap(path, &target);
            let error = start(vm).await.unwrap_err();
            assert!(error.message().contains("link"), "{path}: {error}");
            world.swap_back(path);
        }
    }
    start("image").await.unwrap();
    start("direct").await.unwrap();
    // Nor can a link be named, or a pipe, which would never be read.
    symlink("/etc/shadow", world.open("link")).unwrap();
    let request = |path: &str| CreateVmRequest {
        vm: Some(base("refused", Boot::Image(text(path)))),
        start: false,
    };
    refused(
        client.vms().create(request("link")).await,
        Code::PermissionDenied,
    );
    let made = std::process::Command::new("mkfifo")
        .arg(world.open("pipe"))
        .status();
    assert!(made.unwrap().success());
    refused(
        client.vms().create(request("pipe")).await,
        Code::InvalidArgument,
    );
}

async fn pull(node: &Node, reference: &str) -> Result<String, Status> {
    let request = PullImageRequest {
        reference: reference.into(),
        ..PullImageRequest::default()
    };
    let mut answers = node.client().images().pull(request).await?.into_inner();
    let mut digest = String::new();
    while let Some(answer) = answers.message().await? {
        if let Some(image) = answer.image {
            digest = image.digest;
        }
    }
    Ok(digest)
}

/// Layouts and archives, whole and in parts.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_place_of_an_image_is_not_pulled() {
    let world = World::new().await;
    let secret = Image::busybox().file("secret", b"secret");
    let layout = secret.write_layout(&world.closed("layout"), "v1");
    let archive = world.closed("archive.tar");
    secret.write_archive(&archive, "secret:v1");
    let mine = Image::busybox().write_layout(&world.open("mine"), "v1");
    let mine_archive = Image::busybox().write_archive(&world.open("mine.tar"), "mine:v1");
    assert!(layout.starts_with("oci:") && mine_archive.starts_with("docker-archive:"));
    let own = pull(&world.operator, &mine).await.unwrap();
    let own_archive = pull(&world.operator, &mine_archive).await.unwrap();

    // The whole of it.
    world.swap("mine", &world.closed("layout"));
    refused(pull(&world.operator, &mine).await, Code::PermissionDenied);
    world.swap_back("mine");
    world.swap("mine.tar", &archive);
    refused(
        pull(&world.operator, &mine_archive).await,
        Code::PermissionDenied,
    );
    world.swap_back("mine.tar");
    // Its parts: these are found only when it is read.
    for part in ["index.json", "blobs"] {
        world.swap(
            &format!("mine/{part}"),
            &world.closed(&format!("layout/{part}")),
        );
        assert!(pull(&world.operator, &mine).await.is_err(), "{part}");
        world.swap_back(&format!("mine/{part}"));
    }
    // While it is pulled, for an admin as well.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                world.swap("mine", &world.closed("layout"));
                world.swap_back("mine");
                world.swap("mine.tar", &archive);
                world.swap_back("mine.tar");
            }
        });
        let stop = Stop(&over);
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| {
            runtime.block_on(async {
                let (started, mut pulled) = (Instant::now(), 0);
                while started.elapsed() < RACE {
                    for node in [&world.operator, &world.admin] {
                        if let Ok(digest) = pull(node, &mine).await {
                            assert_eq!(digest, own);
                            pulled += 1;
                        }
                        if let Ok(digest) = pull(node, &mine_archive).await {
                            assert_eq!(digest, own_archive);
                            pulled += 1;
                        }
                    }
                }
                assert!(pulled > 0);
            });
        });
        drop(stop);
    });
    assert!(world.daemon.runs());
}
