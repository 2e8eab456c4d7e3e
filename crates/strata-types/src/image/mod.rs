//! Names of images: a repository in a registry, a layout directory, an archive;
//! and the digests that pin them. Here, and not where images are fetched, so
//! that every API that takes a name refuses a malformed one at once.
//!
//! Written as people write them (`nginx`), kept and shown in full
//! (`docker.io/library/nginx:latest`), so that one image has one name.

mod digest;
mod error;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use digest::{Digest, DigestError, Hasher};
pub use error::ReferenceError;

/// The name of an image, parsed and in full.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Reference {
    Registry(RegistryReference),
    /// `oci:PATH[:tag]`, an OCI layout directory.
    Layout {
        path: PathBuf,
        /// Which image of it; none when it holds one only.
        tag: Option<String>,
    },
    /// `docker-archive:PATH`, what `docker save` writes.
    Archive {
        path: PathBuf,
    },
}

/// An image in a registry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistryReference {
    /// Host, and port when one is given.
    host: String,
    /// The repository, in full (`library/nginx`).
    repository: String,
    /// The tag; there is one unless there is a digest.
    tag: Option<String>,
    /// The digest, which wins over the tag.
    digest: Option<Digest>,
}

impl RegistryReference {
    /// Host, and port when one is given.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The repository, in full (`library/nginx`).
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if one was given or implied.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if the name pins one.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        parse::reference(text)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(reference) => fmt::Display::fmt(reference, f),
            Self::Layout { path, tag: None } => write!(f, "oci:{}", path.display()),
            Self::Layout {
                path,
                tag: Some(tag),
            } => write!(f, "oci:{}:{tag}", path.display()),
            Self::Archive { path } => write!(f, "docker-archive:{}", path.display()),
        }
    }
}

impl fmt::Display for RegistryReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Reference {
    type Error = ReferenceError;

    fn try_from(text: String) -> Result<Self, ReferenceError> {
        text.parse()
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> Self {
        reference.to_string()
    }
}
