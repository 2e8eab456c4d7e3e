//! What is mounted into a pod: `/srv/www:/www:ro`, `data:/var/lib/db`,
//! `pool=data:/var/lib/db`, and memory as `/run:64MiB`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strata_api::strata::v1::PodVolume;
use strata_api::strata::v1::pod_volume::Source;

use super::{Bytes, absolute, label_name};

/// Without a word about its size.
const DEFAULT_TMPFS: u64 = 64 << 20;

/// One `--volume`: a directory of the node's machine, a volume of the node, or
/// one of the storage pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct VolumeArg {
    source: MountSource,
    target: String,
    read_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MountSource {
    Folder(String),
    Volume(String),
    Pool(String),
}

impl VolumeArg {
    /// As it stands on the wire; nothing when it is memory.
    pub(crate) fn from_wire(volume: &PodVolume) -> Option<Self> {
        let source = match volume.source.as_ref()? {
            Source::Folder(path) => MountSource::Folder(path.clone()),
            Source::Volume(name) => MountSource::Volume(name.clone()),
            Source::Pool(name) => MountSource::Pool(name.clone()),
            Source::MemoryBytes(_) => return None,
        };
        Some(Self {
            source,
            target: volume.target.clone(),
            read_only: volume.read_only,
        })
    }

    /// As it is sent.
    pub(crate) fn into_wire(self) -> PodVolume {
        PodVolume {
            source: Some(match self.source {
                MountSource::Folder(path) => Source::Folder(path),
                MountSource::Volume(name) => Source::Volume(name),
                MountSource::Pool(name) => Source::Pool(name),
            }),
            target: self.target,
            read_only: self.read_only,
        }
    }
}

impl FromStr for VolumeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "{text:?} is not a volume; write it as /directory:/target, NAME:/target or \
                 pool=NAME:/target, with :ro"
            )
        };
        let (rest, read_only) = match text.strip_suffix(":ro") {
            Some(rest) => (rest, true),
            None => (text.strip_suffix(":rw").unwrap_or(text), false),
        };
        let (source, target) = rest.rsplit_once(':').ok_or_else(bad)?;
        if source.is_empty() || !target.starts_with('/') {
            return Err(bad());
        }
        // A name has neither dots nor slashes: whatever has is a path.
        let source = if let Some(name) = source.strip_prefix("pool=") {
            MountSource::Pool(label_name(name)?)
        } else if source.contains(['/', '.']) {
            MountSource::Folder(absolute(source)?)
        } else {
            MountSource::Volume(label_name(source)?)
        };
        Ok(Self {
            source,
            target: target.to_owned(),
            read_only,
        })
    }
}

impl fmt::Display for VolumeArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, source) = match &self.source {
            MountSource::Folder(source) | MountSource::Volume(source) => ("", source),
            MountSource::Pool(name) => ("pool=", name),
        };
        let end = if self.read_only { ":ro" } else { "" };
        write!(f, "{start}{source}:{}{end}", self.target)
    }
}

/// One `--tmpfs`: memory that looks like a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct TmpfsArg {
    target: String,
    size: Bytes,
}

impl TmpfsArg {
    /// As it stands on the wire; nothing when it is not memory.
    pub(crate) fn from_wire(volume: &PodVolume) -> Option<Self> {
        match volume.source.as_ref()? {
            Source::MemoryBytes(bytes) => Some(Self {
                target: volume.target.clone(),
                size: Bytes(*bytes),
            }),
            Source::Folder(_) | Source::Volume(_) | Source::Pool(_) => None,
        }
    }

    /// As it is sent.
    pub(crate) fn into_wire(self) -> PodVolume {
        PodVolume {
            source: Some(Source::MemoryBytes(self.size.0)),
            target: self.target,
            read_only: false,
        }
    }
}

impl FromStr for TmpfsArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (target, size) = match text.rsplit_once(':') {
            Some((target, size)) => (target, size.parse()?),
            None => (text, Bytes(DEFAULT_TMPFS)),
        };
        if !target.starts_with('/') {
            return Err(format!(
                "{text:?} is not a directory of the pod; write it as /target or /target:64MiB"
            ));
        }
        Ok(Self {
            target: target.to_owned(),
            size,
        })
    }
}

impl fmt::Display for TmpfsArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.target, self.size)
    }
}

macro_rules! written_as_text {
    ($($type:ty)*) => {$(
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    )*};
}
written_as_text!(VolumeArg TmpfsArg);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn folders_are_made_absolute_and_names_stay() {
        let here = std::env::current_dir().unwrap();
        let here = here.display();
        for (text, written) in [
            ("/srv/www:/www:ro", "/srv/www:/www:ro".to_owned()),
            ("/srv/www:/www:rw", "/srv/www:/www".to_owned()),
            ("./www:/www", format!("{here}/www:/www")),
            ("a/b:/www", format!("{here}/a/b:/www")),
            ("data:/var/lib/db", "data:/var/lib/db".to_owned()),
            ("pool=data:/db:ro", "pool=data:/db:ro".to_owned()),
        ] {
            let volume: VolumeArg = text.parse().unwrap();
            assert_eq!(volume.to_string(), written);
            let wire = volume.clone().into_wire();
            assert_eq!(VolumeArg::from_wire(&wire), Some(volume));
            assert_eq!(TmpfsArg::from_wire(&wire), None);
        }
        for bad in [
            "",
            "data",
            "/a",
            ":/a",
            "data:a",
            "Data:/a",
            "a:/b:xx",
            "pool=:/a",
            "pool=A:/a",
        ] {
            assert!(bad.parse::<VolumeArg>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn memory_has_a_size() {
        let size = |text: &str| text.parse::<TmpfsArg>().map(|arg| arg.size);
        assert_eq!(size("/run"), Ok(Bytes(64 << 20)));
        assert_eq!(size("/run:1MiB"), Ok(Bytes(1 << 20)));
        for bad in ["", "run", "/run:", "/run:big", ":1MiB"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
        let run: TmpfsArg = "/run:2MiB".parse().unwrap();
        assert_eq!(TmpfsArg::from_wire(&run.clone().into_wire()), Some(run));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z./:]{0,20}") {
            let _ = text.parse::<VolumeArg>();
            let _ = text.parse::<TmpfsArg>();
        }
    }
}
