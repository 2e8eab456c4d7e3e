//! Images made of layers: in memory, as a layout directory, as an archive.

use std::fs;
use std::path::Path;

use strata_image::Digest;

use super::layer::{Layer, gzip};

/// An image's documents and blobs.
#[derive(Clone)]
pub struct BuiltImage {
    pub manifest: Vec<u8>,
    pub config: Vec<u8>,
    /// Packed layers, the lowest first.
    pub blobs: Vec<Vec<u8>>,
    pub diff_ids: Vec<Digest>,
}

impl BuiltImage {
    pub fn new(layers: &[Layer]) -> Self {
        Self::packed(layers, gzip)
    }

    pub fn packed(layers: &[Layer], pack: fn(&[u8]) -> Vec<u8>) -> Self {
        Self::on("amd64", layers, pack)
    }

    pub fn on(architecture: &str, layers: &[Layer], pack: fn(&[u8]) -> Vec<u8>) -> Self {
        let diff_ids: Vec<Digest> = layers.iter().map(Layer::diff_id).collect();
        let blobs: Vec<Vec<u8>> = layers.iter().map(|layer| pack(&layer.tar())).collect();
        let ids: Vec<String> = diff_ids.iter().map(|id| format!("\"{id}\"")).collect();
        let config = format!(
            r#"{{"os":"linux","architecture":"{architecture}","config":{{"Cmd":["/bin/sh"],"Env":null}},"rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
            ids.join(",")
        )
        .into_bytes();
        let descriptors: Vec<String> = blobs
            .iter()
            .map(|blob| descriptor("application/vnd.oci.image.layer.v1.tar+gzip", blob))
            .collect();
        let manifest = format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[{}]}}"#,
            descriptor("application/vnd.oci.image.config.v1+json", &config),
            descriptors.join(",")
        )
        .into_bytes();
        Self {
            manifest,
            config,
            blobs,
            diff_ids,
        }
    }

    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }

    /// Everything by digest.
    pub fn contents(&self) -> Vec<Vec<u8>> {
        let mut contents = self.blobs.clone();
        contents.extend([self.config.clone(), self.manifest.clone()]);
        contents
    }

    /// Writes an OCI layout with these tags.
    pub fn write_layout(&self, dir: &Path, tags: &[&str]) {
        let blobs = dir.join("blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        for content in self.contents() {
            fs::write(blobs.join(Digest::of(&content).hex()), content).unwrap();
        }
        fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        let entries: Vec<String> = tags
            .iter()
            .map(|tag| {
                let entry =
                    descriptor("application/vnd.oci.image.manifest.v1+json", &self.manifest);
                entry.replacen(
                    '{',
                    &format!(r#"{{"annotations":{{"org.opencontainers.image.ref.name":"{tag}"}},"#),
                    1,
                )
            })
            .collect();
        let index = format!(
            r#"{{"schemaVersion":2,"manifests":[{}]}}"#,
            entries.join(",")
        );
        fs::write(dir.join("index.json"), index).unwrap();
    }
}

pub fn descriptor(kind: &str, content: &[u8]) -> String {
    format!(
        r#"{{"mediaType":"{kind}","digest":"{}","size":{}}}"#,
        Digest::of(content),
        content.len()
    )
}

/// An index over images of several platforms.
pub fn index(images: &[(&str, &BuiltImage)]) -> Vec<u8> {
    let entries: Vec<String> = images
        .iter()
        .map(|(architecture, image)| {
            let entry = descriptor(
                "application/vnd.oci.image.manifest.v1+json",
                &image.manifest,
            );
            let platform =
                format!(r#"{{"platform":{{"os":"linux","architecture":"{architecture}"}},"#);
            entry.replacen('{', &platform, 1)
        })
        .collect();
    format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{}]}}"#,
        entries.join(",")
    )
    .into_bytes()
}
