//! What a cell looks like from inside.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use strata_testkit::v1::{CellNetwork, RootMode};
use strata_testkit::{Code, Daemon, cell_with, executable_with, field_of};

use crate::cells::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_has_namespaces_of_its_own_and_the_hosts_network() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let script = "cd /proc/self/ns; readlink pid mnt uts ipc net cgroup";
    let inside = node.shell("web", "ns", script).await;
    let kinds = ["pid", "mnt", "uts", "ipc", "net", "cgroup"];
    for (kind, inside) in kinds.iter().zip(inside.lines()) {
        let outside = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
        let is_same = outside.to_str() == Some(inside);
        assert_eq!(is_same, *kind == "net", "{kind}: {inside}");
    }
    assert_eq!(node.shell("web", "name", "hostname").await, "web");
    let first = node
        .shell("web", "first", "tr \"\\0\" \" \" </proc/1/cmdline")
        .await;
    assert!(first.starts_with("strata-init web"), "{first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_of_other_cells_cannot_be_seen() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("a").await.unwrap();
    node.allocate("b").await.unwrap();
    node.start("a", "secret", "sleep 4321").await.unwrap();
    let script = "cat /proc/[0-9]*/cmdline | tr \"\\0\" \"\\n\"";
    let seen = node.shell("b", "spy", script).await;
    assert!(!seen.contains("4321"), "{seen}");
    let seen = node.shell("a", "spy", script).await;
    assert!(seen.contains("4321"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_network_has_a_loopback_alone() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    let wanted = cell_with("alone", |options| {
        options.set_network(CellNetwork::Isolated);
    });
    node.allocate_as(wanted).await.unwrap();
    let devices = node.shell("alone", "dev", "cat /proc/net/dev").await;
    let names: Vec<&str> = devices
        .lines()
        .skip(2)
        .filter_map(|line| line.split(':').next())
        .map(str::trim)
        .collect();
    assert!(names.contains(&"lo"), "{names:?}");
    assert!(!names.contains(&"eth0"), "{names:?}");
    let routes = node.shell("alone", "route", "cat /proc/net/route").await;
    assert_eq!(routes.lines().count(), 1, "no way out: {routes}");
    let local = node
        .shell("alone", "local", "grep -c . /proc/net/if_inet6 || true")
        .await;
    assert!(local.trim().parse::<u32>().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_root_cannot_be_written() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let wanted = cell_with("still", |options| options.set_root(RootMode::ReadOnly));
    node.allocate_as(wanted).await.unwrap();
    let file = daemon.scratch().join("written");
    let script = format!("sh -c 'echo x >{}'", file.display());
    node.start("still", "write", &script).await.unwrap();
    assert_ne!(
        node.wait("still", "write").await.unwrap().exit_code,
        Some(0)
    );
    assert!(!file.exists());
    let read = node.shell("still", "read", "head -c 5 /proc/version").await;
    assert_eq!(read, "Linux");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_to_a_private_root_stay_in_the_cell_and_vanish_with_it() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let wanted = cell_with("own", |options| options.set_root(RootMode::Private));
    node.allocate_as(wanted.clone()).await.unwrap();
    let file = daemon.scratch().join("kept");
    fs::write(&file, "before").unwrap();
    let path = file.display();
    node.shell("own", "write", &format!("echo after >{path}"))
        .await;
    let read = format!("cat {path}");
    assert_eq!(node.shell("own", "read", &read).await, "after");
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
    node.free("own").await.unwrap();
    node.allocate_as(wanted).await.unwrap();
    assert_eq!(node.shell("own", "again", &read).await, "before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_becomes_the_root() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let root = daemon.scratch().join("root");
    for dir in ["proc", "dev", "bin", "data"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    // The product itself is one static file: it runs where nothing else is.
    fs::copy(STRATA, root.join("bin/strata")).unwrap();
    let wanted = cell_with("jail", |options| {
        options.set_root(RootMode::Folder);
        options.root_folder = root.display().to_string();
    });
    node.allocate_as(wanted).await.unwrap();
    let pid = node
        .start("jail", "v", "/bin/strata version")
        .await
        .unwrap();
    let lines = node.stdout(pid).await.unwrap();
    assert!(lines.join(" ").contains("strata"), "{lines:?}");
    let status = node.start("jail", "no", "/bin/sh -c true").await;
    assert_eq!(status.unwrap_err().code(), Code::InvalidArgument);

    let missing = cell_with("none", |options| {
        options.set_root(RootMode::Folder);
        options.root_folder = root.join("there-is-none").display().to_string();
    });
    let status = node.allocate_as(missing).await.unwrap_err();
    assert!(
        [Code::InvalidArgument, Code::FailedPrecondition].contains(&status.code()),
        "{status:?}"
    );
    assert_eq!(node.names().await, ["jail"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executable_has_the_user_the_environment_and_the_directory_asked_for() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let dir = daemon.scratch();
    let command = "sh -c 'id -u; id -g; id -G; pwd; echo \"$COLOUR\"; echo \"${HOME-none}\"'";
    let wanted = executable_with("web", "who", command, |options| {
        options.uid = Some(1234);
        options.gid = Some(2345);
        options.groups = vec![3456, 4567];
        options.environment = vec!["COLOUR=deep blue = sea".into()];
        options.working_directory = "/usr".into();
    });
    let pid = node.start_as(wanted).await.unwrap();
    let lines = node.stdout(pid).await.unwrap();
    assert_eq!(
        lines,
        [
            "1234",
            "2345",
            "2345 3456 4567",
            "/usr",
            "deep blue = sea",
            "none"
        ]
    );
    let wanted = executable_with("web", "where", "pwd", |options| {
        options.working_directory = dir.display().to_string();
    });
    let pid = node.start_as(wanted).await.unwrap();
    assert_eq!(node.stdout(pid).await.unwrap(), [dir.display().to_string()]);
    let wanted = executable_with("web", "nowhere", "pwd", |options| {
        options.working_directory = "/there/is/none".into();
    });
    let status = node.start_as(wanted).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(
        field_of(&status).as_deref(),
        Some("executable.options.working_directory")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn executable_inherits_nothing_from_the_daemon() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let files = node.shell("web", "fds", "ls /proc/self/fd").await;
    // 3 is the directory that ls itself has open.
    assert_eq!(files.lines().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    let environment = node.shell("web", "env", "env | cut -d= -f1 | sort").await;
    let names: Vec<&str> = environment.lines().collect();
    assert!(
        names
            .iter()
            .all(|n| ["PATH", "PWD", "_", "SHLVL"].contains(n)),
        "{names:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_that_the_daemon_was_started_with_ignored_do_not_reach_executables() {
    // As `nohup strata up &` in a script would start it.
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("strata");
    let text = format!("#!/bin/sh\ntrap '' HUP INT QUIT USR1\nexec {STRATA} \"$@\"\n");
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let (_daemon, node) = Daemon::up(script).await;
    node.allocate("web").await.unwrap();
    let script = "grep -E \"Sig(Blk|Ign)\" /proc/self/status";
    let signals = node.shell("web", "signals", script).await;
    for line in signals.lines() {
        let mask = line.split_whitespace().last().unwrap();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        // Beyond the classic ones are some that the C library keeps to itself.
        assert_eq!(mask & 0x7fff_ffff, 0, "{signals}");
    }
}
