//! Which of the images in a multi-platform index is for this machine.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::manifest::Descriptor;

/// Operating system, processor and its variant, in the words of the image
/// specification (those of Go).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// `linux`.
    #[serde(default)]
    pub os: String,
    /// `amd64`, `arm64`, …
    #[serde(default)]
    pub architecture: String,
    /// `v7`, `v8`, …; empty when there is one kind only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
}

impl Platform {
    /// The platform this program runs on.
    pub fn host() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", ""),
            "aarch64" => ("arm64", "v8"),
            "arm" => ("arm", "v7"),
            "powerpc64" => ("ppc64le", ""),
            other => (other, ""),
        };
        Self {
            os: "linux".into(),
            architecture: architecture.into(),
            variant: variant.into(),
        }
    }

    /// Whether an image for `self` runs here, where `host` is required. What an
    /// image leaves out is no reason to refuse it.
    pub fn serves(&self, host: &Self) -> bool {
        let same = |mine: &str, theirs: &str| mine.is_empty() || mine == theirs;
        same(&self.os, &host.os)
            && same(&self.architecture, &host.architecture)
            && (self.variant.is_empty() || host.variant.is_empty() || self.variant == host.variant)
    }

    /// The entry of an index for this platform: the exact variant first, then
    /// any that serves, in the order of the index. Attestations (`unknown`)
    /// never match because no host is called that.
    pub(crate) fn choose<'a>(&self, entries: &'a [Descriptor]) -> Option<&'a Descriptor> {
        let exact = |entry: &&Descriptor| entry.platform.as_ref() == Some(self);
        let serves = |entry: &&Descriptor| {
            entry
                .platform
                .as_ref()
                .is_some_and(|platform| !platform.os.is_empty() && platform.serves(self))
        };
        entries
            .iter()
            .find(exact)
            .or_else(|| entries.iter().find(serves))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        if !self.variant.is_empty() {
            write!(f, "/{}", self.variant)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;

    fn entry(os: &str, architecture: &str, variant: &str) -> Descriptor {
        Descriptor {
            platform: Some(platform(os, architecture, variant)),
            ..Descriptor::new("m", Digest::of(variant.as_bytes()), 1)
        }
    }

    fn platform(os: &str, architecture: &str, variant: &str) -> Platform {
        Platform {
            os: os.into(),
            architecture: architecture.into(),
            variant: variant.into(),
        }
    }

    #[test]
    fn the_exact_variant_wins_over_one_that_serves() {
        let entries = [
            entry("linux", "amd64", ""),
            entry("linux", "arm64", ""),
            entry("linux", "arm64", "v8"),
        ];
        let arm = platform("linux", "arm64", "v8");
        assert_eq!(arm.choose(&entries), Some(&entries[2]));
        assert_eq!(arm.choose(&entries[..2]), Some(&entries[1]));
        assert_eq!(
            platform("linux", "amd64", "").choose(&entries),
            Some(&entries[0])
        );
    }

    #[test]
    fn other_systems_and_attestations_never_serve() {
        let entries = [
            entry("windows", "amd64", ""),
            entry("unknown", "unknown", ""),
            entry("linux", "arm", "v6"),
        ];
        assert_eq!(platform("linux", "amd64", "").choose(&entries), None);
        assert_eq!(platform("linux", "arm", "v7").choose(&entries), None);
    }
}
