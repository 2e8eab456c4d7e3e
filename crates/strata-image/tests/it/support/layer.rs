//! A writer of layer tars that writes whatever the test requests, hostile or
//! not.

use std::io::Write as _;

use strata_image::Digest;

/// One entry; everything else is as usual.
pub struct Entry<'a> {
    pub path: &'a [u8],
    pub flag: u8,
    pub link: &'a [u8],
    pub data: &'a [u8],
    pub mode: u32,
    pub owner: (u32, u32),
    pub mtime: u64,
    pub device: (u32, u32),
    pub pax: &'a [(&'a str, &'a [u8])],
}

impl Default for Entry<'_> {
    fn default() -> Self {
        Self {
            path: b"file",
            flag: b'0',
            link: b"",
            data: b"",
            mode: 0o644,
            owner: (0, 0),
            mtime: 1_000_000_000,
            device: (0, 0),
            pax: &[],
        }
    }
}

#[derive(Clone, Default)]
pub struct Layer(Vec<u8>);

impl Layer {
    pub fn new() -> Self {
        Self::default()
    }

    /// A tar that another program wrote.
    pub fn raw(tar: Vec<u8>) -> Self {
        Self(tar)
    }

    pub fn entry(mut self, entry: &Entry<'_>) -> Self {
        if !entry.pax.is_empty() {
            let mut records = Vec::new();
            for (key, value) in entry.pax {
                let rest = key.len() + value.len() + 3;
                let mut length = rest + 1;
                while length != rest + length.to_string().len() {
                    length = rest + length.to_string().len();
                }
                records.extend_from_slice(format!("{length} {key}=").as_bytes());
                records.extend_from_slice(value);
                records.push(b'\n');
            }
            self.block(b"pax", b'x', records.len(), &Entry::default());
            self.data(&records);
        }
        if entry.path.len() > 100 {
            let name = [entry.path, b"\0"].concat();
            self.block(b"././@LongLink", b'L', name.len(), &Entry::default());
            self.data(&name);
        }
        let shown = &entry.path[..entry.path.len().min(100)];
        self.block(shown, entry.flag, entry.data.len(), entry);
        self.data(entry.data);
        self
    }

    pub fn file(self, path: &str, data: &[u8]) -> Self {
        self.entry(&Entry {
            path: path.as_bytes(),
            data,
            ..Entry::default()
        })
    }

    pub fn dir(self, path: &str) -> Self {
        self.entry(&Entry {
            path: path.as_bytes(),
            flag: b'5',
            mode: 0o755,
            ..Entry::default()
        })
    }

    pub fn link(self, flag: u8, path: &str, to: &str) -> Self {
        self.entry(&Entry {
            path: path.as_bytes(),
            flag,
            link: to.as_bytes(),
            ..Entry::default()
        })
    }

    pub fn symlink(self, path: &str, to: &str) -> Self {
        self.link(b'2', path, to)
    }

    pub fn hard_link(self, path: &str, to: &str) -> Self {
        self.link(b'1', path, to)
    }

    /// The tar.
    pub fn tar(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        bytes.resize(bytes.len() + 1024, 0);
        bytes
    }

    pub fn diff_id(&self) -> Digest {
        Digest::of(&self.tar())
    }

    fn block(&mut self, path: &[u8], flag: u8, size: usize, entry: &Entry<'_>) {
        let mut block = [0; 512];
        let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
        put(0, path);
        put(100, format!("{:07o}", entry.mode).as_bytes());
        put(108, format!("{:07o}", entry.owner.0).as_bytes());
        put(116, format!("{:07o}", entry.owner.1).as_bytes());
        put(124, format!("{size:011o}").as_bytes());
        put(136, format!("{:011o}", entry.mtime).as_bytes());
        put(156, &[flag]);
        put(157, entry.link);
        put(257, b"ustar  \0");
        put(329, format!("{:07o}", entry.device.0).as_bytes());
        put(337, format!("{:07o}", entry.device.1).as_bytes());
        put(148, b"        ");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        self.0.extend_from_slice(&block);
    }

    fn data(&mut self, data: &[u8]) {
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}
