//! What images and registries send: fuzzed by `fuzz/`.

use std::fs;
use std::io::BufReader;
use std::ops::ControlFlow;

use http::{HeaderValue, Uri};

use crate::manifest::Document;
use crate::source::registry::challenge::Challenge;
use crate::tar::TarReader;
use crate::{Digest, ImageConfig, Limits, Reference, unpack};

pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[
    ("tar", tar),
    ("layer", layer),
    ("manifest", manifest),
    ("reference", reference),
    ("registry_headers", registry_headers),
];

/// Of what one input may unpack to.
const LIMITS: Limits = Limits {
    bytes: 1 << 20,
    entries: 64,
    path: 4095,
    ratio: 200,
    ratio_from: 64 << 10,
};

fn tar(data: &[u8]) {
    // A small buffer, so that entries lie across its end.
    let mut reader = TarReader::new(BufReader::with_capacity(700, data));
    while let Ok(Some(entry)) = reader.next() {
        assert!(entry.path.len() <= data.len() && entry.link.len() <= data.len());
        let mut taken = 0;
        while let Ok(bytes) = reader.data() {
            if bytes.is_empty() {
                break;
            }
            let count = bytes.len();
            taken += count as u64;
            reader.consume(count);
        }
        assert!(taken <= entry.stored);
    }
}

/// A whole layer, packed or not, into a directory of its own.
fn layer(data: &[u8]) {
    let name = format!("strata-fuzz-layer-{}", std::process::id());
    let into = std::env::temp_dir().join(name);
    let _ = fs::remove_dir_all(&into);
    let go_on = |_| ControlFlow::Continue(());
    let unpacked = unpack(data, &into, Digest::of(data), &LIMITS, &go_on);
    assert_eq!(unpacked.is_ok(), into.exists(), "{unpacked:?}");
    let _ = fs::remove_dir_all(&into);
}

/// A manifest or an index, a zero, and a config.
fn manifest(data: &[u8]) {
    let (document, config) = match data.iter().position(|byte| *byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, data),
    };
    if let Ok(Document::Manifest(manifest)) = Document::parse(document) {
        let _ = ImageConfig::parse(config, &manifest);
    }
}

fn reference(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let _ = text.parse::<Digest>();
    if let Ok(read) = text.parse::<Reference>() {
        let again = read.to_string().parse::<Reference>();
        assert_eq!(again.ok(), Some(read), "{text:?}");
    }
}

/// Headers of a registry: its challenge, where it sends us, when to come again.
fn registry_headers(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data) {
        let _ = Challenge::parse(text);
        let from = Uri::from_static("https://registry.test/v2/a/blobs/b");
        if let Some(next) = strata_http::follow_redirect(&from, text) {
            assert!(matches!(next.scheme_str(), Some("http" | "https")));
            let _ = strata_http::origin(&next);
        }
    }
    if let Ok(value) = HeaderValue::from_bytes(data) {
        let _ = strata_http::retry_after(&value);
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        super::replay::replay(super::TARGETS);
    }
}
