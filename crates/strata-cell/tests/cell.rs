//! The mechanism on the real kernel: a shim, cells, executables, their
//! ends and their logs. Needs root; each test has a run of its own.
#![allow(clippy::unwrap_used)]

#[path = "cell/escape.rs"]
mod escape;
mod world;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use strata_cell::CellInit;
use strata_cell::log::Channel;
use strata_types::{Ending, Identity};
use world::{World, output, spec, wait_exit};

/// A start comes back when exec can no longer fail, which is a moment before
/// the new program can be seen.
fn wait_for_program(pid: i32, program: &Path) {
    let begin = Instant::now();
    while fs::read_link(format!("/proc/{pid}/exe")).unwrap() != program {
        assert!(begin.elapsed() < Duration::from_secs(10), "{program:?}");
        std::thread::yield_now();
    }
}

#[test]
fn an_executable_runs_in_its_own_namespaces_and_leaves_its_end_and_output() {
    let world = World::new("namespaces");
    let cell = world.cell(&spec("web")).unwrap();
    let script = "sh -c 'hostname; cat /proc/1/comm; echo $GREETING $$; echo oops >&2; exit 3'";
    let (ending, output) = cell.run(1, script);
    assert_eq!(ending, Ending::Code(3));
    assert_eq!(output, "web\nstrata-init\nhello 2");
    let errors = world::output(&cell.dir.join("1"), Channel::Stderr);
    assert_eq!(errors, "oops");
}

#[test]
fn an_executable_inherits_standard_streams_and_nothing_else() {
    let world = World::new("files");
    let cell = world.cell(&spec("web")).unwrap();
    let inner = world.cell(&spec("other")).unwrap();
    for cell in [cell, inner] {
        // The one that lists has the directory itself open as well.
        let (_, output) = cell.run(1, "/bin/busybox ls /proc/self/fd");
        assert_eq!(output, "0\n1\n2\n3");
        let (_, output) = cell.run(2, "/bin/busybox readlink /proc/self/fd/0");
        assert_eq!(output, "/dev/null");
    }
}

#[test]
fn failed_start_reports_the_reason_and_leaves_nothing() {
    let world = World::new("badexec");
    let cell = world.cell(&spec("web")).unwrap();
    let missing = cell.launch(1, "no-such-program").unwrap_err();
    assert_eq!(missing.to_string(), "\"no-such-program\": no such file");
    let dir = cell.launch(2, "/etc").unwrap_err();
    assert_eq!(dir.to_string(), "\"/etc\": not executable");
    let text = world.dir.path().join("text");
    fs::write(&text, "no program").unwrap();
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
    let garbage = cell.launch(3, text.to_str().unwrap()).unwrap_err();
    assert!(garbage.to_string().contains("not a program"), "{garbage}");
    assert_eq!(cell.init.init.runs().unwrap(), []);
}

#[test]
fn executable_runs_as_the_requested_user() {
    let world = World::new("identity");
    let cell = world.cell(&spec("web")).unwrap();
    let events = CellInit::connect(&cell.dir).unwrap().events;
    let identity = Identity {
        uid: Some(1234),
        gid: Some(2345),
        groups: vec![7, 8],
    };
    let (dir, _) = cell
        .launch_as(1, "sh -c 'id -u; id -g; id -G'", identity)
        .unwrap();
    wait_exit(&events, 1);
    assert_eq!(output(&dir, Channel::Stdout), "1234\n2345\n2345 7 8");
}

#[test]
fn pids_are_reported_in_the_pid_namespace_of_the_caller() {
    let world = World::new("pids");
    let cell = world.cell(&spec("web")).unwrap();
    let (_, pid) = cell.launch(1, "sleep 1000").unwrap();
    wait_for_program(pid, &fs::canonicalize("/bin/sleep").unwrap());
    assert_eq!(cell.init.init.runs().unwrap(), [(1, pid)]);
    let comm = fs::read_to_string(format!("/proc/{}/comm", cell.init.init.pid())).unwrap();
    assert_eq!(comm.trim(), "strata-init");
}

#[test]
fn killing_the_init_ends_all_that_it_holds() {
    let world = World::new("kill");
    let cell = world.cell(&spec("web")).unwrap();
    let (_, pid) = cell
        .launch(1, "sh -c 'sleep 1000 & setsid sleep 1000 & wait'")
        .unwrap();
    cell.init.init.kill().unwrap();
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(CellInit::connect(&cell.dir).is_err());
    world.cgroups.cell(&cell.spec.name).remove_tree().unwrap();
    assert!(world.cgroups.outermost().is_empty());
}

#[test]
fn roots_are_as_asked_for() {
    use strata_types::RootMode;
    let world = World::new("roots");
    let probe = world.dir.path().join("probe");
    let write = format!(
        "sh -c 'echo x > {} && cat {} && echo written'",
        probe.display(),
        probe.display()
    );

    let mut read_only = spec("read-only");
    read_only.root = RootMode::ReadOnly;
    let (ending, _) = world.cell(&read_only).unwrap().run(1, &write);
    assert_ne!(ending, Ending::Code(0));
    assert!(!probe.exists());

    let mut private = spec("private");
    private.root = RootMode::Private;
    let (ending, output) = world.cell(&private).unwrap().run(1, &write);
    assert_eq!((ending, output.as_str()), (Ending::Code(0), "x\nwritten"));
    assert!(!probe.exists());

    let root = world.dir.path().join("root");
    for dir in ["bin", "proc", "dev"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    fs::copy("/bin/busybox", root.join("bin/sh")).unwrap();
    let mut own = spec("own");
    own.root = RootMode::Directory(root.to_str().unwrap().into());
    let (ending, output) = world
        .cell(&own)
        .unwrap()
        .run(1, "/bin/sh -c 'cd /; echo *'");
    assert_eq!((ending, output.as_str()), (Ending::Code(0), "bin dev proc"));

    let mut missing = spec("missing");
    missing.root = RootMode::Directory("/no/such/folder".into());
    let error = world.cell(&missing).err().unwrap();
    assert!(error.to_string().contains("mounts"), "{error}");
}

#[test]
fn an_isolated_network_has_a_loopback_alone() {
    let world = World::new("network");
    let mut isolated = spec("isolated");
    isolated.isolated_network = true;
    let (_, output) = world.cell(&isolated).unwrap().run(1, "cat /proc/net/dev");
    let interfaces: Vec<_> = output
        .lines()
        .skip(2)
        .map(|l| l.split(':').next().unwrap().trim())
        .collect();
    assert_eq!(interfaces, ["lo"]);
}

#[test]
fn a_cell_sees_its_own_control_groups_or_those_of_the_machine() {
    let world = World::new("groups");
    let groups = |name: &str, host_cgroups: bool| {
        let mut spec = spec(name);
        spec.host_cgroups = host_cgroups;
        let (_, output) = world.cell(&spec).unwrap().run(1, "cat /proc/self/cgroup");
        output
    };
    let ours = groups("ours", false);
    assert!(!ours.contains("ours"), "{ours}");
    let all = groups("all", true);
    assert!(all.contains("/all"), "{all}");
}

#[test]
fn more_output_than_a_pipe_holds_arrives_whole_and_in_order() {
    let world = World::new("output");
    let cell = world.cell(&spec("web")).unwrap();
    let (ending, output) = cell.run(1, "seq 1 500000");
    assert_eq!(ending, Ending::Code(0));
    let expected: Vec<String> = (1..=500_000).map(|i| i.to_string()).collect();
    assert!(output == expected.join("\n"), "{} bytes", output.len());
}

#[test]
fn an_idle_init_is_small() {
    let world = World::new("small");
    let cell = world.cell(&spec("web")).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", cell.init.init.pid())).unwrap();
    let rss: u64 = status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .trim()
                .strip_suffix(" kB")?
                .parse()
                .ok()
        })
        .unwrap();
    println!("idle init: {rss} kB");
    assert!(rss < 256, "an idle init takes {rss} kB");
}

#[test]
fn garbage_on_its_socket_does_not_hurt_an_init() {
    use rustix::net::{
        AddressFamily, SendFlags, SocketAddrUnix, SocketType, connect, send, socket,
    };
    let world = World::new("garbage");
    let cell = world.cell(&spec("web")).unwrap();
    let address = SocketAddrUnix::new(cell.dir.join("init.sock")).unwrap();
    // A generator of our own: the same bytes on every run.
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..3000 {
        let mut packet: Vec<u8> = (0..random() % 300).map(|_| random() as u8).collect();
        if packet.len() > 8 && round % 2 == 0 {
            // Past the first checks: the right magic and a known kind.
            packet[..4].copy_from_slice(&0x5354_5241u32.to_ne_bytes());
            packet[4..8].copy_from_slice(&((random() % 8) as u32).to_ne_bytes());
        }
        let link = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        connect(&link, &address).unwrap();
        let _ = send(&link, &packet, SendFlags::NOSIGNAL);
    }
    let (ending, output) = cell.run(1, "echo still here");
    assert_eq!((ending, output.as_str()), (Ending::Code(0), "still here"));
}
