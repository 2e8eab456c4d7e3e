//! Files by which it is seen whether anything was lost.

use std::fs;
use std::path::Path;

/// Files with something of their own in each, on all devices.
pub(crate) fn fill(dir: &Path, megabytes: u64) {
    for number in 0..megabytes {
        fs::write(dir.join(number.to_string()), piece(number)).unwrap();
    }
    rustix::fs::sync();
}

fn piece(number: u64) -> Vec<u8> {
    (number + 1).to_le_bytes().repeat(1 << 17)
}

pub(crate) fn check(dir: &Path, megabytes: u64) {
    for number in 0..megabytes {
        let found = fs::read(dir.join(number.to_string())).unwrap();
        assert!(found == piece(number), "{dir:?} {number}");
    }
}
