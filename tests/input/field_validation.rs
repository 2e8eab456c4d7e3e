//! One wrong field at a time.

use std::time::Duration;

use strata_testkit::runtime::{Cell, Executable, FreeCellRequest, StopCellRequest};
use strata_testkit::v1::{
    CellInfo, CellOptions, CpuLimit, ExecutableOptions, GetCellRequest, IoLimit, ListCellsRequest,
    MemoryLimit, ReadLogsRequest, RootMode, WaitExecutableRequest, WatchCellsRequest,
};
use strata_testkit::{Code, Daemon, Node, Status, cell_with, executable_with, field_of};

use crate::input::STRATA;

/// A daemon with something in it that bad input must not touch.
async fn world() -> (Daemon, Node, Vec<CellInfo>) {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.expect("a cell can be made");
    let started = node.start("web", "main", "sleep 1000").await;
    started.expect("it can be started");
    let before = state(&node).await;
    (daemon, node, before)
}

async fn state(node: &Node) -> Vec<CellInfo> {
    let mut cells = node.list().await.expect("the node lists its cells");
    cells.iter_mut().for_each(|cell| cell.usage = None);
    cells
}

/// Asserts that a refusal names this field and is short enough to read.
#[track_caller]
fn names<T: std::fmt::Debug>(answer: Result<T, Status>, field: &str, case: &str) {
    let status = answer.expect_err(case);
    assert_eq!(status.code(), Code::InvalidArgument, "{case}: {status:?}");
    assert_eq!(
        field_of(&status).as_deref(),
        Some(field),
        "{case}: {status:?}"
    );
    assert!(status.message().starts_with(field), "{case}: {status:?}");
    assert!(status.message().len() < 400, "{case}: it repeats the input");
}

/// Names that no cell and no executable can have.
fn bad_names() -> Vec<String> {
    let mut all: Vec<String> = [
        "",
        " ",
        ".",
        "..",
        "../..",
        "/etc",
        "a b",
        "A",
        "Ü",
        "日本",
        "\u{202e}x",
        "a\0b",
        "\0",
        "-",
        "-a",
        "a-",
        "a_b",
        "a.b",
        "%2e%2e",
        "a\nb",
        "'; rm",
        "$(x)",
        "_r1",
        "_init",
    ]
    .map(str::to_owned)
    .to_vec();
    all.push("x".repeat(64));
    all.push("x".repeat(100_000));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_names_are_refused_by_every_call() {
    let (_daemon, node, before) = world().await;
    for name in bad_names() {
        let case = format!("{name:.40?}");
        names(node.allocate(&name).await, "cell.name", &case);
        let nested = format!("web/{name}");
        names(node.allocate(&nested).await, "cell.name", &case);
        names(node.free(&name).await, "cell_name", &case);
        names(
            node.start(&name, "main", "true").await,
            "executable.cell_name",
            &case,
        );
        names(
            node.start("web", &name, "true").await,
            "executable.name",
            &case,
        );
        names(node.stop(&name, "main").await, "cell_name", &case);
        names(node.stop("web", &name).await, "executable_name", &case);
        names(node.get(&name).await, "cell_name", &case);
        names(node.wait(&name, "main").await, "cell_name", &case);
        names(node.wait("web", &name).await, "executable_name", &case);
        let request = ReadLogsRequest {
            cell_name: name.clone(),
            executable_name: "main".into(),
            ..Default::default()
        };
        names(node.read(request).await, "cell_name", &case);
        if !name.is_empty() {
            let request = ListCellsRequest {
                under: name.clone(),
            };
            let answer = node.client().cells().list(request).await;
            names(answer, "under", &case);
            let request = WatchCellsRequest {
                under: name,
                interval_ms: None,
            };
            let answer = node.client().cells().watch(request).await;
            names(answer.map(drop), "under", &case);
        }
    }
    assert_eq!(state(&node).await, before);
}

/// Cells that are wrong in one field, and which.
fn bad_cells() -> Vec<(&'static str, Cell)> {
    let case = |field, change: fn(&mut CellOptions)| (field, cell_with("new", change));
    let mut all = vec![
        case("cell.options.pids_max", |o| o.pids_max = Some(0)),
        case("cell.options.pids_max", |o| o.pids_max = Some(u64::MAX)),
        case("cell.options.network", |o| o.network = 2),
        case("cell.options.network", |o| o.network = -1),
        case("cell.options.root", |o| o.root = 4),
        case("cell.options.root", |o| o.root = i32::MIN),
        case("cell.options.root_folder", |o| o.root_folder = "/".into()),
        case("cell.options.root_folder", |o| o.set_root(RootMode::Folder)),
    ];
    for dir in ["relative", "", "/a\0b", "../x"] {
        all.push((
            "cell.options.root_folder",
            cell_with("new", |o| {
                o.set_root(RootMode::Folder);
                o.root_folder = dir.into();
            }),
        ));
    }
    let cpu = |quota_us, period_us, cpuset: &str| {
        cell_with("new", |o| {
            o.cpu = Some(CpuLimit {
                quota_us,
                period_us,
                cpuset: cpuset.into(),
            });
        })
    };
    all.extend([
        ("cell.options.cpu.quota_us", cpu(Some(0), None, "")),
        ("cell.options.cpu.quota_us", cpu(Some(999), None, "")),
        ("cell.options.cpu.quota_us", cpu(Some(u64::MAX), None, "")),
        ("cell.options.cpu.period_us", cpu(None, Some(100_000), "")),
        ("cell.options.cpu.period_us", cpu(Some(5000), Some(0), "")),
        (
            "cell.options.cpu.period_us",
            cpu(Some(5000), Some(1_000_001), ""),
        ),
    ]);
    for set in ["x", "-1", "1-0", "0,,1", "0-", "0-999999", " 0", "0\0", "ü"] {
        all.push(("cell.options.cpu.cpuset", cpu(None, None, set)));
    }
    all.extend(bad_memory());
    all.extend(bad_devices());
    all
}

fn bad_memory() -> Vec<(&'static str, Cell)> {
    let memory =
        |low, high, max| cell_with("new", |o| o.memory = Some(MemoryLimit { low, high, max }));
    let mb = 1u64 << 20;
    vec![
        ("cell.options.memory.max", memory(None, None, Some(0))),
        ("cell.options.memory.max", memory(None, None, Some(1))),
        (
            "cell.options.memory.max",
            memory(None, None, Some(u64::MAX)),
        ),
        (
            "cell.options.memory.low",
            memory(Some(2 * mb), None, Some(mb)),
        ),
        (
            "cell.options.memory.low",
            memory(Some(2 * mb), Some(mb), None),
        ),
        (
            "cell.options.memory.high",
            memory(None, Some(2 * mb), Some(mb)),
        ),
    ]
}

fn bad_devices() -> Vec<(&'static str, Cell)> {
    let device = |device: &str, read_bps| IoLimit {
        device: device.into(),
        read_bps,
        ..Default::default()
    };
    let io = |limits: Vec<IoLimit>| cell_with("new", |o| o.io = limits);
    let mut all = vec![
        ("cell.options.io", io(vec![device("8:0", Some(0))])),
        ("cell.options.io", io(vec![device("8:0", Some(1)); 65])),
    ];
    for name in [
        "",
        "8",
        "8:",
        ":0",
        "-1:0",
        "sda",
        "/etc/passwd",
        "/dev/../etc",
        "a:b",
        "8:0\0",
    ] {
        let limits = vec![device(name, Some(1))];
        all.push(("cell.options.io.device", io(limits)));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_cells_are_refused_field_by_field() {
    let (daemon, node, before) = world().await;
    let traces = daemon.host().settled().await;
    for (field, cell) in bad_cells() {
        let case = format!("{cell:.200?}");
        names(node.allocate_as(cell).await, field, &case);
    }
    for shares in [1, 262_145, u64::MAX] {
        let mut cell = strata_testkit::cell("new");
        cell.cpu_shares = shares;
        names(node.allocate_as(cell).await, "cell.cpu_shares", "shares");
    }
    assert_eq!(state(&node).await, before);
    daemon.host().returns_to(&traces).await;
    assert!(!daemon.data_dir().join("node/cells/new").exists());
}

/// Executables that are wrong in one field, and which.
fn bad_executables() -> Vec<(&'static str, Executable)> {
    let case = |field, change: fn(&mut ExecutableOptions)| {
        (field, executable_with("web", "new", "true", change))
    };
    let mut all = vec![
        case("executable.options.uid", |o| o.uid = Some(u32::MAX)),
        case("executable.options.gid", |o| o.gid = Some(u32::MAX)),
        case("executable.options.groups", |o| o.groups = vec![u32::MAX]),
        case("executable.options.groups", |o| o.groups = vec![1; 65]),
        case("executable.options.stop_grace_ms", |o| {
            o.stop_grace_ms = Some(u32::MAX);
        }),
        case("executable.options.environment", |o| {
            o.environment = vec!["A=b".into(); 101];
        }),
        case("executable.options.environment", |o| {
            o.environment = vec![format!("A={}", "x".repeat(40_000))];
        }),
    ];
    for variable in ["", "A", "=b", "A\0=b", "A=\0"] {
        let executable = executable_with("web", "new", "true", |o| {
            o.environment = vec![variable.into()];
        });
        all.push(("executable.options.environment", executable));
    }
    let long = format!("/{}", "x".repeat(5000));
    for dir in ["relative", "..", "/a\0b", &long] {
        let executable = executable_with("web", "new", "true", |o| {
            o.working_directory = dir.into();
        });
        all.push(("executable.options.working_directory", executable));
    }
    let huge = "x".repeat(65_537);
    let many_words = "x ".repeat(5000);
    for command in [
        "",
        "   ",
        "'",
        "\"a",
        "''",
        "a\0b",
        "# x",
        &huge,
        &many_words,
    ] {
        all.push((
            "executable.command",
            strata_testkit::executable("web", "new", command),
        ));
    }
    let mut told = strata_testkit::executable("web", "new", "true");
    told.description = "x".repeat(4097);
    all.push(("executable.description", told));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_executables_are_refused_field_by_field() {
    let (daemon, node, before) = world().await;
    let traces = daemon.host().settled().await;
    for (field, executable) in bad_executables() {
        let case = format!("{executable:.200?}");
        names(node.start_as(executable).await, field, &case);
    }
    assert_eq!(state(&node).await, before);
    daemon.host().returns_to(&traces).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grace_beyond_reason_is_refused() {
    let (_daemon, node, before) = world().await;
    let hour_and_more = Some(3_600_001);
    let request = StopCellRequest {
        cell_name: "web".into(),
        executable_name: "main".into(),
        grace_ms: hour_and_more,
    };
    let answer = node.client().cell_service().stop(request).await;
    names(answer, "grace_ms", "stop");
    let request = FreeCellRequest {
        cell_name: "web".into(),
        grace_ms: hour_and_more,
    };
    let answer = node.client().cell_service().free(request).await;
    names(answer, "grace_ms", "free");
    assert_eq!(state(&node).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_that_is_allowed_works() {
    let (_daemon, node, _) = world().await;
    let label = "x".repeat(63);
    node.allocate(&label).await.unwrap();
    let words = "y ".repeat(3000);
    let pid = node.start(&label, &label, &format!("echo {words}")).await;
    let lines = node.stdout(pid.unwrap()).await.unwrap();
    assert_eq!(lines[0].len(), 2 * 3000 - 1);
    let long = "z".repeat(60_000);
    let wanted = executable_with(&label, "long", &format!("echo {long}"), |options| {
        options.environment = (0..100)
            .map(|i| format!("V{i}={}", "v".repeat(600)))
            .collect();
        options.groups = (1..=64).collect();
    });
    let pid = node.start_as(wanted).await.unwrap();
    assert_eq!(node.stdout(pid).await.unwrap()[0].len(), 60_000);
    node.stop_within("web", "main", Duration::from_millis(3_600_000))
        .await
        .unwrap();
    let request = GetCellRequest {
        cell_name: label.clone(),
    };
    let shown = node.client().cells().get(request).await.unwrap();
    assert_eq!(shown.into_inner().name, label);
    let request = WaitExecutableRequest {
        cell_name: label.clone(),
        executable_name: label,
    };
    node.client().cells().wait(request).await.unwrap();
}
