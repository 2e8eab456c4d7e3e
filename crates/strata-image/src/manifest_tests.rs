//! Documents as builders and registries write them, and as they should not.

use super::*;

fn manifest(layer_type: &str) -> String {
    let digest = Digest::of(b"x");
    format!(
        r#"{{"schemaVersion":2,"mediaType":"{DOCKER_MANIFEST}",
            "config":{{"mediaType":"c","digest":"{digest}","size":1}},
            "layers":[{{"mediaType":"{layer_type}","digest":"{digest}","size":1}}]}}"#
    )
}

#[test]
fn docker_and_oci_documents_are_distinguished() {
    let docker = manifest("application/vnd.docker.image.rootfs.diff.tar.gzip");
    assert!(matches!(
        Document::parse(docker.as_bytes()),
        Ok(Document::Manifest(_))
    ));
    let index = r#"{"schemaVersion":2,"manifests":null}"#;
    assert!(Document::parse(index.as_bytes()).is_err());
    let index = r#"{"schemaVersion":2,"manifests":[]}"#;
    assert!(matches!(
        Document::parse(index.as_bytes()),
        Ok(Document::Index(_))
    ));
}

#[test]
fn unsupported_media_type_is_refused_by_name() {
    let chart = manifest("application/vnd.cncf.helm.chart.content.v1.tar+gzip");
    assert!(matches!(
        Document::parse(chart.as_bytes()),
        Err(ManifestError::LayerType(_))
    ));
    let encrypted = manifest("application/vnd.oci.image.layer.v1.tar+gzip+encrypted");
    assert!(matches!(
        Document::parse(encrypted.as_bytes()),
        Err(ManifestError::LayerType(_))
    ));
    assert!(matches!(
        Document::parse(br#"{"schemaVersion":1}"#),
        Err(ManifestError::SchemaOne)
    ));
    assert!(matches!(
        Document::parse(b"<html>"),
        Err(ManifestError::Json(_))
    ));
}

#[test]
fn nulls_in_a_config_are_nothing() {
    let text = manifest("application/vnd.docker.image.rootfs.diff.tar.gzip");
    let Document::Manifest(manifest) = Document::parse(text.as_bytes()).unwrap() else {
        panic!("an index")
    };
    let config = format!(
        r#"{{"os":"linux","architecture":"amd64",
            "config":{{"Env":null,"Cmd":["sh"],"ExposedPorts":{{"80/tcp":{{}}}}}},
            "rootfs":{{"type":"layers","diff_ids":["{}"]}}}}"#,
        Digest::of(b"x")
    );
    let config = ImageConfig::parse(config.as_bytes(), &manifest).unwrap();
    assert_eq!(config.config.cmd, ["sh"]);
    assert!(config.config.env.is_empty());
    assert_eq!(config.platform.os, "linux");
    assert!(matches!(
        ImageConfig::parse(b"{}", &manifest),
        Err(ManifestError::LayerCount {
            layers: 1,
            diff_ids: 0
        })
    ));
}

#[test]
fn a_config_that_no_program_can_be_started_with_is_refused() {
    let text = manifest("application/vnd.docker.image.rootfs.diff.tar.gzip");
    let Document::Manifest(manifest) = Document::parse(text.as_bytes()).unwrap() else {
        panic!("an index")
    };
    let parse = |config: serde_json::Value| {
        let whole = serde_json::json!({
            "os": "linux", "architecture": "amd64", "config": config,
            "rootfs": { "type": "layers", "diff_ids": [Digest::of(b"x").to_string()] },
        });
        ImageConfig::parse(whole.to_string().as_bytes(), &manifest).map(drop)
    };
    let variables = |many: usize| {
        let all = (0..many).map(|n| format!("V{n}=")).collect::<Vec<_>>();
        serde_json::json!({ "Env": all })
    };
    assert!(parse(variables(MAX_VARIABLES)).is_ok());
    assert!(matches!(
        parse(variables(MAX_VARIABLES + 1)),
        Err(ManifestError::TooManyVariables(_))
    ));
    assert!(matches!(
        parse(serde_json::json!({ "WorkingDir": "/srv\0/bin/sh" })),
        Err(ManifestError::WorkingDirectory)
    ));
}

#[test]
fn an_image_that_is_larger_than_any_honest_one_is_refused() {
    let layer = |size: u64| {
        serde_json::json!({
            "mediaType": OCI_LAYER,
            "digest": format!("sha256:{}", "0".repeat(64)),
            "size": size,
        })
    };
    let of = |sizes: &[u64]| {
        let layers: Vec<_> = sizes.iter().map(|size| layer(*size)).collect();
        let manifest = serde_json::json!({
            "schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": layer(2), "layers": layers,
        });
        let manifest: Manifest = serde_json::from_value(manifest).unwrap();
        manifest.check()
    };
    assert!(of(&[16 << 30, 16 << 30]).is_ok());
    for sizes in [&[16 << 30, 16 << 30, 1][..], &[u64::MAX, u64::MAX]] {
        assert!(matches!(of(sizes), Err(ManifestError::TooLarge(_))));
    }
}
