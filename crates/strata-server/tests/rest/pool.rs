//! Storage and backups for real: a pool on files of a directory, a repository in
//! another, as root.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use strata_backup::{Location, Repository, RepositoryConfig, Secret};
use strata_server::operations::{Backends, BackupTarget, Backups, Storage};
use strata_storage::PoolConfig;
use strata_store::Memory;
use strata_types::backup::Retention;
use strata_types::storage::Profile;

use crate::world::{Answer, World};

const DEVICE: u64 = 256 << 20;

/// A directory with a pool in it, which leaves nothing behind.
struct Folder(tempfile::TempDir);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = strata_storage::remove(self.0.path()) {
            eprintln!("a pool was left behind: {error}");
        }
    }
}

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn volume(&self, name: &str) -> PathBuf {
        let found = self.path().join("pool/mount/volumes").join(name);
        // A volume has its files in a directory of their own.
        match found.join("data") {
            data if data.is_dir() => data,
            _ => found,
        }
    }

    async fn world(&self) -> World {
        let storage = Storage::new(PoolConfig {
            dir: self.path().join("pool"),
            profile: Profile::Single,
            devices: Vec::new(),
            files: 2,
            file_bytes: DEVICE,
            spare_files: 0,
            preallocate: false,
            reserve_bytes: 16 << 20,
        });
        let target = BackupTarget {
            repository: Repository::new(RepositoryConfig {
                location: Location::Directory(self.path().join("repository")),
                password: Secret::new("a long password"),
                compression: 3,
                cache: None,
            }),
            data_dir: self.path().to_owned(),
            key_file: self.path().join("store.key"),
            host: "here".into(),
            keep: Retention::default(),
            bytes_per_second: None,
        };
        World::with(Arc::new(Memory::new()), |core| {
            let none = Backends::none(core);
            Backends {
                storage: storage.clone(),
                backups: Backups {
                    storage,
                    target: Some(target),
                    ..none.backups
                },
                ..none
            }
        })
        .await
    }
}

fn text(answer: &Answer, field: &str) -> String {
    answer.json()[field].as_str().unwrap().to_owned()
}

/// The devices of the pool, each with its state.
fn devices(pool: &Value) -> Vec<(String, String)> {
    let devices = pool["devices"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    devices
        .map(|it| (text(&it["name"]), text(&it["state"])))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storage_pool_expands_shrinks_and_has_volumes() {
    let dir = Folder::new();
    let world = dir.world().await;
    let pool = world.get("/storage").await.json();
    assert_eq!(
        (&pool["state"], &pool["profile"]),
        (&json!("ONLINE"), &json!("single"))
    );
    assert_eq!(pool["devices"].as_array().unwrap().len(), 2);

    // Without a spare it cannot grow, and the error names what to do.
    let ask = json!({ "minBytes": 1 });
    let refused = world.post("/storage/expand", &ask).await.refused(429, None);
    assert!(refused["hint"].as_str().unwrap().contains("device add"));
    let small = world
        .put("/storage/device", &json!({ "bytes": 1000 }))
        .await;
    small.refused(422, Some("bytes"));
    let spare = world
        .put("/storage/device", &json!({ "bytes": DEVICE }))
        .await;
    assert_eq!((spare.status, text(&spare, "state")), (201, "SPARE".into()));
    let name = text(&spare, "name");

    let plan = world.post("/storage/expand?dryRun=true", &ask).await;
    assert_eq!(
        (plan.status, &plan.json()["devices"]),
        (200, &json!([name]))
    );
    assert_eq!(world.get("/operation").await.json(), json!([]));
    let grown = world.done(&world.post("/storage/expand", &ask).await).await;
    assert_eq!(grown["kind"], "storage-expand");
    let larger = world.get("/storage").await.json();
    assert!(devices(&larger).contains(&(name.clone(), "ONLINE".into())));
    assert!(larger["bytes"].as_u64() > pool["bytes"].as_u64());
    let used = world.delete(&format!("/storage/device/{name}")).await;
    used.refused(409, None);

    volumes(&world).await;

    world
        .done(&world.post("/storage/scrub", &json!({})).await)
        .await;
    assert_eq!(
        world.get("/storage").await.json()["scrub"]["uncorrectable"],
        0
    );
    let all = json!({ "maxBytes": larger["bytes"] });
    let plan = world.post("/storage/shrink?dryRun=true", &all).await;
    assert_eq!(plan.status, 200, "{plan:?}");
    let one = json!({ "maxBytes": DEVICE });
    world.done(&world.post("/storage/shrink", &one).await).await;
    let smaller = world.get("/storage").await.json();
    let spares = devices(&smaller).into_iter().filter(|it| it.1 == "SPARE");
    let spares: Vec<_> = spares.map(|it| it.0).collect();
    assert_eq!(spares.len(), 1, "{smaller}");
    let gone = world
        .delete(&format!("/storage/device/{}", spares[0]))
        .await;
    assert_eq!(gone.status, 202);
    world.delete("/storage/device/d99").await.refused(404, None);
    let replace = json!({});
    let nothing = world.post("/storage/device/d99/replace", &replace).await;
    nothing.refused(404, None);
}

async fn volumes(world: &World) {
    let new = json!({ "name": "raced" });
    let made = futures_util::future::join_all((0..8).map(|_| world.put("/storage/volume", &new)));
    let mut made: Vec<u16> = made.await.iter().map(|one| one.status).collect();
    made.sort_unstable();
    assert_eq!(made, [200, 200, 200, 200, 200, 200, 200, 201]);
    assert_eq!(world.delete("/storage/volume/raced").await.status, 202);

    let new = json!({ "name": "data", "quotaBytes": 64 << 20 });
    let made = world.put("/storage/volume", &new).await;
    assert_eq!((made.status, text(&made, "kind")), (201, "files".into()));
    assert_eq!(world.put("/storage/volume/", &new).await.status, 200);
    let other = json!({ "name": "data", "quotaBytes": 32 << 20 });
    world
        .put("/storage/volume", &other)
        .await
        .refused(409, None);
    let quota = json!({ "quotaBytes": 48 << 20 });
    let changed = world.patch("/storage/volume/data", &quota).await.json();
    assert_eq!(changed["quotaBytes"], 48 << 20);
    let none = json!({ "quotaBytes": 0 });
    let free = world.patch("/storage/volume/data", &none).await.json();
    assert_eq!(free.get("quotaBytes"), None);

    let name = json!({ "name": "monday" });
    let stored = world.put("/storage/volume/data/snapshot", &name).await;
    assert_eq!(stored.json()["snapshots"][0]["name"], "monday");
    let clone = json!({ "name": "copy", "from": "data@monday" });
    let clone = world.put("/storage/volume", &clone).await;
    assert_eq!(
        (clone.status, text(&clone, "origin")),
        (201, "data@monday".into())
    );
    let lost = json!({ "name": "lost", "from": "nothing" });
    world.put("/storage/volume", &lost).await.refused(404, None);
    let list = world.get("/storage/volume?limit=1&offset=1").await;
    assert_eq!(list.header("x-total-count"), Some("2"));
    assert_eq!(list.json()[0]["name"], "data");
    for path in [
        "/storage/volume/data/snapshot/monday",
        "/storage/volume/copy",
        "/storage/volume/data",
    ] {
        assert_eq!(world.delete(path).await.status, 202, "{path}");
        world.delete(path).await.refused(404, None);
    }
    world.get("/storage/volume/data").await.refused(404, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_is_restored() {
    let dir = Folder::new();
    let world = dir.world().await;
    // No repository yet is no backups yet.
    assert_eq!(world.get("/backup").await.json(), json!([]));
    world.get("/backup/latest").await.refused(404, None);
    let made = world
        .put("/storage/volume", &json!({ "name": "data" }))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let data = dir.volume("data");
    std::fs::create_dir(data.join("deep")).unwrap();
    std::fs::write(data.join("deep/letter"), "dear all").unwrap();
    std::fs::write(data.join("numbers"), vec![7; 300_000]).unwrap();

    let ended = world.done(&world.post("/backup", &json!({})).await).await;
    let steps = ended["steps"].as_array().unwrap().iter();
    let steps: Vec<_> = steps.map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(steps, ["freeze", "save", "thaw", "verify"]);
    let listed = world.get("/backup?limit=10").await;
    assert_eq!(listed.header("x-total-count"), Some("1"));
    let backup = listed.json()[0].clone();
    assert_eq!(
        (&backup["volumes"], &backup["hasState"], &backup["host"]),
        (&json!(["data"]), &json!(true), &json!("here"))
    );
    assert_eq!(backup["operation"], ended["id"]);
    let id = backup["id"].as_str().unwrap().to_owned();
    for known in ["latest", &id, &id[..12]] {
        let shown = world.get(&format!("/backup/{known}")).await.json();
        assert_eq!(shown["id"], id.as_str(), "{known}");
    }
    world.get("/backup/ffffffff").await.refused(404, None);

    let whole = json!({ "percent": 100 });
    world
        .done(&world.post("/backup/latest/verify", &whole).await)
        .await;
    let again = json!({ "volume": "data" });
    // What cannot be is refused before anything begins.
    let before = world.get("/operation").await.json();
    let there = world.post("/backup/latest/restore", &again).await;
    there.refused(409, None);
    let unknown = json!({ "volume": "none", "as": "x" });
    let unknown = world.post("/backup/latest/restore", &unknown).await;
    unknown.refused(404, Some("volume"));
    assert_eq!(world.get("/operation").await.json(), before);
    let other = json!({ "volume": "data", "as": "data-2" });
    world
        .done(&world.post("/backup/latest/restore", &other).await)
        .await;
    let copy = dir.volume("data-2");
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(copy.join("deep/letter")), "dear all");
    assert_eq!(std::fs::read(copy.join("numbers")).unwrap(), [7; 300_000]);

    std::fs::remove_file(data.join("deep/letter")).unwrap();
    let file = json!({ "volume": "data", "path": "deep/letter" });
    world
        .done(&world.post("/backup/latest/restore", &file).await)
        .await;
    assert_eq!(read(data.join("deep/letter")), "dear all");

    world
        .done(&world.post("/backup", &json!({ "skipVerify": true })).await)
        .await;
    // Without a rule everything is kept, and that is no pruning.
    let nothing = world.post("/backup/prune?dryRun=true", &json!({})).await;
    nothing.refused(422, Some("keep"));
    let keep = json!({ "keep": {"last": 1} });
    let plan = world.post("/backup/prune?dryRun=true", &keep).await.json();
    assert_eq!(plan["forget"], json!([id]));
    assert_eq!(plan["keep"][0]["because"], json!(["last"]));
    assert_eq!(
        world.get("/backup").await.json().as_array().unwrap().len(),
        2
    );
    world.done(&world.post("/backup/prune", &keep).await).await;
    let left = world.get("/backup").await.json();
    assert_eq!(left.as_array().unwrap().len(), 1);
    assert_ne!(left[0]["id"], id.as_str());
}
