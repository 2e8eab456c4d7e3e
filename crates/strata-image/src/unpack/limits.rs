//! How much a layer may unpack to.

/// Bounds on one layer. The defaults hold every honest image that we know of
/// and keep a hostile one from filling a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the tar, and of the files with their holes.
    pub bytes: u64,
    pub entries: u64,
    /// Bytes of one path.
    pub path: usize,
    /// How many times its packed size a layer may unpack to, once it is
    /// beyond `ratio_from` bytes: zeroes pack well, and small ones do no harm.
    pub ratio: u64,
    /// Where the ratio begins to count.
    pub ratio_from: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 64 << 30,
            entries: 2_000_000,
            path: 4095,
            ratio: 200,
            ratio_from: 1 << 30,
        }
    }
}
