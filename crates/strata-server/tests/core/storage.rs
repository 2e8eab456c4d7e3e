//! The pool and its backups through the trials that every kind of operation
//! has to pass, on a real pool of files and a real repository.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_backup::{Location, Repository, RepositoryConfig, Secret};
use strata_server::operations::{
    BackupInput, BackupTarget, Backups, CreateBackup, ExpandInput, ExpandStorage, RestoreBackup,
    RestoreInput, ShrinkInput, ShrinkStorage, Storage,
};
use strata_storage::PoolConfig;
use strata_types::backup::RestoreRequest;
use strata_types::storage::{DeviceState, PoolState, Profile, VolumeKind};
use strata_workflow::testing::{self, KindHarness};

use crate::world::label;

const FILE: u64 = 300_000_000;
const TEXT: &[u8] = b"what must not be lost\n";

/// A pool in a directory of its own, gone when the test is.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn pool(&self) -> PathBuf {
        self.0.path().join("pool")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = strata_storage::remove(&self.pool());
    }
}

fn storage(dir: &Folder, files: u32, spare_files: u32) -> Storage {
    Storage::new(PoolConfig {
        dir: dir.pool(),
        profile: Profile::Single,
        devices: Vec::new(),
        files,
        file_bytes: FILE,
        spare_files,
        preallocate: false,
        reserve_bytes: 1_000_000,
    })
}

/// A pool with one volume that has something in it.
async fn filled(dir: &Folder, files: u32, spare_files: u32) -> Storage {
    let storage = storage(dir, files, spare_files);
    let pool = storage.pool().await.unwrap();
    let name = label("data");
    let made = pool.create_volume(&name, VolumeKind::Files, None, None);
    made.await.unwrap();
    std::fs::write(data(pool.mount(), "data"), TEXT).unwrap();
    storage
}

fn data(mount: &Path, volume: &str) -> PathBuf {
    mount.join("volumes").join(volume).join("data/file")
}

/// How many devices are in use; whatever happened, nothing is lost.
async fn in_use(storage: &Storage) -> usize {
    let pool = storage.pool().await.unwrap();
    assert_eq!(std::fs::read(data(pool.mount(), "data")).unwrap(), TEXT);
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
    let devices = status.devices.iter();
    devices.filter(|it| it.state == DeviceState::Online).count()
}

/// One pool serves all worlds of a trial: it is as before each time.
struct Devices {
    dir: Folder,
    files: u32,
    storage: Mutex<Option<Arc<Storage>>>,
}

impl Devices {
    fn new(files: u32) -> Self {
        Self {
            dir: Folder::new(),
            files,
            storage: Mutex::default(),
        }
    }

    async fn world(&self) -> Arc<Storage> {
        let known = self.storage.lock().unwrap().clone();
        if let Some(known) = known {
            // What the trial before has done is undone.
            let pool = known.pool().await.unwrap();
            let (tell, never) = (|_, _| {}, Default::default());
            match (self.files, in_use(&known).await) {
                (1, 2) => pool.remove_device("d2", &tell, never).await.unwrap(),
                (2, 1) => {
                    let status = pool.status().await.unwrap();
                    let spare = status
                        .devices
                        .iter()
                        .find(|it| it.state == DeviceState::Spare);
                    pool.add_device(&spare.unwrap().name)
                        .await
                        .map(drop)
                        .unwrap();
                }
                _ => {}
            }
            return known;
        }
        let made = Arc::new(filled(&self.dir, self.files, 2 - self.files).await);
        *self.storage.lock().unwrap() = Some(made.clone());
        made
    }
}

struct Expanding(Devices);

impl KindHarness for Expanding {
    type Kind = ExpandStorage;

    fn kind(&self) -> ExpandStorage {
        ExpandStorage
    }

    fn world(&self) -> BoxFuture<'_, Arc<Storage>> {
        self.0.world().boxed()
    }

    fn input(&self, _: &Storage) -> ExpandInput {
        ExpandInput { min_bytes: 1 }
    }

    fn done<'a>(&'a self, storage: &'a Storage) -> BoxFuture<'a, ()> {
        async { assert_eq!(in_use(storage).await, 2) }.boxed()
    }

    fn clean<'a>(&'a self, storage: &'a Storage) -> BoxFuture<'a, ()> {
        async { assert_eq!(in_use(storage).await, 1) }.boxed()
    }
}

struct Shrinking(Devices);

impl KindHarness for Shrinking {
    type Kind = ShrinkStorage;

    fn kind(&self) -> ShrinkStorage {
        ShrinkStorage
    }

    fn world(&self) -> BoxFuture<'_, Arc<Storage>> {
        self.0.world().boxed()
    }

    fn input(&self, _: &Storage) -> ShrinkInput {
        ShrinkInput { max_bytes: FILE }
    }

    fn done<'a>(&'a self, storage: &'a Storage) -> BoxFuture<'a, ()> {
        async { assert_eq!(in_use(storage).await, 1) }.boxed()
    }

    fn clean<'a>(&'a self, storage: &'a Storage) -> BoxFuture<'a, ()> {
        async { assert_eq!(in_use(storage).await, 2) }.boxed()
    }
}

/// A part of a device is released.
struct Cutting(Devices);

async fn pool_bytes(storage: &Storage) -> u64 {
    let pool = storage.pool().await.unwrap();
    pool.status().await.unwrap().bytes
}

impl KindHarness for Cutting {
    type Kind = ShrinkStorage;

    fn kind(&self) -> ShrinkStorage {
        ShrinkStorage
    }

    fn world(&self) -> BoxFuture<'_, Arc<Storage>> {
        async {
            let storage = self.0.world().await;
            let pool = storage.pool().await.unwrap();
            for device in pool.status().await.unwrap().devices {
                let whole = FILE / 4096 * 4096;
                let (tell, never) = (|_, _| {}, Default::default());
                let grown = pool.resize_device(&device.name, whole, &tell, never);
                grown.await.unwrap();
            }
            storage
        }
        .boxed()
    }

    fn input(&self, _: &Storage) -> ShrinkInput {
        ShrinkInput {
            max_bytes: 20_000_000,
        }
    }

    fn done<'a>(&'a self, storage: &'a Storage) -> BoxFuture<'a, ()> {
        async { assert!(pool_bytes(storage).await < 2 * FILE - 19_000_000) }.boxed()
    }

    fn clean<'a>(&'a self, storage: &'a Storage) -> BoxFuture<'a, ()> {
        async { assert!(pool_bytes(storage).await > 2 * FILE - 1_000_000) }.boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cutting_a_device_passes_every_trial() {
    all(&Cutting(Devices::new(2))).await;
}

async fn all<T: KindHarness>(trial: &T) {
    testing::every_step_twice(trial).await;
    testing::fail_at_every_step(trial).await;
    testing::fail_and_undo_twice(trial).await;
    testing::crash_at_every_step(trial).await;
    testing::cancel_at_every_step(trial).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn making_the_pool_larger_passes_every_trial() {
    all(&Expanding(Devices::new(1))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn making_the_pool_smaller_passes_every_trial() {
    all(&Shrinking(Devices::new(2))).await;
}

/// A pool and a repository, the same for all worlds of a trial.
struct Vault {
    dir: Folder,
    backups: Mutex<Option<Arc<Backups>>>,
}

impl Vault {
    fn new() -> Self {
        Self {
            dir: Folder::new(),
            backups: Mutex::default(),
        }
    }

    async fn world(&self) -> Arc<Backups> {
        let known = self.backups.lock().unwrap().clone();
        if let Some(known) = known {
            return known;
        }
        let dir = self.dir.0.path();
        let target = BackupTarget {
            repository: Repository::new(RepositoryConfig {
                location: Location::Directory(dir.join("repository")),
                password: Secret::new("test"),
                compression: 1,
                cache: None,
            }),
            data_dir: dir.to_owned(),
            key_file: dir.join("store.key"),
            host: "test".into(),
            keep: Default::default(),
            bytes_per_second: None,
        };
        let made = Arc::new(Backups {
            storage: filled(&self.dir, 1, 0).await,
            store: Arc::new(strata_store::Memory::new()),
            engine: Arc::new(strata_store::Memory::new()),
            target: Some(target),
            resting: Arc::new(|_| Ok(())),
        });
        *self.backups.lock().unwrap() = Some(made.clone());
        made
    }
}

/// What backups create temporarily is gone.
async fn assert_tidy(own: &Backups) {
    let pool = own.storage.pool().await.unwrap();
    for dir in ["frozen", "staging"] {
        let left = std::fs::read_dir(pool.mount().join(dir)).unwrap();
        let left: Vec<_> = left.map(|it| it.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{dir}: {left:?}");
    }
    let state = own.target().unwrap().data_dir.join("backup/state");
    let left = std::fs::read_dir(state).map_or(0, Iterator::count);
    assert_eq!(left, 0, "copies of the state");
}

struct Saving(Vault);

impl KindHarness for Saving {
    type Kind = CreateBackup;

    fn kind(&self) -> CreateBackup {
        CreateBackup
    }

    fn world(&self) -> BoxFuture<'_, Arc<Backups>> {
        self.0.world().boxed()
    }

    fn input(&self, _: &Backups) -> BackupInput {
        BackupInput::default()
    }

    fn done<'a>(&'a self, own: &'a Backups) -> BoxFuture<'a, ()> {
        async {
            assert_tidy(own).await;
            let latest = own
                .target()
                .unwrap()
                .repository
                .get("latest")
                .await
                .unwrap();
            assert_eq!(latest.volumes, ["data"]);
            assert!(latest.has_state);
        }
        .boxed()
    }

    fn clean<'a>(&'a self, own: &'a Backups) -> BoxFuture<'a, ()> {
        assert_tidy(own).boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn making_a_backup_passes_every_trial() {
    let trial = Saving(Vault::new());
    testing::every_step_twice(&trial).await;
    testing::fail_at_every_step(&trial).await;
    testing::fail_and_undo_twice(&trial).await;
    testing::cancel_at_every_step(&trial).await;
    testing::crash_at_every_step(&trial).await;
    let own = trial.0.world().await;
    let list = own.target().unwrap().repository.list().await.unwrap();
    let mut operations: Vec<_> = list.iter().map(|it| it.operation.clone()).collect();
    operations.sort();
    operations.dedup();
    assert_eq!(
        operations.len(),
        list.len(),
        "one backup for each operation"
    );
}

struct Restoring(Vault);

impl KindHarness for Restoring {
    type Kind = RestoreBackup;

    fn kind(&self) -> RestoreBackup {
        RestoreBackup
    }

    fn world(&self) -> BoxFuture<'_, Arc<Backups>> {
        async {
            let own = self.0.world().await;
            let repository = &own.target().unwrap().repository;
            let pool = own.storage.pool().await.unwrap();
            if repository.get("latest").await.is_err() {
                let frozen = pool.freeze("once").await.unwrap();
                let ask = strata_backup::BackupRequest {
                    sources: vec![strata_backup::Source {
                        path: frozen.join("data"),
                        at: "/volumes/data".into(),
                    }],
                    host: "test".into(),
                    volumes: vec!["data".into()],
                    ..Default::default()
                };
                let tell = Arc::new(strata_backup::Silent);
                repository
                    .backup(ask, tell, Default::default())
                    .await
                    .unwrap();
                pool.thaw("once").await.unwrap();
            }
            pool.remove_volume(&label("copy")).await.ok();
            own
        }
        .boxed()
    }

    fn input(&self, _: &Backups) -> RestoreInput {
        RestoreInput {
            backup: "latest".into(),
            what: RestoreRequest {
                volume: "data".into(),
                as_name: "copy".into(),
                ..RestoreRequest::default()
            },
        }
    }

    fn done<'a>(&'a self, own: &'a Backups) -> BoxFuture<'a, ()> {
        async {
            assert_tidy(own).await;
            let pool = own.storage.pool().await.unwrap();
            assert_eq!(std::fs::read(data(pool.mount(), "copy")).unwrap(), TEXT);
        }
        .boxed()
    }

    /// Nothing is half-way; a volume that was put in place stays.
    fn clean<'a>(&'a self, own: &'a Backups) -> BoxFuture<'a, ()> {
        assert_tidy(own).boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bringing_a_volume_back_passes_every_trial() {
    let trial = Restoring(Vault::new());
    testing::every_step_twice(&trial).await;
    testing::fail_at_every_step(&trial).await;
    testing::cancel_at_every_step(&trial).await;
    testing::crash_at_every_step(&trial).await;
}
