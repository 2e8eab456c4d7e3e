//! What is mounted into a pod.

use strata_types::Error;
use strata_types::pod::{Volume, VolumeSource};

use crate::strata::v1;
use crate::strata::v1::pod_volume::Source;

pub(super) fn from_wire(volumes: Vec<v1::PodVolume>) -> Result<Vec<Volume>, Error> {
    let read = |(i, volume): (usize, v1::PodVolume)| {
        let field = |part: &str| format!("pod.volumes[{i}].{part}");
        let source = match volume.source {
            Some(Source::Folder(directory)) => VolumeSource::Directory(directory),
            Some(Source::Volume(name)) => VolumeSource::Named(
                name.parse()
                    .map_err(|why| Error::invalid(field("volume"), format!("{name:?} {why}")))?,
            ),
            Some(Source::MemoryBytes(bytes)) => VolumeSource::Memory(bytes),
            Some(Source::Pool(name)) => VolumeSource::Pool(
                name.parse()
                    .map_err(|why| Error::invalid(field("pool"), format!("{name:?} {why}")))?,
            ),
            None => {
                let why = "is missing: a directory, a volume, memory_bytes or pool";
                return Err(Error::invalid(field("source"), why));
            }
        };
        Ok(Volume {
            source,
            target: volume.target,
            read_only: volume.read_only,
        })
    };
    volumes.into_iter().enumerate().map(read).collect()
}

pub(super) fn to_wire(volumes: &[Volume]) -> Vec<v1::PodVolume> {
    let write = |volume: &Volume| v1::PodVolume {
        source: Some(match &volume.source {
            VolumeSource::Directory(directory) => Source::Folder(directory.clone()),
            VolumeSource::Named(name) => Source::Volume(name.to_string()),
            VolumeSource::Memory(bytes) => Source::MemoryBytes(*bytes),
            VolumeSource::Pool(name) => Source::Pool(name.to_string()),
        }),
        target: volume.target.clone(),
        read_only: volume.read_only,
    };
    volumes.iter().map(write).collect()
}
