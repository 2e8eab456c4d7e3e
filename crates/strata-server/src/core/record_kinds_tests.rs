//! Every kind of record with fields that this release does not know, and with
//! a text that it cannot read: nothing moves, nothing is lost.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use strata_store::{Memory, Store as _, Transaction};
use strata_types::Role;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::keys::RecordKind;
use super::tables::Tables;
use super::*;

fn settings() -> CoreSettings {
    CoreSettings {
        range: Range::DEFAULT,
        lease: Duration::from_secs(60),
        placement: Default::default(),
        overcommit: Default::default(),
        alone: true,
        bounds: Default::default(),
        events_file: None,
        server_port: None,
    }
}

fn admin() -> Principal {
    Principal {
        name: "admin".into(),
        role: Role::Admin,
        projects: None,
    }
}

async fn open(store: &Memory) -> (Core, DropGuard) {
    let shutdown = CancellationToken::new();
    let core = Core::open(Arc::new(store.clone()), settings(), shutdown.clone()).await;
    let core = core.unwrap();
    core.set_lead(Lead::Leading(None));
    (core, shutdown.drop_guard())
}

/// The key of a record of each kind, and its text.
fn sample(kind: RecordKind) -> (&'static str, Value) {
    match kind {
        RecordKind::Instance => (
            "instance/i1",
            json!({
                "id": "i1", "name": "web", "project": "default", "workload": "w1",
                "spec": {"uri": "oci:/x", "resources": {"cpu": 100, "memory": 10, "disk": 0},
                    "placement": {"priority": 3}},
                "wanted": "running", "generation": 1, "state": "RUNNING", "node": "n1",
                "createdAtMs": 1, "changedAtMs": 1,
            }),
        ),
        RecordKind::Workload => (
            "workload/w1",
            json!({
                "id": "w1", "name": "webs", "project": "default",
                "spec": {"uri": "oci:/x", "resources": {"cpu": 100, "memory": 10, "disk": 0}},
                "createdAtMs": 1, "changedAtMs": 1,
            }),
        ),
        RecordKind::Node => (
            "node/n1",
            json!({
                "name": "n1", "subnet": "10.42.1.0/24", "condition": "ready", "follows": true,
                "limits": {"cpu": 1000}, "overlay": {"key": "a2V5", "port": 51820},
                "createdAtMs": 1, "changedAtMs": 1,
            }),
        ),
        RecordKind::Project => (
            "project/blue",
            json!({
                "name": "blue", "quota": {"cpu": 1000}, "createdAtMs": 1,
            }),
        ),
        RecordKind::Secret => (
            "secret/default/password",
            json!({
                "name": "password", "project": "default", "value": "eA==", "version": 1,
                "createdAtMs": 1, "changedAtMs": 1,
            }),
        ),
        RecordKind::Machine => (
            "machine/m1",
            json!({
                "id": "m1", "spec": {"provider": "local"}, "phase": "AVAILABLE",
                "createdAtMs": 1, "changedAtMs": 1,
            }),
        ),
        RecordKind::Cluster => (
            "cluster/c1",
            json!({
                "name": "c1", "id": "c1-1", "port": 7801,
                "spec": {"version": "v1.35.4", "controlPlane": {"count": 1},
                    "pools": [{"name": "workers", "count": 1}]},
                "createdAtMs": 1,
            }),
        ),
        RecordKind::Certificate => (
            "certificate/ab01",
            json!({
                "serial": "ab01", "key": "k", "name": "n1", "role": "node", "lineage": "ab01",
                "issuedAt": "2026-01-01T00:00:00Z", "expiresAt": "2126-01-01T00:00:00Z",
            }),
        ),
        RecordKind::Revocation => (
            "revocation/serial-ab02",
            json!({
                "what": {"by": "serial", "serial": "ab02"}, "revokedBy": "admin",
                "revokedAt": "2026-01-01T00:00:00Z", "expiresAt": "2126-01-01T00:00:00Z",
            }),
        ),
    }
}

/// A field of a later release in the record, and in each object within it that
/// is no map of names that people choose.
fn with_future(kind: RecordKind, mut record: Value) -> Value {
    record["future"] = json!({"of": kind.prefix()});
    let within: &[&str] = match kind {
        RecordKind::Instance => &["/spec", "/spec/resources", "/spec/placement"],
        RecordKind::Workload => &["/spec", "/spec/resources"],
        RecordKind::Node => &["/limits", "/overlay"],
        RecordKind::Project => &["/quota"],
        RecordKind::Machine => &["/spec"],
        RecordKind::Cluster => &["/spec", "/spec/controlPlane", "/spec/pools/0"],
        RecordKind::Secret | RecordKind::Certificate | RecordKind::Revocation => &[],
    };
    for path in within {
        record.pointer_mut(path).unwrap()["replicas"] = json!(3);
    }
    record
}

/// Whether every field of one is in the other, and the same.
fn holds(all: &Value, part: &Value) -> bool {
    match (all, part) {
        (Value::Object(all), Value::Object(part)) => part
            .iter()
            .all(|(key, value)| all.get(key).is_some_and(|found| holds(found, value))),
        (Value::Array(all), Value::Array(part)) => {
            all.len() == part.len() && all.iter().zip(part).all(|(a, b)| holds(a, b))
        }
        (all, part) => all == part,
    }
}

/// The text of a record as a server writes it again.
fn rewritten(tables: &Tables, kind: RecordKind, key: &str) -> bytes::Bytes {
    let name = &key[kind.prefix().len()..];
    let text = match kind {
        RecordKind::Instance => encode(&tables.instances[name].record),
        RecordKind::Workload => encode(&tables.workloads[name].record),
        RecordKind::Node => encode(&tables.nodes[name].record),
        RecordKind::Project => encode(&tables.projects[name].record),
        RecordKind::Secret => encode(&tables.secrets.values().next().unwrap().record),
        RecordKind::Machine => encode(&tables.machines[name].record),
        RecordKind::Cluster => encode(&tables.clusters[name].record),
        RecordKind::Certificate => encode(&tables.certificates[name].record),
        RecordKind::Revocation => encode(&tables.revocations[key].record),
    };
    text.unwrap()
}

async fn put(store: &Memory, key: &str, text: impl Into<bytes::Bytes>) {
    let put = Transaction::new().put(key, text);
    store.commit(put).await.unwrap();
}

async fn text_of(store: &Memory, key: &str) -> Value {
    let entry = store.get(key).await.unwrap().unwrap();
    serde_json::from_slice(&entry.value).unwrap()
}

#[tokio::test]
async fn unknown_fields_of_every_kind_survive_an_update() {
    let store = Memory::new();
    for kind in RecordKind::ALL {
        let (key, record) = sample(kind);
        put(&store, key, with_future(kind, record).to_string()).await;
    }
    put(&store, "instance-name/default/web", "i1").await;
    let (core, _shutdown) = open(&store).await;
    let before = store.list("").await.unwrap();
    for kind in RecordKind::ALL {
        let (key, record) = sample(kind);
        let (text, revision) = {
            let tables = core.tables();
            assert!(tables.unreadable.is_empty(), "{:?}", tables.unreadable);
            let found = before.entries.iter().find(|it| it.key == key).unwrap();
            (rewritten(&tables, kind, key), found.changed)
        };
        let update = Transaction::new()
            .if_unchanged(key, revision)
            .put(key, text);
        core.commit(update).await.unwrap();
        let after = text_of(&store, key).await;
        let expected = with_future(kind, record);
        assert!(
            holds(&after, &expected),
            "{key}: {after} lacks some of {expected}"
        );
    }
    // Nothing moved.
    let web = core.instance(&admin(), None, "web").unwrap();
    assert_eq!(web.node.as_deref(), Some("n1"));
    // An update by a rule, twice: it is the record of the update that counts.
    for _ in 0..2 {
        let id = "i1".parse().unwrap();
        core.stop_instance(&admin(), &id).await.unwrap();
        core.start_instance(&admin(), &id).await.unwrap();
    }
    assert_eq!(text_of(&store, "instance/i1").await["spec"]["replicas"], 3);
}

#[tokio::test]
async fn unreadable_records_of_every_kind_are_held_listed_and_deleted() {
    let store = Memory::new();
    for kind in RecordKind::ALL {
        let (key, mut record) = sample(kind);
        // Of another shape than this release knows, in two fields at once.
        record["createdAtMs"] = json!({"seconds": 1});
        record["changedAtMs"] = json!({"seconds": 1});
        record["issuedAt"] = json!(7);
        record["what"] = json!(7);
        put(&store, key, record.to_string()).await;
    }
    put(&store, "instance-name/default/web", "i1").await;
    let written = store.list("").await.unwrap();
    let (core, _shutdown) = open(&store).await;
    let unreadable = core.unreadable(&admin()).unwrap();
    let keys: Vec<_> = unreadable.iter().map(|one| one.key.as_str()).collect();
    for kind in RecordKind::ALL {
        assert!(keys.contains(&sample(kind).0), "{kind:?} in {keys:?}");
    }
    let web = unreadable
        .iter()
        .find(|one| one.key == "instance/i1")
        .unwrap();
    assert_eq!(
        (web.node.as_deref(), web.name.as_deref()),
        (Some("n1"), Some("web"))
    );
    assert_eq!(web.workload.as_deref(), Some("w1"));
    // Its node is sent that it keeps it, and other nodes are not.
    assert_eq!(core.unreadable_on("n1"), ["i1".parse().unwrap()]);
    assert!(core.unreadable_on("n2").is_empty());
    // Its name is taken.
    let new = NewInstance {
        id: None,
        name: Some("web".parse().unwrap()),
        project: DEFAULT_PROJECT.parse().unwrap(),
        workload: None,
        spec: strata_types::instance::InstanceSpec {
            uri: "oci:/y".into(),
            ..Default::default()
        },
        desired_state: None,
        fresh_id: None,
    };
    let taken = core
        .create_instance(&admin(), new.clone())
        .await
        .unwrap_err();
    assert_eq!(taken.kind(), strata_types::ErrorKind::AlreadyExists);
    // Nothing was written over.
    for entry in &written.entries {
        let now = store.get(&entry.key).await.unwrap().unwrap();
        assert_eq!(now.value, entry.value, "{}", entry.key);
    }
    for kind in RecordKind::ALL {
        let key = sample(kind).0;
        core.delete_unreadable(&admin(), key).await.unwrap();
        assert!(store.get(key).await.unwrap().is_none());
    }
    assert!(core.unreadable(&admin()).unwrap().is_empty());
    core.create_instance(&admin(), new).await.unwrap();
}

#[tokio::test]
async fn record_that_becomes_unreadable_keeps_its_node_and_is_read_again() {
    let store = Memory::new();
    let (key, record) = sample(RecordKind::Instance);
    put(&store, key, record.to_string()).await;
    let (core, _shutdown) = open(&store).await;
    let mut changes = core.watch_all();
    put(&store, key, "damaged").await;
    put(&store, "node/n9", sample(RecordKind::Node).1.to_string()).await;
    // Changes come in order: the one of the node is after the one of the record.
    let Ok(TableChange::Node(_)) = changes.recv().await else {
        panic!("the instance was told of as gone");
    };
    assert_eq!(core.unreadable_on("n1"), ["i1".parse().unwrap()]);
    put(&store, key, record.to_string()).await;
    let Ok(TableChange::Instance(change)) = changes.recv().await else {
        panic!("the instance is not back");
    };
    assert_eq!(change.after.unwrap().node.as_deref(), Some("n1"));
    assert!(core.unreadable_on("n1").is_empty());
}

#[tokio::test]
async fn node_with_one_field_of_a_later_release_is_still_a_node() {
    let store = Memory::new();
    let (key, mut record) = sample(RecordKind::Node);
    record["condition"] = json!("hibernating");
    put(&store, key, record.to_string()).await;
    let (core, _shutdown) = open(&store).await;
    assert_eq!(core.node("n1").unwrap().subnet, "10.42.1.0/24");
}

#[tokio::test]
async fn deletions_of_every_kind_are_seen_after_a_gap_of_the_watch() {
    for kind in RecordKind::ALL {
        let store = Memory::new();
        let (key, record) = sample(kind);
        put(&store, key, record.to_string()).await;
        let (core, _shutdown) = open(&store).await;
        assert!(core.tables().keys().contains(key), "{kind:?}");
        // Deleted while no watch is open, and past the history of the store.
        let gone = Transaction::new().delete(key);
        store.break_watches();
        store.commit(gone).await.unwrap();
        store.forget();
        store.break_watches();
        let mark = Transaction::new().put(
            "project/mark",
            json!({
                "name": "mark", "createdAtMs": 1,
            })
            .to_string(),
        );
        let revision = store.commit(mark).await.unwrap();
        core.wait_until_applied(revision).await.unwrap();
        let tables = core.tables();
        assert!(!tables.keys().contains(key), "{kind:?} is still there");
        let left = [
            tables.instances.len(),
            tables.workloads.len(),
            tables.nodes.len(),
            tables.secrets.len(),
            tables.machines.len(),
            tables.clusters.len(),
            tables.certificates.len(),
            tables.revocations.len(),
        ];
        assert_eq!(left, [0; 8], "{kind:?}");
        // The default one, and the mark.
        assert_eq!(tables.projects.len(), 2, "{kind:?}");
    }
}

#[tokio::test]
async fn emptied_store_is_not_taken_in() {
    let store = Memory::new();
    let (key, record) = sample(RecordKind::Instance);
    put(&store, key, record.to_string()).await;
    let (core, _shutdown) = open(&store).await;
    core.run_id().await.unwrap();
    let all = store.list("").await.unwrap().entries;
    let gone = all
        .iter()
        .fold(Transaction::new(), |all, it| all.delete(&it.key));
    store.break_watches();
    store.commit(gone).await.unwrap();
    store.forget();
    store.break_watches();
    let refused = core.load(Publish::Yes).await.unwrap_err();
    assert_eq!(refused.kind(), strata_types::ErrorKind::Unavailable);
    assert!(core.instance(&admin(), None, "i1").is_ok());
}

#[tokio::test]
async fn store_that_is_emptied_under_a_running_server_is_not_taken_in() {
    let store = Memory::new();
    let (key, record) = sample(RecordKind::Instance);
    put(&store, key, record.to_string()).await;
    let (core, _shutdown) = open(&store).await;
    let known = core.run_id().await.unwrap();
    let all = store.list("").await.unwrap().entries;
    let gone = all
        .iter()
        .fold(Transaction::new(), |all, it| all.delete(&it.key));
    let revision = store.commit(gone).await.unwrap();
    let applied = core.wait_until_applied(revision);
    let applied = tokio::time::timeout(Duration::from_millis(500), applied);
    assert!(!matches!(applied.await, Ok(Ok(()))));
    assert!(core.instance(&admin(), None, "i1").is_ok());
    // Nor is it given another identity by the next node that connects.
    assert_eq!(core.run_id().await.unwrap(), known);
    assert!(store.get(keys::RUN).await.unwrap().is_none());
}
