//! The operator role is not root of the host: what would make it so is
//! refused, and what is left cannot read a key of the host.

use std::os::unix::fs::MetadataExt as _;

use strata_testkit::guest::Guest;
use strata_testkit::pods::idle;
use strata_testkit::v1::console_input::Input;
use strata_testkit::v1::vm_spec::Boot;
use strata_testkit::v1::{
    CellCgroups, CellNetwork, CellOptions, ConsoleInput, CreateVmRequest, DestroyVmRequest,
    ExecutableOptions, ListVmsRequest, PodNetwork, PodSecurity, PodState, RootMode, StartVmRequest,
    StopVmRequest, VmSpec,
};
use strata_testkit::{Code, Daemon, cell_with, executable_with, refused, skip};

use super::STRATA;

type Change = fn(&mut CellOptions);
const USER: u32 = 12_345;

fn unprivileged(options: &mut CellOptions) {
    options.set_root(RootMode::Private);
    options.set_network(CellNetwork::Isolated);
}

fn as_user(options: &mut ExecutableOptions) {
    (options.uid, options.gid) = (Some(USER), Some(USER));
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_gets_no_cell_of_the_host() {
    let daemon = Daemon::build(STRATA).start().await;
    let operator = daemon.node_as("operator").await;
    let denied: [(&str, Change); 6] = [
        ("default", |_| {}),
        ("read-only", |options| {
            unprivileged(options);
            options.set_root(RootMode::ReadOnly);
        }),
        ("host-root", |options| {
            unprivileged(options);
            options.set_root(RootMode::Host);
        }),
        ("folder", |options| {
            unprivileged(options);
            options.set_root(RootMode::Folder);
            options.root_folder = "/".into();
        }),
        ("host-network", |options| {
            unprivileged(options);
            options.set_network(CellNetwork::Host);
        }),
        ("host-cgroups", |options| {
            unprivileged(options);
            options.set_cgroups(CellCgroups::Host);
        }),
    ];
    for (name, options) in denied {
        let answer = operator.allocate_as(cell_with(name, options)).await;
        refused(answer, Code::PermissionDenied);
    }
    assert!(daemon.node().await.names().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_starts_nothing_as_root_nor_in_a_cell_of_an_admin() {
    let daemon = Daemon::build(STRATA).start().await;
    let admin = daemon.node().await;
    let operator = daemon.node_as("operator").await;
    admin.allocate("host").await.unwrap();
    let mine = cell_with("mine", unprivileged);
    operator.allocate_as(mine).await.unwrap();
    let nobody_named = executable_with("mine", "root", "id", |_| {});
    let group_zero = executable_with("mine", "group", "id", |options| {
        (options.uid, options.gid) = (Some(USER), Some(0));
    });
    let further_group = executable_with("mine", "groups", "id", |options| {
        as_user(options);
        options.groups = vec![0];
    });
    let in_host_cell = executable_with("host", "user", "id", as_user);
    for executable in [nobody_named, group_zero, further_group, in_host_cell] {
        let started = operator.start_as(executable).await;
        refused(started, Code::PermissionDenied);
    }
    // Nor a cell of its own inside that of an admin, at any depth.
    admin
        .allocate_as(cell_with("host/private", unprivileged))
        .await
        .unwrap();
    for name in ["host/inner", "host/private/inner"] {
        let inside = operator.allocate_as(cell_with(name, unprivileged)).await;
        refused(inside, Code::PermissionDenied);
    }
    let inside = cell_with("mine/inner", unprivileged);
    operator.allocate_as(inside).await.unwrap();
}

/// A private root has the host's files and devices below it: whose group may
/// write the host's disk, or read its passwords, is the host's root.
#[tokio::test(flavor = "multi_thread")]
async fn operator_takes_no_user_nor_group_of_the_host() {
    let daemon = Daemon::build(STRATA).start().await;
    let admin = daemon.node().await;
    let operator = daemon.node_as("operator").await;
    let mine = cell_with("mine", unprivileged);
    operator.allocate_as(mine).await.unwrap();
    let shadow = std::fs::metadata("/etc/shadow").unwrap().gid();
    assert_ne!(shadow, 0, "the attack needs a group that reads /etc/shadow");
    let read = "head -c 4 /etc/shadow";
    let by_group = |options: &mut ExecutableOptions| {
        (options.uid, options.gid) = (Some(USER), Some(shadow));
    };
    let by_further_group = |options: &mut ExecutableOptions| {
        as_user(options);
        options.groups = vec![shadow];
    };
    // What it would get, if it were allowed.
    let theft = executable_with("mine", "theft", read, by_further_group);
    let pid = admin.start_as(theft).await.unwrap();
    admin.wait("mine", "theft").await.unwrap();
    assert!(!admin.stdout(pid).await.unwrap().is_empty());
    // The group of disks, a user of the system, one of a pod.
    let disk = |options: &mut ExecutableOptions| {
        as_user(options);
        options.groups = vec![6];
    };
    let system = |options: &mut ExecutableOptions| {
        (options.uid, options.gid) = (Some(1), Some(USER));
    };
    let of_pod = |options: &mut ExecutableOptions| {
        (options.uid, options.gid) = (Some(1 << 30), Some(USER));
    };
    let denied = [
        executable_with("mine", "group", read, by_group),
        executable_with("mine", "groups", read, by_further_group),
        executable_with("mine", "disk", "head -c 4 /dev/vda", disk),
        executable_with("mine", "system", "id", system),
        executable_with("mine", "pod", "id", of_pod),
    ];
    for executable in denied {
        let started = operator.start_as(executable).await;
        refused(started, Code::PermissionDenied);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cell_of_an_operator_reads_no_key_and_gains_no_privilege() {
    let daemon = Daemon::build(STRATA).start().await;
    let operator = daemon.node_as("operator").await;
    let mine = cell_with("mine", unprivileged);
    operator.allocate_as(mine).await.unwrap();
    let data = daemon.data_dir().display().to_string();
    let keys = format!("{data}/ca/ca.key {data}/client/token /etc/shadow");
    let script = format!(
        "cat {keys} && exit 1; echo x > /proc/sys/kernel/core_pattern && exit 2; \
         mount -t tmpfs none /tmp && exit 3; grep -q 'NoNewPrivs:.1' /proc/self/status || exit 4; \
         tail -n +3 /proc/net/dev | grep -v lo: && exit 5; id -u"
    );
    let command = format!("sh -c {}", shell_quote(&script));
    let executable = executable_with("mine", "grab", &command, as_user);
    let pid = operator.start_as(executable).await.unwrap();
    let ended = operator.wait("mine", "grab").await.unwrap();
    let said = operator.stdout(pid).await.unwrap();
    assert_eq!(ended.exit_code, Some(0), "{said:?}");
    assert_eq!(said, [USER.to_string()]);
}

/// What an operator may not allocate, start or create it may not end either.
#[tokio::test(flavor = "multi_thread")]
async fn operator_ends_nothing_that_only_an_admin_may_begin() {
    let daemon = Daemon::build(STRATA).start().await;
    let admin = daemon.node().await;
    let operator = daemon.node_as("operator").await;
    admin.allocate("host").await.unwrap();
    let pid = admin.start("host", "main", "sleep 1000").await.unwrap();
    // An executable of root in a cell that an operator may allocate.
    let mine = cell_with("mine", unprivileged);
    operator.allocate_as(mine).await.unwrap();
    admin.start("mine", "root", "sleep 1000").await.unwrap();
    refused(operator.free("host").await, Code::PermissionDenied);
    refused(operator.free_now("host").await, Code::PermissionDenied);
    refused(operator.stop("host", "main").await, Code::PermissionDenied);
    refused(operator.stop("mine", "root").await, Code::PermissionDenied);
    // A cell of the host inside one of an operator goes with it.
    let within = cell_with("mine/host", |options| options.set_root(RootMode::Host));
    admin.allocate_as(within).await.unwrap();
    refused(operator.free("mine").await, Code::PermissionDenied);
    admin.free("mine/host").await.unwrap();
    // Nor is root's executable ended by freeing the cells around it.
    operator
        .allocate_as(cell_with("mine/inner", unprivileged))
        .await
        .unwrap();
    admin
        .start("mine/inner", "deep", "sleep 1000")
        .await
        .unwrap();
    refused(operator.free("mine/inner").await, Code::PermissionDenied);
    refused(operator.free_now("mine").await, Code::PermissionDenied);
    admin.free("mine/inner").await.unwrap();
    refused(operator.free("mine").await, Code::PermissionDenied);
    refused(operator.free_now("mine").await, Code::PermissionDenied);
    let root = admin.stop("mine", "root").await;
    root.unwrap();

    let image = strata_testkit::images::busybox_layout(&daemon.scratch());
    let mut privileged = idle("privileged", &image);
    privileged.network = PodNetwork::Isolated.into();
    privileged.security = Some(PodSecurity {
        add_capabilities: vec!["SYS_ADMIN".into()],
        ..PodSecurity::default()
    });
    admin.run_pod(privileged).await.unwrap();
    refused(
        operator.stop_pod("privileged").await,
        Code::PermissionDenied,
    );
    refused(
        operator.destroy_pod("privileged").await,
        Code::PermissionDenied,
    );
    let pod = admin.pod("privileged").await.unwrap();
    assert_eq!(pod.state(), PodState::Running, "{pod:?}");
    admin.stop_pod("privileged").await.unwrap();
    refused(
        operator.start_pod("privileged").await,
        Code::PermissionDenied,
    );
    let running = std::path::Path::new("/proc").join(pid.to_string());
    assert!(running.exists(), "the admin's executable runs on");

    // Its own, and what is there for all, it ends as before.
    let own = executable_with("mine", "own", "sleep 1000", as_user);
    operator.start_as(own).await.unwrap();
    operator.stop("mine", "own").await.unwrap();
    operator.free("mine").await.unwrap();
    assert_eq!(admin.names().await, ["host"]);
}

/// A machine of files that only an admin may name: its console shows what is on
/// them. One of files that operators may name too is anyone's to manage.
#[tokio::test(flavor = "multi_thread")]
async fn operator_does_not_manage_a_machine_of_files_that_only_an_admin_may_name() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let directory = tempfile::tempdir().unwrap();
    let open = directory.path().join("open");
    std::fs::create_dir(&open).unwrap();
    let daemon = Daemon::build(STRATA)
        .config(&format!("[images]\nlocal_folders = [{open:?}]"))
        .start()
        .await;
    let admin = daemon.node().await;
    let operator = daemon.node_as("operator").await;
    for (name, path) in [
        ("private", directory.path().join("disk.raw")),
        ("shared", open.join("disk.raw")),
    ] {
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let vm = VmSpec {
            name: name.into(),
            memory_bytes: 192 << 20,
            boot: Some(Boot::Image(path.to_string_lossy().into_owned())),
            no_network: true,
            ..VmSpec::default()
        };
        let request = CreateVmRequest {
            vm: Some(vm),
            start: name == "private",
        };
        admin.client().vms().create(request).await.unwrap();
    }
    let mut vms = operator.client().vms();
    let name = || "private".to_owned();
    let stop = StopVmRequest {
        name: name(),
        grace_ms: Some(0),
    };
    refused(vms.stop(stop.clone()).await, Code::PermissionDenied);
    let destroy = DestroyVmRequest { name: name() };
    refused(vms.destroy(destroy).await, Code::PermissionDenied);
    let console = tokio_stream::once(ConsoleInput {
        input: Some(Input::Vm(name())),
    });
    let console = vms.console(console).await.map(drop);
    refused(console, Code::PermissionDenied);
    admin.client().vms().stop(stop).await.unwrap();
    let start = StartVmRequest { name: name() };
    refused(vms.start(start).await, Code::PermissionDenied);
    let shared = DestroyVmRequest {
        name: "shared".into(),
    };
    vms.destroy(shared).await.unwrap();
    let left = admin.client().vms().list(ListVmsRequest {}).await.unwrap();
    let names: Vec<_> = left
        .into_inner()
        .vms
        .into_iter()
        .map(|vm| vm.spec)
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

/// A machine with the tag of a machine provider is a node for the network: it
/// reaches every service of its host.
#[tokio::test(flavor = "multi_thread")]
async fn operator_does_not_pass_a_machine_for_a_node() {
    let daemon = Daemon::build(STRATA).start().await;
    let operator = daemon.node_as("operator").await;
    let vm = VmSpec {
        name: "spy".into(),
        memory_bytes: 192 << 20,
        boot: Some(Boot::Image("/none.raw".into())),
        labels: [("strata.dev/tag".into(), "m1".into())].into(),
        ..VmSpec::default()
    };
    let request = CreateVmRequest {
        vm: Some(vm),
        start: false,
    };
    let created = operator.client().vms().create(request.clone()).await;
    let status = created.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    assert!(status.message().contains("strata.dev/tag"), "{status}");
    // An admin gets as far as the image, which is not there.
    let admin = daemon.node().await;
    let created = admin.client().vms().create(request).await;
    let status = created.unwrap_err();
    assert_ne!(status.code(), Code::PermissionDenied, "{status}");
}

/// Without a limit that it names, a cell of an operator has one of processes
/// and one of memory; what it names is what holds, and admins' have none.
#[tokio::test(flavor = "multi_thread")]
async fn cell_of_an_operator_is_limited_where_nothing_is_named() {
    let daemon = Daemon::build(STRATA).start().await;
    let admin = daemon.node().await;
    let operator = daemon.node_as("operator").await;
    operator
        .allocate_as(cell_with("mine", unprivileged))
        .await
        .unwrap();
    admin.allocate("host").await.unwrap();
    let limits = async |name: &str| {
        let options = admin.get(name).await.unwrap().options.unwrap();
        (options.pids_max, options.memory.and_then(|it| it.max))
    };
    let (pids, memory) = limits("mine").await;
    assert_eq!(pids, Some(4096));
    assert!(memory.is_some_and(|most| most > 64 << 20), "{memory:?}");
    assert_eq!(limits("host").await, (None, None));
    let named = cell_with("named", |options| {
        unprivileged(options);
        options.pids_max = Some(10_000);
    });
    operator.allocate_as(named).await.unwrap();
    assert_eq!(limits("named").await.0, Some(10_000));
}

fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
