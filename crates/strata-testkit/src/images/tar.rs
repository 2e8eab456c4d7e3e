//! Layers as tars. The format is a page long and we write a few kinds of
//! entries only; everything in them is as old as can be, so that the same
//! image has the same digest in every run.

use std::io::Write as _;

/// A layer in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Tar(Vec<u8>);

impl Tar {
    pub(super) fn dir(&mut self, path: &str, mode: u32, owner: u32) {
        self.entry(path, b'5', mode, owner, "", &[]);
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, owner: u32, bytes: &[u8]) {
        self.entry(path, b'0', mode, owner, "", bytes);
    }

    /// A program with file capabilities: permitted and effective, one bit each.
    pub(super) fn capable(&mut self, path: &str, capabilities: u32, bytes: &[u8]) {
        const VERSION_2_EFFECTIVE: u32 = 0x0200_0001;
        let mut value = VERSION_2_EFFECTIVE.to_le_bytes().to_vec();
        value.extend(capabilities.to_le_bytes());
        value.resize(20, 0);
        // The length counts itself: two digits.
        let key = b" SCHILY.xattr.security.capability=";
        let length = 2 + key.len() + value.len() + 1;
        let record = [length.to_string().as_bytes(), key, &value, b"\n"].concat();
        self.entry("pax", b'x', 0o644, 0, "", &record);
        self.file(path, 0o755, 0, bytes);
    }

    pub(super) fn symlink(&mut self, path: &str, target: &str) {
        self.entry(path, b'2', 0o777, 0, target, &[]);
    }

    pub(super) fn special(&mut self, path: &str, kind: u8) {
        self.entry(path, kind, 0o644, 0, "", &[]);
    }

    /// The tar, with the two empty blocks that end one.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }

    fn entry(&mut self, path: &str, flag: u8, mode: u32, owner: u32, link: &str, bytes: &[u8]) {
        assert!(path.len() < 100 && link.len() < 100, "{path} is too long");
        let mut block = [0; 512];
        let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
        put(0, path.as_bytes());
        put(100, format!("{mode:07o}").as_bytes());
        put(108, format!("{owner:07o}").as_bytes());
        put(116, format!("{owner:07o}").as_bytes());
        put(124, format!("{:011o}", bytes.len()).as_bytes());
        put(136, format!("{:011o}", 0).as_bytes());
        put(156, &[flag]);
        put(157, link.as_bytes());
        put(257, b"ustar  \0");
        // The numbers of the device null; of no meaning for anything else.
        put(329, b"0000001\x000000003\x00");
        // The sum is taken with blanks in its own place.
        put(148, b"        ");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        self.0.extend_from_slice(&block);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
    }
}

/// Packed as builders do it.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}
