//! How small a device may be so that enough can still be stored.

use strata_types::storage::Profile;

use super::usable;

/// File systems count devices in these.
pub(super) const BLOCK: u64 = 4096;

/// The smallest size, in blocks, of the device `at` this place so that at
/// least `enough` can be stored on all of them: not below `floor`, and its own
/// size where no smaller one will do.
pub(super) fn least_size(
    profile: Profile,
    sizes: &[u64],
    at: usize,
    floor: u64,
    enough: u64,
) -> u64 {
    let Some(size) = sizes.get(at).copied() else {
        return 0;
    };
    let will_do = |blocks: u64| {
        let others = sizes.iter().enumerate().filter(|(other, _)| *other != at);
        let all = others.map(|(_, size)| *size).chain([blocks * BLOCK]);
        usable(profile, all) >= enough
    };
    let (mut least, mut most) = (floor.div_ceil(BLOCK), size / BLOCK);
    if least >= most || !will_do(most) {
        return size;
    }
    // More room never stores less, so the first size that will do is found by
    // halving.
    while least < most {
        let middle = least + (most - least) / 2;
        match will_do(middle) {
            true => most = middle,
            false => least = middle + 1,
        }
    }
    most * BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_as_small_as_what_is_stored_allows() {
        let of = |sizes: &[u64], at, enough| {
            let sizes: Vec<u64> = sizes.iter().map(|size| size * BLOCK).collect();
            least_size(Profile::Single, &sizes, at, 10 * BLOCK, enough * BLOCK) / BLOCK
        };
        assert_eq!(of(&[100, 50], 0, 120), 70);
        assert_eq!(of(&[100, 50], 1, 20), 10, "the floor");
        assert_eq!(of(&[100, 50], 0, 150), 100, "all is needed");
        assert_eq!(of(&[8, 50], 0, 20), 8, "below the floor already");
    }
}
