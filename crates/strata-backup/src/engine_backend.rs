//! A store with the face that the engine expects.

use std::sync::Arc;

use bytes::Bytes;
use rustic_core::{
    BytesList, ErrorKind, FileType, Id, ReadBackend, RusticError, RusticResult, WriteBackend,
};

use crate::error::BackupError;
use crate::gate::Gate;
use crate::store::{FileKind, Store};
use crate::window::Windows;

pub(crate) struct EngineBackend {
    store: Arc<dyn Store>,
    gate: Arc<Gate>,
    windows: Option<Windows>,
}

impl EngineBackend {
    pub(crate) fn new(store: Arc<dyn Store>, gate: Arc<Gate>) -> Self {
        let windows = store.is_far().then(Windows::default);
        Self {
            store,
            gate,
            windows,
        }
    }

    fn refuse(error: &BackupError) -> Box<RusticError> {
        // The text is a template to the engine, so the message must not be
        // part of it.
        RusticError::new(ErrorKind::Backend, "{detail}")
            .attach_context("detail", strata_types::chain(error))
    }

    fn read_with(&self, read: impl FnOnce() -> Result<Bytes, BackupError>) -> RusticResult<Bytes> {
        self.gate.pass().and_then(|()| read()).map_err(|error| {
            let refused = Self::refuse(&error);
            self.gate.read_failed(error);
            refused
        })
    }

    fn change(&self, change: impl FnOnce() -> Result<(), BackupError>) -> RusticResult<()> {
        self.gate.pass().and_then(|()| change()).map_err(|error| {
            let refused = Self::refuse(&error);
            self.gate.fail(error);
            refused
        })
    }
}

fn place(kind: FileType) -> FileKind {
    match kind {
        FileType::Config => FileKind::Config,
        FileType::Index => FileKind::Index,
        FileType::Key => FileKind::Keys,
        FileType::Snapshot => FileKind::Snapshots,
        FileType::Pack => FileKind::Data,
    }
}

impl ReadBackend for EngineBackend {
    fn location(&self) -> String {
        self.store.location()
    }

    fn list_with_size(&self, kind: FileType) -> RusticResult<Vec<(Id, u32)>> {
        let listed = self.gate.pass().and_then(|()| self.store.list(place(kind)));
        let listed = listed.map_err(|error| {
            let refused = Self::refuse(&error);
            self.gate.read_failed(error);
            refused
        })?;
        if kind == FileType::Config {
            return Ok(listed.iter().map(|_| (Id::default(), 0)).collect());
        }
        listed
            .into_iter()
            .map(|file| {
                let size = u32::try_from(file.size).unwrap_or(u32::MAX);
                Ok((file.name.parse::<Id>()?, size))
            })
            .collect()
    }

    fn read_full(&self, kind: FileType, id: &Id) -> RusticResult<Bytes> {
        let name = id.to_hex();
        self.read_with(|| self.store.read(place(kind), name.as_str()))
    }

    fn read_partial(
        &self,
        kind: FileType,
        id: &Id,
        _cacheable: bool,
        offset: u32,
        length: u32,
    ) -> RusticResult<Bytes> {
        let name = id.to_hex();
        let (place, offset, length) = (place(kind), u64::from(offset), u64::from(length));
        self.read_with(|| match &self.windows {
            Some(windows) => windows.read(&*self.store, place, name.as_str(), offset, length),
            None => self.store.read_range(place, name.as_str(), offset, length),
        })
    }

    fn warmup_path(&self, kind: FileType, id: &Id) -> String {
        place(kind).path(id.to_hex().as_str())
    }
}

impl WriteBackend for EngineBackend {
    fn create(&self) -> RusticResult<()> {
        self.change(|| self.store.prepare())
    }

    fn write_bytes(
        &self,
        kind: FileType,
        id: &Id,
        _cacheable: bool,
        content: BytesList,
    ) -> RusticResult<()> {
        let name = id.to_hex();
        self.change(|| {
            let pieces = content.slice();
            self.store
                .write(place(kind), name.as_str(), pieces, &self.gate.pace)
        })
    }

    fn remove(&self, kind: FileType, id: &Id, _cacheable: bool) -> RusticResult<()> {
        let name = id.to_hex();
        self.change(|| self.store.remove(place(kind), name.as_str()))
    }
}
