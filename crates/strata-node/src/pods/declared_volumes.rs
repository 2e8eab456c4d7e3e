//! Which directories an image declares as volumes, and what of a pod they are:
//! volumes of their own, or directories of its root (`image_volumes.rs`).

use strata_image::RunConfig;
use strata_types::pod::{PodSpec, Volume, VolumeSource};

/// Where a pod gets volumes of its image.
pub(super) fn targets(spec: &PodSpec, config: &RunConfig) -> Vec<String> {
    match are_in_root(spec) {
        true => Vec::new(),
        false => declared(spec, config),
    }
}

/// Where a pod has directories of its root instead, which the image may lack.
pub(super) fn in_root(spec: &PodSpec, config: &RunConfig) -> Vec<String> {
    match are_in_root(spec) {
        true => declared(spec, config),
        false => Vec::new(),
    }
}

fn are_in_root(spec: &PodSpec) -> bool {
    spec.limits.disk_bytes.is_some() && !spec.security.read_only_root
}

/// What the image says, as far as it makes sense and the pod has nothing else
/// there.
fn declared(spec: &PodSpec, config: &RunConfig) -> Vec<String> {
    let mut targets: Vec<String> = Vec::new();
    for target in config.volumes.keys().take(PodSpec::MAX_ENTRIES) {
        // Checked like a request of a caller.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_and_duplicate_image_volumes_are_left_out() {
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

    #[test]
    fn image_volumes_share_the_disk_limit_of_their_pod() {
        let text = r#"{"Volumes": {"/a": {}, "/b": {}, "/c": {}}}"#;
        let config: RunConfig = serde_json::from_str(text).unwrap();
        let mut spec = PodSpec::new("web".parse().unwrap(), "x");
        assert_eq!(targets(&spec, &config).len(), 3, "there is no limit");
        spec.limits.disk_bytes = Some(9 << 20);
        assert!(targets(&spec, &config).is_empty());
        assert_eq!(in_root(&spec, &config), ["/a", "/b", "/c"]);
        spec.security.read_only_root = true;
        let volumes = targets(&spec, &config);
        assert!(volumes.len() == 3 && in_root(&spec, &config).is_empty());
    }
}
