//! The repository, opened for one operation. It is opened again for each: an
//! engine that is kept has no index of what was written since, and stores it a
//! second time.

use std::collections::HashMap;
use std::sync::Arc;

use rustic_core::repofile::{SnapshotFile, SnapshotId};
use rustic_core::{
    ConfigOptions, Credentials, KeyOptions, OpenStatus, Repository, RepositoryBackends,
    RepositoryOptions, RusticResult,
};

use crate::cipher::name_of;
use crate::config::RepositoryConfig;
use crate::engine_backend::EngineBackend;
use crate::error::{BackupError, Result};
use crate::gate::Gate;
use crate::key_cache::{KeyCache, KeyFiles};
use crate::lock::Lock;
use crate::progress::{Bars, Reporter};
use crate::snapshot::Snapshots;
use crate::store::{FileKind, Store};

/// Packs have this size at first and grow with the root of what is stored,
/// up to the limit. A handful of them are in memory while a backup is made.
const PACK: u64 = 16 << 20;
const MAX_PACK: u64 = 32 << 20;

/// What one operation works with.
pub(crate) struct Session {
    config: Arc<RepositoryConfig>,
    key_cache: Arc<KeyCache>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) reporter: Arc<Reporter>,
}

impl Session {
    pub(crate) fn new(
        config: Arc<RepositoryConfig>,
        key_cache: Arc<KeyCache>,
        store: Arc<dyn Store>,
        gate: Gate,
        reporter: Arc<Reporter>,
    ) -> Self {
        Self {
            config,
            key_cache,
            store,
            gate: Arc::new(gate),
            reporter,
        }
    }

    /// Where it is remembered which packs were found to be good.
    pub(crate) fn checked_file(&self) -> Option<std::path::PathBuf> {
        let cache = self.config.cache.as_ref()?;
        let place = name_of(self.store.location().as_bytes());
        Some(cache.join(format!("checked-{}.json", place.get(..16)?)))
    }

    fn engine(&self) -> Result<Repository<()>> {
        let service = Arc::new(EngineBackend::new(self.store.clone(), self.gate.clone()));
        let backends = RepositoryBackends::new(service, None);
        let mut options = RepositoryOptions::default();
        options.no_cache = self.config.cache.is_none() || !self.store.is_far();
        options.cache_dir.clone_from(&self.config.cache);
        let bars = Bars(self.reporter.clone());
        self.told(
            "preparing the repository",
            Repository::new_with_progress(&options, &backends, bars),
        )
    }

    fn credentials(&self) -> Credentials {
        Credentials::password(self.config.password.expose())
    }

    /// Opens the repository that is there.
    pub(crate) fn open(&self) -> Result<Repository<OpenStatus>> {
        if self.store.list(FileKind::Config)?.is_empty() {
            return Err(BackupError::NoRepository {
                location: self.store.location(),
            });
        }
        let files = self.key_files()?;
        if let Some(opened) = self.open_with_cached_key(&files)? {
            return Ok(opened);
        }
        match self.engine()?.open(&self.credentials()) {
            Err(error) if error.is_incorrect_password() => Err(BackupError::WrongPassword {
                location: self.store.location(),
            }),
            opened => {
                let opened = self.told("opening the repository", opened)?;
                self.key_cache.set(files, opened.key());
                Ok(opened)
            }
        }
    }

    fn key_files(&self) -> Result<KeyFiles> {
        let keys = self.store.list(FileKind::Keys)?.into_iter();
        let mut files: KeyFiles = keys.map(|key| (key.name, key.size)).collect();
        files.sort();
        Ok(files)
    }

    /// Opens the repository without deriving the key from the password again.
    /// None when no key of these files is cached, or when it does not open the
    /// repository: then the password decides.
    fn open_with_cached_key(&self, files: &KeyFiles) -> Result<Option<Repository<OpenStatus>>> {
        match self.key_cache.get(files) {
            Some(key) => Ok(self.engine()?.open(&Credentials::Masterkey(key)).ok()),
            None => Ok(None),
        }
    }

    /// Opens the repository, or makes it where nothing is.
    pub(crate) fn open_or_make(&self) -> Result<Repository<OpenStatus>> {
        if self.store.list(FileKind::Config)?.is_empty() {
            self.clear_the_ground()?;
            let options = self.options();
            let engine = self.engine()?;
            let made = engine.init(&self.credentials(), &KeyOptions::default(), &options);
            let made = self.told("making the repository", made)?;
            self.key_cache.set(self.key_files()?, made.key());
            return Ok(made);
        }
        let mut repository = self.open()?;
        if repository.config().compression != Some(self.config.compression) {
            let mut options = ConfigOptions::default();
            options.set_compression = Some(self.config.compression);
            let applied = repository.apply_config(&options);
            self.told("setting the compression", applied)?;
        }
        Ok(repository)
    }

    fn options(&self) -> ConfigOptions {
        let mut options = ConfigOptions::default();
        options.set_compression = Some(self.config.compression);
        options.set_datapack_size = Some(bytesize::ByteSize(PACK));
        options.set_datapack_size_limit = Some(bytesize::ByteSize(MAX_PACK));
        options
    }

    /// A place for a new repository is empty, or holds what is left of one
    /// that was being made: the key comes first, and without the rest it
    /// opens nothing.
    fn clear_the_ground(&self) -> Result<()> {
        let known = FileKind::DIRS.map(FileKind::dir);
        let roots = self.store.roots(known.len() + 1)?;
        let occupied = || BackupError::Occupied {
            location: self.store.location(),
        };
        if !roots.iter().all(|root| known.contains(&root.as_str())) {
            return Err(occupied());
        }
        for place in [FileKind::Snapshots, FileKind::Index, FileKind::Data] {
            if !self.store.list(place)?.is_empty() {
                return Err(occupied());
            }
        }
        for key in self.store.list(FileKind::Keys)? {
            self.store.remove(FileKind::Keys, &key.name)?;
        }
        Ok(())
    }

    pub(crate) fn lock(
        &self,
        repository: &Repository<OpenStatus>,
        exclusive: bool,
    ) -> Result<Lock> {
        Lock::take(self.store.clone(), &repository.key(), exclusive)
    }

    /// Claims it for reading, where that can be recorded.
    pub(crate) fn lock_for_reading(
        &self,
        repository: &Repository<OpenStatus>,
    ) -> Result<Option<Lock>> {
        Lock::for_reading(self.store.clone(), &repository.key())
    }

    /// All snapshots. One that cannot be read is no reason not to read the
    /// others.
    pub(crate) fn snapshots(&self, repository: &Repository<OpenStatus>) -> Result<Snapshots> {
        let listed = self.store.list(FileKind::Snapshots)?;
        let names: Vec<&str> = listed.iter().map(|file| file.name.as_str()).collect();
        let mut read = self.read_snapshots(repository, &names)?;
        let mut unreadable = Vec::new();
        for name in names {
            if read.contains_key(name) {
                continue;
            }
            match self.store.read(FileKind::Snapshots, name) {
                Err(BackupError::Missing { .. }) => continue,
                // The store failed for a moment.
                Ok(bytes) if name_of(&bytes) == name => {
                    read.extend(self.read_snapshots(repository, &[name])?);
                }
                Ok(_) | Err(BackupError::Storage { .. }) => {}
                Err(error) => return Err(error),
            }
            if !read.contains_key(name) {
                unreadable.push(name.to_owned());
            }
        }
        Ok(Snapshots {
            readable: read.into_values().collect(),
            unreadable,
        })
    }

    /// Those of the snapshots that the engine can read.
    fn read_snapshots(
        &self,
        repository: &Repository<OpenStatus>,
        names: &[&str],
    ) -> Result<HashMap<String, SnapshotFile>> {
        let doing = "reading the snapshots";
        let ids = names.iter().map(|name| name.parse::<SnapshotId>());
        let ids = self.told(doing, ids.collect::<Result<Vec<_>, _>>())?;
        let read = self.told(doing, repository.stream_files_list::<SnapshotFile>(ids))?;
        let read = read.filter_map(Result::ok);
        let read = read.map(|(id, file)| (id.to_hex().to_string(), SnapshotFile { id, ..file }));
        let read = read.collect();
        self.gate.pass()?;
        Ok(read)
    }

    /// The message of the engine, with what we know better.
    pub(crate) fn told<T>(&self, doing: &'static str, result: RusticResult<T>) -> Result<T> {
        result.map_err(|cause| self.gate.explain(doing, cause))
    }
}
