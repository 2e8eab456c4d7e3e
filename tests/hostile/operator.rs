//! The operator role is not root of the host: what would make it so is
//! refused, and what is left cannot read a key of the host.

use std::os::unix::fs::MetadataExt as _;

use strata_testkit::v1::{CellCgroups, CellNetwork, CellOptions, ExecutableOptions, RootMode};
use strata_testkit::{Code, Daemon, cell_with, executable_with, refused};

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

fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
