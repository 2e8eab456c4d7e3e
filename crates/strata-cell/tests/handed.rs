//! Cells that are handed a root: what is inside, what is hidden, what a
//! sandboxed process may do, and its user. Looked at from inside.
#![allow(clippy::unwrap_used)]

mod world;

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use strata_cell::seccomp::Filter;
use strata_cell::{CellInit, Confinement, MountOp, Stdio};
use strata_types::{Ending, IdMap, Identity};
use world::{Cell, World, handed, proc, tree, wait_exit};

const SYS_ADMIN: u64 = 1 << 21;
const CHOWN: u64 = 1;
const RLIMIT_NOFILE: u32 = 7;

/// A directory that is all a container has: busybox and a few names for it.
fn root_dir(world: &World) -> std::path::PathBuf {
    let root = world.dir.path().join("root");
    for dir in ["bin", "dev", "etc", "proc", "tmp", "secret"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    for applet in [
        "sh", "cat", "ls", "id", "mount", "unshare", "grep", "chown", "tty",
    ] {
        symlink("busybox", root.join("bin").join(applet)).unwrap();
    }
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(root.join("secret/key"), "hidden").unwrap();
    fs::write(root.join("etc/shadow"), "hidden").unwrap();
    root
}

fn setup_root(cell: &Cell<'_>, root: &Path, more: Vec<MountOp>) {
    let mut mount_ops = vec![
        proc(),
        MountOp::Directory("/dev".into(), tree(Path::new("/dev"))),
    ];
    mount_ops.extend(more);
    cell.init.init.setup_root(&tree(root), &mount_ops).unwrap();
}

fn confinement(capabilities: u64) -> Confinement {
    Confinement {
        capabilities,
        no_new_privileges: true,
        rlimits: vec![(RLIMIT_NOFILE, 77, 88)],
        filter: Some(Filter::for_capabilities(capabilities)),
    }
}

#[test]
fn a_handed_root_is_all_there_is() {
    let world = World::new("handed");
    let root = root_dir(&world);
    let volume = world.dir.path().join("volume");
    fs::create_dir(&volume).unwrap();
    fs::write(volume.join("data"), "kept").unwrap();
    let cell = world.cell(&handed("web")).unwrap();
    let mount_ops = vec![
        MountOp::Directory("/var/lib/data".into(), tree(&volume)),
        MountOp::File("/etc/hosts".into(), tree(&volume.join("data"))),
        MountOp::Mask("/secret".into()),
        MountOp::Mask("/etc/shadow".into()),
        MountOp::Mask("/not/there".into()),
        MountOp::ReadOnly("/proc/sys".into()),
        MountOp::Sysctl("net.ipv4.ip_unprivileged_port_start".into(), "80".into()),
    ];
    // A setting comes before what makes it unchangeable.
    let mut mount_ops = mount_ops;
    let last = mount_ops.pop().unwrap();
    mount_ops.insert(0, last);
    setup_root(&cell, &root, mount_ops);
    let (_, ls) = cell.run(1, "ls /");
    assert_eq!(ls, "bin\ndev\netc\nproc\nsecret\ntmp\nvar");
    let see = "sh -c 'cat /var/lib/data/data /etc/hosts; ls /secret; cat /etc/shadow;
        cat /proc/sys/net/ipv4/ip_unprivileged_port_start'";
    assert_eq!(cell.run(2, see).1, "keptkept80");
    let (ending, _) = cell.run(
        3,
        "sh -c 'echo 81 > /proc/sys/net/ipv4/ip_unprivileged_port_start'",
    );
    assert_eq!(ending, Ending::Code(1));
    let (_, mounts) = cell.run(4, "cat /proc/self/mountinfo");
    assert!(!mounts.contains("/boot"), "{mounts}");
    let points: Vec<_> = mounts.lines().map(|line| line.split(' ').nth(4)).collect();
    assert!(points.contains(&Some("/")), "{mounts}");
    assert_eq!(points.len(), 8, "{mounts}");
}

#[test]
fn links_in_an_image_do_not_lead_mounts_out_of_it() {
    let world = World::new("links");
    let root = root_dir(&world);
    let outside = world.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::remove_dir(root.join("tmp")).unwrap();
    symlink(&outside, root.join("tmp")).unwrap();
    let cell = world.cell(&handed("web")).unwrap();
    let volume = tree(&world.dir.path().join("root/etc"));
    let mount_ops = [proc(), MountOp::Directory("/tmp/made/here".into(), volume)];
    // The link points to a directory that the container does not have.
    let refused = cell
        .init
        .init
        .setup_root(&tree(&root), &mount_ops)
        .unwrap_err();
    assert!(
        refused.to_string().contains("mount /tmp/made/here"),
        "{refused}"
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn a_sandboxed_process_has_what_it_is_given_and_no_more() {
    let world = World::new("sandbox");
    let root = root_dir(&world);
    let cell = world.cell(&handed("web")).unwrap();
    setup_root(&cell, &root, Vec::new());
    cell.init.init.confine(&confinement(CHOWN)).unwrap();
    let root_user = Identity::default();
    let status = "grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status";
    let (_, seen) = cell.run_sandboxed(1, status, root_user.clone());
    let words: Vec<_> = seen.split_whitespace().collect();
    let one = "0000000000000001";
    let none = "0000000000000000";
    let expected = [
        "CapInh:",
        none,
        "CapPrm:",
        one,
        "CapEff:",
        one,
        "CapBnd:",
        one,
        "CapAmb:",
        none,
        "NoNewPrivs:",
        "1",
        "Seccomp:",
        "2",
    ];
    assert_eq!(words, expected);
    let limits = "sh -c 'ulimit -Sn; ulimit -Hn'";
    assert_eq!(cell.run_sandboxed(2, limits, root_user.clone()).1, "77\n88");
    // With neither the capability nor the call.
    let (ending, _) = cell.run_sandboxed(3, "mount -t tmpfs none /tmp", root_user.clone());
    assert_ne!(ending, Ending::Code(0));
    let (ending, _) = cell.run_sandboxed(4, "unshare -U id", root_user.clone());
    assert_ne!(ending, Ending::Code(0));
    let user = Identity {
        uid: Some(1000),
        gid: Some(1000),
        groups: vec![7],
    };
    let (_, seen) = cell.run_sandboxed(5, status, user.clone());
    assert!(seen.contains(&format!("CapEff:\t{none}")), "{seen}");
    let (_, seen) = cell.run_sandboxed(6, "id", user);
    assert_eq!(seen, "uid=1000 gid=1000 groups=7");
    // What is not sandboxed is not held to it.
    assert_eq!(cell.run(7, "mount -t tmpfs none /tmp").0, Ending::Code(0));
    cell.init.init.confine(&confinement(SYS_ADMIN)).unwrap();
    let (ending, _) = cell.run_sandboxed(8, "mount -t tmpfs none /tmp", root_user);
    assert_eq!(ending, Ending::Code(0));
}

#[test]
fn root_of_a_user_namespace_has_no_privileges_outside() {
    let world = World::new("users");
    let root = root_dir(&world);
    let mut spec = handed("web");
    spec.id_map = Some(IdMap {
        first: 1_000_000,
        count: 65536,
    });
    let cell = world.cell(&spec).unwrap();
    setup_root(&cell, &root, Vec::new());
    let (_, seen) = cell.run(1, "id");
    assert_eq!(seen, "uid=0 gid=0");
    let (_, map) = cell.run(2, "cat /proc/self/uid_map");
    assert_eq!(
        map.split_whitespace().collect::<Vec<_>>(),
        ["0", "1000000", "65536"]
    );
    // A directory of the machine's root belongs to another user.
    let (ending, _) = cell.run(3, "sh -c 'echo x > /etc/made'");
    assert_eq!(ending, Ending::Code(1));
    let (ending, _) = cell.run(4, "sh -c 'echo x > /tmp/made'");
    assert_eq!(ending, Ending::Code(0));
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(
        fs::metadata(root.join("tmp/made")).unwrap().uid(),
        1_000_000
    );
}

#[test]
fn files_and_terminals_can_be_given() {
    let world = World::new("stdio");
    let root = root_dir(&world);
    let cell = world.cell(&handed("web")).unwrap();
    setup_root(&cell, &root, Vec::new());
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let null = File::open("/dev/null").unwrap();
    let files = Stdio::Files([null.as_fd(), writer.as_fd(), writer.as_fd()]);
    let events = CellInit::connect(&cell.dir).unwrap().events;
    let echo = "sh -c 'echo out; echo err >&2'";
    cell.launch_with(1, echo, Identity::default(), files, false)
        .unwrap();
    drop(writer);
    let mut said = String::new();
    File::from(reader).read_to_string(&mut said).unwrap();
    assert_eq!(said, "out\nerr\n");
    wait_exit(&events, 1);

    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let ours = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&ours).unwrap();
    rustix::pty::unlockpt(&ours).unwrap();
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags).unwrap();
    let terminal = Stdio::Terminal(theirs.as_fd());
    let control = "sh -c 'echo hello > /dev/tty'";
    cell.launch_with(2, control, Identity::default(), terminal, false)
        .unwrap();
    let mut said = [0; 64];
    let n = rustix::io::read(&ours, &mut said).unwrap();
    assert_eq!(&said[..n], b"hello\r\n");
    wait_exit(&events, 2);
}
