//! The versions of Kubernetes that can be installed here.
//!
//! Each is a directory that `make kubernetes VERSION=…` built, with all that a
//! machine needs and one small file that says what is in it:
//!
//! ```text
//! DIRECTORY/v1.34.4/bundle.json   what it is; written last
//! DIRECTORY/v1.34.4/…             programs and images
//! ```
//!
//! Nothing is cached between two calls: a version that was built a moment ago
//! is here, and one that was deleted is not.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use strata_types::cluster::KubernetesVersion;

use crate::DriverError;

/// The largest `bundle.json`.
const MAX_BYTES: u64 = 64 * 1024;
/// The most entries of the directory that are read.
const MAX_ENTRIES: usize = 1000;
/// The most images of one bundle.
const MAX_IMAGES: usize = 64;

/// A version that is here, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    pub version: KubernetesVersion,
    /// The tag of etcd's image.
    pub etcd: String,
    /// The tag of CoreDNS' image.
    pub coredns: String,
    /// The tag of the image that holds a pod together.
    pub pause: String,
    /// The names of all its images.
    pub images: Vec<String>,
    pub dir: PathBuf,
}

/// Why a version cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The requested text is no version.
    #[error("{0:?} is not a version of Kubernetes")]
    NotAVersion(String),
    /// It is not here.
    #[error("Kubernetes{asked} is not here; {}", reported(here))]
    Missing {
        /// What was requested, with a space before; empty for any.
        asked: String,
        here: Vec<KubernetesVersion>,
        /// What to have built.
        build: String,
    },
    /// It is here, and its description cannot be trusted.
    #[error("the bundle {} is broken: {why}", dir.display())]
    Broken {
        dir: PathBuf,
        /// The reason, for people.
        why: String,
        /// What to have built again.
        build: String,
    },
}

impl CatalogueError {
    /// What a person can do next.
    pub fn hint(&self) -> String {
        match self {
            Self::NotAVersion(_) => {
                "ask for one such as v1.34.4, or 1.34 for the newest of these".into()
            }
            Self::Missing { build, .. } => format!("get it with: make kubernetes VERSION={build}"),
            Self::Broken { build, .. } => {
                format!("build it again with: make kubernetes VERSION={build}")
            }
        }
    }
}

fn reported(here: &[KubernetesVersion]) -> String {
    match here {
        [] => "no version is".into(),
        [one] => format!("only {one} is"),
        many => {
            let words: Vec<_> = many.iter().map(ToString::to_string).collect();
            format!("there are {}", words.join(", "))
        }
    }
}

impl From<CatalogueError> for strata_types::Error {
    fn from(error: CatalogueError) -> Self {
        let hint = error.hint();
        let public = match &error {
            CatalogueError::NotAVersion(_) | CatalogueError::Missing { .. } => {
                Self::invalid("k8s_version", error.to_string())
            }
            CatalogueError::Broken { .. } => Self::wrong_state(error.to_string()),
        };
        public.with_hint(hint)
    }
}

impl From<CatalogueError> for DriverError {
    fn from(error: CatalogueError) -> Self {
        let hint = error.hint();
        match error {
            CatalogueError::Missing { asked, .. } => Self::Missing {
                what: format!("Kubernetes{asked}"),
                hint,
            },
            other => Self::Files {
                what: "the catalogue of Kubernetes".into(),
                why: format!("{other}; {hint}"),
            },
        }
    }
}

/// The directory of all versions.
#[derive(Clone, Debug)]
pub struct Catalogue {
    dir: PathBuf,
}

impl Catalogue {
    /// Of this directory, which does not have to be there yet.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The directory of the bundles.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All that can be installed, the oldest first. Broken ones are left out.
    pub fn versions(&self) -> Vec<Bundle> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(dir = %self.dir.display(), %error, "cannot look for versions of Kubernetes");
                }
                return Vec::new();
            }
        };
        let names = entries
            .take(MAX_ENTRIES)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        // Anything that is not named as a version is another owner's.
        let versions = names.filter(|name| name.starts_with('v'));
        let versions = versions.filter_map(|name| name.parse().ok());
        let (mut bundles, mut broken) = (Vec::new(), Vec::new());
        for version in versions {
            match self.read(version) {
                Ok(Some(bundle)) => bundles.push(bundle),
                // It is being built.
                Ok(None) => {}
                Err(error) => broken.push(error.to_string()),
            }
        }
        if !broken.is_empty() {
            broken.sort();
            tracing::warn!(
                broken = broken.join("; "),
                "versions of Kubernetes are left out"
            );
        }
        bundles.sort_by_key(|bundle| bundle.version);
        bundles
    }

    pub fn find(&self, version: KubernetesVersion) -> Result<Bundle, CatalogueError> {
        match self.read(version)? {
            Some(bundle) => Ok(bundle),
            None => Err(CatalogueError::Missing {
                asked: format!(" {version}"),
                here: self.versions().iter().map(|b| b.version).collect(),
                build: version.to_string(),
            }),
        }
    }

    /// The newest that fits what a person wrote: `v1.34.4` is that one, `1.34`
    /// the newest patch of it, and nothing the newest of all.
    pub fn resolve(&self, text: &str) -> Result<Bundle, CatalogueError> {
        if let Ok(version) = text.parse() {
            return self.find(version);
        }
        let minor = match text {
            "" => None,
            text => match format!("{text}.0").parse::<KubernetesVersion>() {
                Ok(minor) => Some(minor),
                Err(_) => {
                    let text = text.chars().take(80).collect();
                    return Err(CatalogueError::NotAVersion(text));
                }
            },
        };
        let mut here = self.versions();
        let fits = |version| minor.is_none_or(|minor| minor.is_sibling(version));
        match here.iter().rposition(|bundle| fits(bundle.version)) {
            Some(at) => Ok(here.swap_remove(at)),
            None => Err(CatalogueError::Missing {
                asked: minor.map_or_else(String::new, |m| format!(" v{}.{}", m.major, m.minor)),
                here: here.iter().map(|bundle| bundle.version).collect(),
                build: minor.map_or_else(
                    || "v1.34.4".into(),
                    |minor| format!("{}.{}", minor.major, minor.minor),
                ),
            }),
        }
    }

    /// A version by its directory; none when nothing is there.
    fn read(&self, version: KubernetesVersion) -> Result<Option<Bundle>, CatalogueError> {
        let dir = self.dir.join(version.to_string());
        let broken = |why: String| CatalogueError::Broken {
            dir: dir.clone(),
            why,
            build: version.to_string(),
        };
        let Some(bytes) = bytes(&dir.join("bundle.json")).map_err(broken)? else {
            return Ok(None);
        };
        let reported: Reported =
            serde_json::from_slice(&bytes).map_err(|e| broken(format!("bundle.json: {e}")))?;
        reported.check(version).map_err(broken)?;
        Ok(Some(Bundle {
            version,
            etcd: reported.etcd,
            coredns: reported.coredns,
            pause: reported.pause,
            images: reported.images,
            dir,
        }))
    }
}

/// The file's bytes; none when it is not there.
fn bytes(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let message = |error: io::Error| format!("bundle.json: {error}");
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(message(error)),
    };
    // A pipe would block its reader.
    if !about.is_file() {
        return Err("bundle.json is not a file".into());
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(message)?;
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(message)?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(format!("bundle.json is larger than {MAX_BYTES} bytes")),
        false => Ok(Some(bytes)),
    }
}

/// A `bundle.json`. Other fields are ignored.
#[derive(Deserialize)]
struct Reported {
    version: KubernetesVersion,
    etcd: String,
    coredns: String,
    pause: String,
    images: Vec<String>,
}

impl Reported {
    /// These words end up in configuration files and on command lines, so
    /// they are held to what such words can be.
    fn check(&self, version: KubernetesVersion) -> Result<(), String> {
        if self.version != version {
            return Err(format!("it says that it is {}", self.version));
        }
        for (what, tag) in [
            ("etcd", &self.etcd),
            ("coredns", &self.coredns),
            ("pause", &self.pause),
        ] {
            if !is_tag(tag) {
                return Err(format!("its {what} is not a tag of an image"));
            }
        }
        if self.images.is_empty() || self.images.len() > MAX_IMAGES {
            return Err(format!("it has no images, or more than {MAX_IMAGES}"));
        }
        match self.images.iter().all(|name| is_image(name)) {
            true => Ok(()),
            false => Err("one of its images has no name of an image".into()),
        }
    }
}

fn is_tag(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    (1..=128).contains(&text.len()) && !text.starts_with(['.', '-']) && text.bytes().all(plain)
}

fn is_image(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-/:@".contains(&b);
    (1..=255).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(plain)
}
