//! Why a text names no image, said so that it can be mended.

use super::DigestError;

/// Why a text names no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("the image name is empty")]
    Empty,
    /// Longer than any name can be.
    #[error("the image name is {0} bytes long, at most {max} are allowed", max = super::parse::MAX_TEXT)]
    TooLong(usize),
    /// Spaces, control or other characters that no name has.
    #[error("the image name has the character {0:?}, which is not allowed there")]
    Character(char),
    /// `https://…`.
    #[error("an image name has no scheme: leave {0:?} out")]
    Scheme(String),
    /// The host in front is none.
    #[error("{0:?} is not a registry host with an optional port")]
    Host(String),
    #[error("repository {0:?} must be lower case")]
    UpperCase(String),
    /// An empty part, two dots, a dash at the end.
    #[error("repository part {0:?} must be letters and digits, with single . _ - between them")]
    Part(String),
    /// Longer than registries take.
    #[error("the repository is {0} bytes long, at most 255 are allowed")]
    RepositoryTooLong(usize),
    /// Not a tag.
    #[error("tag {0:?} must be 1 to 128 of [A-Za-z0-9._-] and not start with . or -")]
    Tag(String),
    /// Not a digest.
    #[error("{0}")]
    Digest(#[from] DigestError),
    /// `oci:` with nothing behind it.
    #[error("a path must follow {0:?}")]
    NoPath(&'static str),
}

impl From<ReferenceError> for crate::Error {
    fn from(error: ReferenceError) -> Self {
        Self::invalid("uri", error.to_string())
            .with_hint("write nginx, docker.io/library/nginx:1.27, registry:5000/x@sha256:…, oci:PATH[:tag] or docker-archive:PATH")
    }
}
