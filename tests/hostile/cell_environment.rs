//! The environment of cells is no viewer's business.

use strata_testkit::v1::{CellInfo, ExecutableInfo, WatchCellsRequest};
use strata_testkit::{Daemon, Node, executable_with};

use super::project_world::STRATA;

const SECRET: &str = "hunter2";

fn has_secret(cells: &[CellInfo]) -> bool {
    let of = |one: &ExecutableInfo| one.options.clone().unwrap_or_default().environment;
    let mut all = cells.iter().flat_map(|cell| &cell.executables);
    all.any(|one| of(one).iter().any(|variable| variable.contains(SECRET)))
}

/// All the ways to look at a cell.
async fn seen(node: &Node) -> Vec<(&'static str, Vec<CellInfo>)> {
    let mut watch = node.client().cells();
    let request = WatchCellsRequest::default();
    let mut watch = watch.watch(request).await.unwrap().into_inner();
    let ended = node.wait("web", "ended").await.unwrap();
    let waited = CellInfo {
        executables: vec![ended],
        ..CellInfo::default()
    };
    vec![
        ("list", node.list().await.unwrap()),
        ("get", vec![node.get("web").await.unwrap()]),
        ("watch", watch.message().await.unwrap().unwrap().cells),
        ("wait", vec![waited]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_sees_names_of_variables_and_no_values() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    for (name, command) in [("main", "sleep 1000"), ("ended", "true")] {
        let executable = executable_with("web", name, command, |options| {
            options.environment = vec![format!("DB_PASSWORD={SECRET}"), "EMPTY=".into()];
        });
        node.start_as(executable).await.unwrap();
    }
    for (role, sees) in [("viewer", false), ("operator", true)] {
        let caller = daemon.node_as(role).await;
        for (way, cells) in seen(&caller).await {
            assert_eq!(has_secret(&cells), sees, "{role} by {way}");
            let one = cells[0].executables[0].options.clone().unwrap_or_default();
            let named = one
                .environment
                .iter()
                .any(|v| v.starts_with("DB_PASSWORD="));
            assert!(named, "{role} by {way}: {one:?}");
        }
    }
}
