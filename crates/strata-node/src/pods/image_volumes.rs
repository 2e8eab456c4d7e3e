//! Folders that an image wants to be volumes. A pod gets one for each that it
//! has no volume of its own for: it is filled with what the image has there,
//! stays over stop and start, can be written to also where the root cannot,
//! and goes with the pod. What limits the pod's disk limits each of them too.

use std::path::Path;

use strata_image::RunConfig;
use strata_rootfs::{BindOptions, RootOptions};
use strata_types::Result;
use strata_types::pod::{PodSpec, Volume, VolumeSource};

use super::kind::Made;
use super::rootfs::{self, Outfitter};
use crate::volumes::of_image;

/// Where they go: what the image says, as far as it makes sense and the pod
/// has nothing else there.
pub(super) fn targets(spec: &PodSpec, config: &RunConfig) -> Vec<String> {
    let mut targets: Vec<String> = Vec::new();
    for target in config.volumes.keys().take(PodSpec::MAX_ENTRIES) {
        // Judged as if somebody had asked for it.
        let volume = Volume {
            source: VolumeSource::Memory(4096),
            target: target.clone(),
            read_only: false,
        };
        let taken = spec.volumes.iter().any(|own| own.place() == volume.place())
            || targets.iter().any(|other| other == volume.place());
        if !taken && volume.check("volume").is_ok() {
            targets.push(volume.place().to_owned());
        }
    }
    targets
}

/// Their names.
pub(super) fn names(id: &str, made: &Made) -> Vec<String> {
    let places = 0..made.image_volumes.len();
    places.map(|index| of_image(id, index)).collect()
}

/// Makes them, each with what the image has at its place. The writable layer
/// is there already.
pub(super) fn make(outfitter: &Outfitter, id: &str, spec: &PodSpec, made: &Made) -> Result<()> {
    if made.image_volumes.is_empty() {
        return Ok(());
    }
    let failed = |error: strata_rootfs::RootError| rootfs::error(&error, "pod.image");
    let options = RootOptions {
        read_only: true,
        no_dev: true,
        ..RootOptions::default()
    };
    let root = outfitter
        .roots
        .mount(id, &made.layers, options)
        .map_err(failed)?;
    for (target, name) in made.image_volumes.iter().zip(names(id, made)) {
        let volumes = &outfitter.volumes;
        volumes.make_of_image(&name, spec.limits.disk_bytes)?;
        let mount = volumes.mount(&name, BindOptions::default())?;
        strata_rootfs::copy_folder(&root, Path::new(target), &mount).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_or_is_there_already_is_left_out() {
        let mut spec = PodSpec::new("web".parse().unwrap(), "x");
        spec.volumes = vec![Volume {
            source: VolumeSource::Memory(4096),
            target: "/own/".into(),
            read_only: false,
        }];
        let text = r#"{"Volumes": {"/data": {}, "/data/": {}, "/own": {}, "/": {}, "/proc/x": {},
            "relative": {}, "/a/../b": {}}}"#;
        let config: RunConfig = serde_json::from_str(text).unwrap();
        assert_eq!(targets(&spec, &config), ["/data"]);
    }
}
