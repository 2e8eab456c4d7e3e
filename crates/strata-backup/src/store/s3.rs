//! A repository in a bucket of an S3-compatible store, under the names that
//! restic gives there.
//!
//! An object is there whole or not at all, so writing needs no care. Requests
//! that fail on the way are repeated by the library below, with growing
//! waits, for a minute; what the store refuses is not.

use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    BackoffConfig, Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _,
    PutPayload, RetryConfig,
};
use tokio::runtime::Handle;

use super::http::BoundedClient;
use super::{FileKind, Store, StoredFile, is_name};
use crate::cipher::name_of;
use crate::config::Bucket;
use crate::error::{BackupError, Result};
use crate::rate_limiter::RateLimiter;

/// How long a request is repeated.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct S3 {
    store: AmazonS3,
    prefix: Path,
    location: String,
    runtime: Handle,
}

impl S3 {
    /// Must be called within a runtime, which it keeps to wait on.
    pub(crate) fn new(bucket: &Bucket, location: String) -> Result<Self> {
        let settings = |detail: String| BackupError::Settings { detail };
        let runtime = Handle::try_current().map_err(|error| settings(error.to_string()))?;
        let mut builder = AmazonS3Builder::new()
            .with_region(&bucket.region)
            .with_bucket_name(&bucket.name)
            .with_access_key_id(bucket.access_key.expose())
            .with_secret_access_key(bucket.secret_key.expose())
            .with_allow_http(bucket.allow_http)
            .with_virtual_hosted_style_request(false)
            .with_retry(RetryConfig {
                backoff: BackoffConfig {
                    init_backoff: Duration::from_millis(100),
                    max_backoff: Duration::from_secs(10),
                    base: 2.0,
                },
                max_retries: 8,
                retry_timeout: RETRY_TIMEOUT,
            })
            .with_http_connector(BoundedClient::new(&bucket.authorities, bucket.allow_http)?);
        if let Some(endpoint) = &bucket.endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
        }
        Ok(Self {
            store: builder
                .build()
                .map_err(|error| settings(error.to_string()))?,
            prefix: Path::from(bucket.prefix.trim_matches('/')),
            location,
            runtime,
        })
    }

    fn path(&self, place: FileKind, name: &str) -> Path {
        Path::from_iter(
            self.prefix
                .parts()
                .chain(Path::from(place.path(name)).parts()),
        )
    }

    fn failed(&self, doing: &'static str, name: String, error: Error) -> BackupError {
        match error {
            Error::NotFound { .. } => BackupError::Missing { name },
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => BackupError::Denied {
                location: self.location.clone(),
                detail: strata_types::chain(&error),
            },
            Error::Generic { .. } => self.said(strata_types::chain(&error)),
            other => BackupError::Storage {
                doing,
                name,
                source: std::io::Error::other(other),
            },
        }
    }

    /// What an answer that the library has no name for means; it reports it
    /// only in its text.
    fn said(&self, detail: String) -> BackupError {
        let location = self.location.clone();
        if detail.contains("NoSuchBucket") {
            return BackupError::Settings {
                detail: format!("there is no bucket for {location}"),
            };
        }
        if detail.contains("non-2xx status code: 4") {
            return BackupError::Denied { location, detail };
        }
        BackupError::Unreachable { location, detail }
    }

    fn get(&self, place: FileKind, name: &str, range: Option<GetRange>) -> Result<Bytes> {
        let path = self.path(place, name);
        let options = GetOptions {
            range,
            ..GetOptions::default()
        };
        self.runtime
            .block_on(async { self.store.get_opts(&path, options).await?.bytes().await })
            .map_err(|error| self.failed("reading", place.path(name), error))
    }
}

/// A number of what the store reports of an object: what it calls the content,
/// and when the object was written, whichever it has. Never 0.
fn stamp(object: &ObjectMeta) -> u64 {
    let written = object.last_modified.timestamp_nanos_opt();
    let text = format!(
        "{:?} {:?} {:?} {}",
        object.e_tag, object.version, written, object.size
    );
    let digits = name_of(text.as_bytes());
    let stamp = digits
        .get(..16)
        .map(|digits| u64::from_str_radix(digits, 16));
    stamp.and_then(Result::ok).unwrap_or_default().max(1)
}

impl Store for S3 {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn readers(&self) -> usize {
        // Each mostly waits.
        std::thread::available_parallelism().map_or(8, |cores| cores.get().max(8))
    }

    fn is_far(&self) -> bool {
        true
    }

    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    fn roots(&self, enough: usize) -> Result<Vec<String>> {
        let listed = self
            .runtime
            .block_on(self.store.list_with_delimiter(Some(&self.prefix)))
            .map_err(|error| self.failed("listing", self.location.clone(), error))?;
        let files = listed.objects.into_iter().map(|object| object.location);
        let names = listed.common_prefixes.into_iter().chain(files);
        Ok(names
            .filter_map(|path| path.filename().map(str::to_owned))
            .take(enough)
            .collect())
    }

    fn list(&self, place: FileKind) -> Result<Vec<StoredFile>> {
        let failed = |error| self.failed("listing", place.dir().to_owned(), error);
        let path = self.path(place, "");
        if place == FileKind::Config {
            return match self.runtime.block_on(self.store.head(&path)) {
                Err(Error::NotFound { .. }) => Ok(Vec::new()),
                Err(error) => Err(failed(error)),
                Ok(object) => Ok(vec![StoredFile {
                    name: String::new(),
                    size: object.size,
                    stamp: stamp(&object),
                }]),
            };
        }
        let objects: Vec<_> = self
            .runtime
            .block_on(self.store.list(Some(&path)).try_collect())
            .map_err(failed)?;
        Ok(objects
            .into_iter()
            .filter_map(|object| {
                let name = object.location.filename().filter(|name| is_name(name))?;
                Some(StoredFile {
                    name: name.to_owned(),
                    size: object.size,
                    stamp: stamp(&object),
                })
            })
            .collect())
    }

    fn read(&self, place: FileKind, name: &str) -> Result<Bytes> {
        self.get(place, name, None)
    }

    fn read_range(&self, place: FileKind, name: &str, offset: u64, length: u64) -> Result<Bytes> {
        let range = GetRange::Bounded(offset..offset.saturating_add(length));
        let bytes = self.get(place, name, Some(range))?;
        if bytes.len() as u64 != length {
            return Err(BackupError::Storage {
                doing: "reading",
                name: place.path(name),
                source: std::io::ErrorKind::UnexpectedEof.into(),
            });
        }
        Ok(bytes)
    }

    fn read_up_to(&self, place: FileKind, name: &str, offset: u64, length: u64) -> Result<Bytes> {
        let range = GetRange::Bounded(offset..offset.saturating_add(length));
        self.get(place, name, Some(range))
    }

    fn write(
        &self,
        place: FileKind,
        name: &str,
        pieces: &[Bytes],
        pace: &RateLimiter,
    ) -> Result<()> {
        pace.take(pieces.iter().map(Bytes::len).sum())?;
        let path = self.path(place, name);
        let payload = PutPayload::from_iter(pieces.iter().cloned());
        self.runtime
            .block_on(self.store.put(&path, payload))
            .map(drop)
            .map_err(|error| self.failed("writing", place.path(name), error))
    }

    fn remove(&self, place: FileKind, name: &str) -> Result<()> {
        let path = self.path(place, name);
        match self.runtime.block_on(self.store.delete(&path)) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("removing", place.path(name), error)),
        }
    }

    fn set_aside(&self, place: FileKind, name: &str) -> Result<()> {
        let bytes = self.read(place, name)?;
        self.write(place.aside(), name, &[bytes], &RateLimiter::free())?;
        self.remove(place, name)
    }

    fn sweep(&self) -> Result<()> {
        Ok(())
    }
}
