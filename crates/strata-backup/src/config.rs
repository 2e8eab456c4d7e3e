//! Where a repository is, and how it is opened.

use std::fmt;
use std::path::PathBuf;

use strata_types::Secret;

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A directory, on a disk of its own if possible.
    Directory(PathBuf),
    /// A bucket of an S3-compatible store.
    S3(Bucket),
}

/// A bucket of an S3-compatible store, and our credentials there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The address of the store, `https://s3.example.org`; Amazon's own
    /// by default.
    pub endpoint: Option<String>,
    pub region: String,
    /// The bucket, which must be there.
    pub name: String,
    /// What all names in the bucket begin with; may be empty.
    pub prefix: String,
    pub access_key: Secret,
    pub secret_key: Secret,
    /// An address without TLS is accepted.
    pub allow_http: bool,
    /// PEM text of certificate authorities to trust beside the system's.
    pub authorities: Vec<String>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::S3(bucket) => {
                let endpoint = bucket.endpoint.as_deref().unwrap_or("s3.amazonaws.com");
                write!(f, "s3:{endpoint}/{}", bucket.name)?;
                match bucket.prefix.trim_matches('/') {
                    "" => Ok(()),
                    prefix => write!(f, "/{prefix}"),
                }
            }
        }
    }
}

/// A repository and how it is used.
#[derive(Clone, Debug)]
pub struct RepositoryConfig {
    /// Where it is.
    pub location: Location,
    /// What its key is locked with. Without it the backups are lost.
    pub password: Secret,
    /// The level of zstd that new data is compressed with, 1 to 22; 3 is a
    /// good one.
    pub compression: i32,
    /// Where indexes and trees of a repository far away are kept, so that
    /// they are fetched once. Not used for directories, which are near.
    pub cache: Option<PathBuf>,
}
