//! What volumes have of an image. One that a pod names is filled with what the
//! image has in its place, where it is empty and no other pod has it.
//!
//! Folders that an image wants to be volumes. A pod gets one for each that it
//! has no volume of its own for: it is filled with what the image has there,
//! stays over stop and start, can be written to also where the root cannot,
//! and goes with the pod. What limits the pod's disk limits each of them too.

use std::os::fd::OwnedFd;
use std::path::Path;

use strata_image::RunConfig;
use strata_rootfs::{BindOptions, RootError, RootOptions};
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
    let root = root_of_image(outfitter, id, made)?;
    for (target, name) in made.image_volumes.iter().zip(names(id, made)) {
        let volumes = &outfitter.volumes;
        volumes.make_of_image(&name, spec.limits.disk_bytes)?;
        // It goes with the pod, so half of it is never taken for all.
        let mount = volumes.mount(&name, BindOptions::default())?;
        let copied = strata_rootfs::copy_folder(&root, Path::new(target), &mount);
        copied.map_err(|error| rootfs::error(&error, "pod.image"))?;
    }
    Ok(())
}

/// Fills volumes that a pod names, and that nobody has put anything into, with
/// what the image has at their places: content, owners and modes, so that a
/// program which is not root finds a directory of its own.
pub(super) fn fill_named(
    outfitter: &Outfitter,
    id: &str,
    spec: &PodSpec,
    made: &Made,
) -> Result<()> {
    for volume in &spec.volumes {
        let VolumeSource::Named(name) = &volume.source else {
            continue;
        };
        outfitter.volumes.fill(id, name.as_str(), |to| {
            let root = mount_image(outfitter, id, made)?;
            strata_rootfs::copy_folder(&root, Path::new(volume.place()), to)
        })?;
    }
    Ok(())
}

fn root_of_image(outfitter: &Outfitter, id: &str, made: &Made) -> Result<OwnedFd> {
    mount_image(outfitter, id, made).map_err(|error| rootfs::error(&error, "pod.image"))
}

/// The image as it is, before the pod has changed anything.
fn mount_image(outfitter: &Outfitter, id: &str, made: &Made) -> Result<OwnedFd, RootError> {
    let options = RootOptions {
        read_only: true,
        no_dev: true,
        ..RootOptions::default()
    };
    outfitter.roots.mount(id, &made.layers, options)
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
