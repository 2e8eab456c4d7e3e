//! Roots of cells on a machine whose own root is the kernel's first one,
//! which cannot be pivoted away: the cell's root is moved over it instead.

use strata_testkit::cell_with;
use strata_testkit::v1::RootMode;

use crate::host_shell::Machine;

pub(crate) async fn roots_are_as_asked_for(machine: &Machine) {
    let node = &machine.node;
    let first = machine.outside("grep \" / \" /proc/mounts").await;
    assert!(first.contains(" / rootfs "), "{first}");

    for (name, mode) in [
        ("read-only", RootMode::ReadOnly),
        ("private", RootMode::Private),
    ] {
        let cell = cell_with(name, |options| options.set_root(mode));
        node.allocate_as(cell).await.unwrap();
    }
    let script = "touch /probe 2>&1 || echo refused";
    let refused = node.shell("read-only", "write", script).await;
    assert!(refused.ends_with("refused"), "{refused}");
    assert!(refused.contains("Read-only"), "{refused}");

    let script = "echo mine >/probe && rm /etc/strata/start && cat /probe && ls -A /etc/strata";
    assert_eq!(node.shell("private", "write", script).await, "mine");
    let seen = machine
        .outside("ls -d /probe /etc/strata/start 2>/dev/null")
        .await;
    assert_eq!(seen, "/etc/strata/start");
    // A second executable finds what the first one left.
    assert_eq!(node.shell("private", "read", "cat /probe").await, "mine");
    assert_eq!(
        node.shell("private", "echo", "cat /proc/1/comm").await,
        "strata-init"
    );

    // A private root in a private root begins with what is there.
    let inner = cell_with("private/inner", |options| {
        options.set_root(RootMode::Private);
    });
    node.allocate_as(inner).await.unwrap();
    let script = "cat /probe && echo inner >/probe && cat /probe";
    let found = node.shell("private/inner", "write", script).await;
    assert_eq!(found, "mine\ninner");
    assert_eq!(node.shell("private", "read", "cat /probe").await, "mine");

    dir(machine).await;
    for name in ["read-only", "private"] {
        node.free(name).await.unwrap();
    }
}

async fn dir(machine: &Machine) {
    let node = &machine.node;
    let make = "cd /root && mkdir -p own/bin own/proc own/dev && cp /bin/busybox own/bin/sh";
    machine.outside(make).await;
    let own = cell_with("own", |options| {
        options.set_root(RootMode::Folder);
        options.root_folder = "/root/own".into();
    });
    node.allocate_as(own).await.unwrap();
    // Nothing of the machine's root is left, above it or below.
    let script = "cd /../..; echo *; read comm </proc/1/comm; echo $comm; echo kept >/new";
    let command = format!("/bin/sh -c '{script}'");
    let pid = node.start("own", "look", &command).await.unwrap();
    let found = node.stdout(pid).await.unwrap();
    assert_eq!(found, ["bin dev proc", "strata-init"]);
    assert_eq!(machine.outside("cat /root/own/new").await, "kept");
    node.free("own").await.unwrap();
    let mounts = machine.outside("grep -c /root/own /proc/mounts").await;
    assert_eq!(mounts, "0");
}
