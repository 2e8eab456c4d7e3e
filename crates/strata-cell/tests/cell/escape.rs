//! The init of a cell has directories of the host open while it starts
//! processes and makes mounts. No path that an image or a caller controls may
//! lead through one of them: not the working directory, not the program, not
//! its search path, not a link of the image, not the target of a volume.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::world::{Cell, World, handed, proc, tree, wait_exit};
use strata_cell::seccomp::Filter;
use strata_cell::{CellInit, Confinement, InitError, MountOp, Stdio};
use strata_types::{CellSpec, CommandLine, Ending, ExecutableSpec, IdMap, Identity};

/// More than the init ever has open; fewer where a processor is emulated and
/// each start takes milliseconds.
fn descriptors() -> std::ops::Range<u32> {
    let most = std::env::var("DESCRIPTORS").ok();
    0..most.and_then(|most| most.parse().ok()).unwrap_or(1024)
}
/// Those it has open at any time are among the first.
const LOW_DESCRIPTORS: std::ops::Range<u32> = 0..24;
const DEFAULT_CAPABILITIES: u64 = 0x8004_05fb;
const UP: &str = "../../../../../../../../../../../../../..";

/// The names `/proc` has for an open file of the process that starts, and of
/// the init.
fn names_of(descriptor: u32) -> [String; 5] {
    [
        format!("/proc/self/fd/{descriptor}"),
        format!("/proc/1/fd/{descriptor}"),
        format!("/proc/thread-self/fd/{descriptor}"),
        format!("/proc/1/task/1/fd/{descriptor}"),
        format!("/links/{descriptor}"),
    ]
}

/// Other links of `/proc` that stand for an open file.
const OTHERS: [&str; 6] = [
    "/proc/self/cwd",
    "/proc/self/root",
    "/proc/1/cwd",
    "/proc/1/root",
    "/proc/1/task/1/cwd",
    "/proc/self/../1/root",
];

/// The root of an image with busybox and a link to each descriptor.
fn hostile_root(world: &World) -> PathBuf {
    let root = world.dir.path().join("root");
    for directory in ["bin", "dev", "etc", "proc", "sys", "tmp", "links", "srv"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    for applet in ["sh", "pwd", "ls", "sleep"] {
        symlink("busybox", root.join("bin").join(applet)).unwrap();
    }
    for descriptor in descriptors() {
        let link = root.join(format!("links/{descriptor}"));
        symlink(format!("/proc/self/fd/{descriptor}"), link).unwrap();
    }
    root
}

/// A cell as pods have it, in which a process runs.
fn pod<'a>(world: &'a World, spec: &CellSpec, root: &Path) -> Cell<'a> {
    let cell = world.cell(spec).unwrap();
    let device = MountOp::Directory("/dev".into(), tree(Path::new("/dev")));
    let init = &cell.init.init;
    init.setup_root(&tree(root), &[proc(), device]).unwrap();
    let confinement = Confinement {
        capabilities: DEFAULT_CAPABILITIES,
        no_new_privileges: true,
        rlimits: Vec::new(),
        filter: Some(Filter::for_capabilities(DEFAULT_CAPABILITIES)),
    };
    init.confine(&confinement).unwrap();
    let idle = "sleep 1000";
    cell.launch_with(1, idle, Identity::default(), Stdio::Logged, true)
        .unwrap();
    cell
}

/// Starts each executable with the same run; every one must be refused.
fn all_refused(cell: &Cell<'_>, specs: impl Iterator<Item = ExecutableSpec>) -> usize {
    let run = cell.prepare(2, &cell.executable("pwd"));
    let mut tried = 0;
    for spec in specs {
        // Only every other one without the sandbox, which pods always have.
        for sandboxed in [true, tried % 2 == 0] {
            let started = run.start(&spec, Stdio::Logged, sandboxed);
            let refused = matches!(
                started,
                Err(InitError::Directory { .. } | InitError::Exec { .. })
            );
            let (directory, command) = (&spec.working_directory, spec.command.words());
            assert!(refused, "{directory:?} {command:?}: {started:?}");
            tried += 1;
        }
    }
    tried
}

fn words(words: &[&str]) -> CommandLine {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    CommandLine::try_from(words).unwrap()
}

/// Every kind of cell that pods have.
fn kinds() -> [(CellSpec, &'static str); 2] {
    let mut own_users = handed("mapped");
    own_users.id_map = Some(IdMap {
        first: 1_000_000,
        count: 65536,
    });
    [(handed("plain"), "plain"), (own_users, "users of its own")]
}

#[test]
fn working_directory_never_leads_through_a_descriptor() {
    let world = World::new("cwd-escape");
    let root = hostile_root(&world);
    for (spec, _) in kinds() {
        let cell = pod(&world, &spec, &root);
        let every = descriptors().map(|descriptor| format!("/proc/self/fd/{descriptor}"));
        let of_init = descriptors().map(|descriptor| format!("/proc/1/fd/{descriptor}"));
        let low = LOW_DESCRIPTORS.flat_map(names_of);
        let low = low.flat_map(|name| [format!("{name}/{UP}"), name]);
        let others = OTHERS.map(str::to_owned);
        let specs = every.chain(of_init).chain(low).chain(others);
        let specs = specs.map(|directory| ExecutableSpec {
            working_directory: Some(directory),
            ..cell.executable("pwd")
        });
        assert!(all_refused(&cell, specs) > 2 * descriptors().len());
    }
}

#[test]
fn program_never_leads_through_a_descriptor() {
    let world = World::new("exec-escape");
    let root = hostile_root(&world);
    for (spec, _) in kinds() {
        let cell = pod(&world, &spec, &root);
        let busybox = format!("{UP}/bin/busybox");
        let by_path = LOW_DESCRIPTORS.flat_map(names_of).flat_map(|name| {
            [
                words(&[&format!("{name}/{busybox}"), "true"]),
                words(&[&name]),
            ]
        });
        let by_path = by_path.map(|command| ExecutableSpec {
            command,
            ..cell.executable("pwd")
        });
        let others = OTHERS.map(|name| words(&[&format!("{name}/{busybox}"), "true"]));
        let others = others.map(|command| ExecutableSpec {
            command,
            ..cell.executable("pwd")
        });
        // By the search path, which is the image's as well.
        let by_search = LOW_DESCRIPTORS.flat_map(names_of).map(|name| {
            let path = format!("PATH={name}/{UP}/bin:{name}");
            ExecutableSpec {
                environment: vec![path.try_into().unwrap()],
                ..cell.executable("busybox true")
            }
        });
        all_refused(&cell, by_path.chain(others).chain(by_search));
    }
}

#[test]
fn volume_targets_stay_within_the_root() {
    let world = World::new("volume-escape");
    let root = hostile_root(&world);
    symlink("/proc/self", root.join("links/self")).unwrap();
    symlink("/proc/sys", root.join("links/sysctl")).unwrap();
    let volume = world.dir.path().join("volume");
    fs::create_dir(&volume).unwrap();
    fs::write(volume.join("file"), "mine").unwrap();
    let entries = |path: &Path| fs::read_dir(path).unwrap().count();
    let before = entries(world.dir.path());
    let links = LOW_DESCRIPTORS.map(|descriptor| format!("/links/{descriptor}"));
    let links = links.chain(["/links/self", "/links/sysctl"].map(str::to_owned));
    let mut cells = 0;
    for link in links {
        let file = || tree(&volume.join("file"));
        let mut hostile = vec![
            MountOp::Directory(link.clone(), tree(&volume)),
            MountOp::Directory(format!("{link}/made/here"), tree(&volume)),
            MountOp::File(format!("{link}/made"), file()),
        ];
        // From a plain directory of `/proc` this leads to the root itself.
        if !link.ends_with(char::is_alphabetic) {
            let up = format!("{link}/{UP}/made");
            hostile.push(MountOp::Directory(up, tree(&volume)));
        }
        for mount_op in hostile {
            cells += 1;
            let cell = world.cell(&handed(&format!("c{cells}"))).unwrap();
            let target = mount_op.to_string();
            let device = MountOp::Directory("/dev".into(), tree(Path::new("/dev")));
            let mount_ops = [proc(), device, mount_op];
            let done = cell.init.init.setup_root(&tree(&root), &mount_ops);
            assert!(done.is_err(), "{target}");
            assert_eq!(entries(&cell.dir), 1, "{target}: its socket alone");
        }
    }
    assert_eq!(entries(world.dir.path()), before + cells);
    assert!(!Path::new("/made").exists());
}

#[test]
fn links_within_an_image_still_lead_to_its_own_directories() {
    let world = World::new("cwd-links");
    let root = hostile_root(&world);
    symlink("/srv", root.join("work")).unwrap();
    symlink("../../../srv", root.join("tmp/up")).unwrap();
    let cell = pod(&world, &handed("web"), &root);
    let events = CellInit::connect(&cell.dir).unwrap().events;
    for (i, directory) in ["/work", "/tmp/up", "/../srv", "/srv/."].iter().enumerate() {
        let mut spec = cell.executable("pwd");
        spec.working_directory = Some((*directory).to_owned());
        let run = 10 + i as u64;
        let prepared = cell.prepare(run, &spec);
        prepared.start(&spec, Stdio::Logged, true).unwrap();
        wait_exit(&events, run);
        assert_eq!(super::world::ending(&prepared.dir), Ending::Code(0));
        let said = super::world::output(&prepared.dir, strata_cell::log::Channel::Stdout);
        assert_eq!(said, "/srv", "{directory}");
    }
}

#[test]
fn refusal_of_a_working_directory_says_why() {
    let world = World::new("cwd-error");
    let root = hostile_root(&world);
    let cell = pod(&world, &handed("web"), &root);
    let mut spec = cell.executable("pwd");
    spec.working_directory = Some("/proc/1/cwd".to_owned());
    let run = cell.prepare(2, &spec);
    let refused = run.start(&spec, Stdio::Logged, true).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("/proc/1/cwd"), "{text}");
    assert!(text.contains("open file of a process"), "{text}");
}
