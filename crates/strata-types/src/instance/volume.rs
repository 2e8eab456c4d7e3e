//! Volumes as people write them: `data:/var/lib/x`, `/srv/www:/www:ro`,
//! `memory=64:/tmp` (in MB).

use crate::Error;
use crate::pod::{Volume, VolumeSource};

/// What the volumes of projects other than the default one begin with on nodes.
pub const PROJECT_VOLUME: &str = "p--";

/// Reads a volume from the field `field` of a request.
pub(super) fn volume(field: &str, text: &str) -> Result<Volume, Error> {
    let bad = |why: &str| {
        let shown: String = text.chars().take(80).collect();
        Error::invalid(field, format!("{shown:?} {why}"))
    };
    let form = "is no volume such as data:/var/lib/x, /srv/www:/www:ro or memory=64:/tmp";
    let (rest, read_only) = match text.strip_suffix(":ro") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (source, target) = rest.split_once(':').ok_or_else(|| bad(form))?;
    let source = match source.strip_prefix("memory=") {
        Some(megabytes) => {
            let megabytes: u64 = megabytes.parse().map_err(|_| bad(form))?;
            VolumeSource::Memory(megabytes.saturating_mul(1_000_000))
        }
        None if source.starts_with('/') => VolumeSource::Folder(source.to_owned()),
        None if source.starts_with(PROJECT_VOLUME) => {
            return Err(bad("begins as the volumes of projects do on nodes"));
        }
        None => VolumeSource::Named(source.parse().map_err(|_| bad(form))?),
    };
    let volume = Volume {
        source,
        target: target.to_owned(),
        read_only,
    };
    volume.check(field)?;
    Ok(volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_read_as_people_write_them() {
        let read = |text| volume("volumes[0]", text);
        let data = read("data:/var/lib/x").unwrap();
        assert!(matches!(data.source, VolumeSource::Named(_)) && !data.read_only);
        let www = read("/srv/www:/www:ro").unwrap();
        assert_eq!(www.source, VolumeSource::Folder("/srv/www".into()));
        assert!(www.read_only);
        assert_eq!(
            read("memory=64:/tmp").unwrap().source,
            VolumeSource::Memory(64_000_000)
        );
        for bad in [
            "",
            "data",
            "data:x",
            "A:/x",
            "memory=x:/t",
            ":/x",
            "data:/proc",
            "a:/..",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
