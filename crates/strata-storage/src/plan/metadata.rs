//! Whether metadata can be moved off a part of a device. The kernel begins to
//! move a chunk of metadata even if there is no room for it elsewhere, because
//! it counts on room that it may get later; when it finds none it ends the whole
//! file system, read-only until it is mounted again. So such a move is not
//! begun.

use std::collections::BTreeMap;

use crate::btrfs::Stripe;

/// What the kernel allocates at least for its own work on the way, generously.
const HEADROOM: u64 = 32 << 20;
/// The kernel gives nothing before this to chunks.
const FIRST_USABLE: u64 = 1 << 20;

/// Whether the metadata on a device beyond `to_bytes` finds room elsewhere,
/// given what chunks occupy, the number and size of each device, and how much
/// metadata is used.
pub(crate) fn metadata_has_room(
    stripes: &[Stripe],
    devices: &[(u64, u64)],
    number: u64,
    to_bytes: u64,
    used: u64,
) -> bool {
    let is_beyond = |stripe: &Stripe| {
        stripe.device == number && stripe.offset.saturating_add(stripe.bytes) > to_bytes
    };
    let mut chunks: BTreeMap<u64, Vec<&Stripe>> = BTreeMap::new();
    for stripe in stripes.iter().filter(|stripe| !stripe.is_data) {
        chunks.entry(stripe.chunk).or_default().push(stripe);
    }
    let (moved, stays): (Vec<_>, Vec<_>) = chunks
        .into_values()
        .partition(|copies| copies.iter().any(|stripe| is_beyond(stripe)));
    let needed = HEADROOM + 2 * used;
    let held: u64 = stays.iter().map(|copies| copies[0].bytes).sum();
    if moved.is_empty() || held >= used + needed {
        return true;
    }
    let free: Vec<Vec<u64>> = devices
        .iter()
        .map(|(device, bytes)| {
            let end = if *device == number { to_bytes } else { *bytes };
            gaps(stripes, *device, end)
        })
        .collect();
    moved.iter().all(|copies| {
        let bytes = copies[0].bytes.min(needed);
        let fits = |gaps: &Vec<u64>| gaps.iter().map(|gap| gap / bytes).sum::<u64>();
        let same_device = copies.iter().all(|copy| copy.device == copies[0].device);
        match same_device {
            true => free.iter().any(|gaps| fits(gaps) >= copies.len() as u64),
            false => free.iter().filter(|gaps| fits(gaps) > 0).count() >= copies.len(),
        }
    })
}

/// The sizes of the free parts of a device up to `end`.
fn gaps(stripes: &[Stripe], device: u64, end: u64) -> Vec<u64> {
    let mut occupied: Vec<(u64, u64)> = stripes
        .iter()
        .filter(|stripe| stripe.device == device)
        .map(|stripe| (stripe.offset, stripe.offset.saturating_add(stripe.bytes)))
        .collect();
    occupied.sort_unstable();
    let (mut gaps, mut from) = (Vec::new(), FIRST_USABLE);
    for (start, after) in occupied.into_iter().chain([(end, end)]) {
        gaps.push(start.min(end).saturating_sub(from));
        from = from.max(after);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn metadata(chunk: u64, device: u64, offset: u64, bytes: u64) -> Stripe {
        Stripe {
            chunk,
            device,
            offset: offset * MIB,
            bytes: bytes * MIB,
            is_data: false,
        }
    }

    fn data(device: u64, offset: u64, bytes: u64) -> Stripe {
        Stripe {
            is_data: true,
            ..metadata(offset, device, offset, bytes)
        }
    }

    fn may_cut(stripes: &[Stripe], devices: &[(u64, u64)], to: u64) -> bool {
        let devices: Vec<_> = devices.iter().map(|(id, size)| (*id, size * MIB)).collect();
        metadata_has_room(stripes, &devices, 1, to * MIB, MIB)
    }

    #[test]
    fn metadata_below_the_cut_needs_no_room() {
        let stripes = [
            metadata(1, 1, 1, 50),
            metadata(1, 1, 51, 50),
            data(1, 101, 100),
        ];
        assert!(may_cut(&stripes, &[(1, 300)], 101));
    }

    #[test]
    fn metadata_beyond_the_cut_needs_room_for_both_copies() {
        let stripes = [
            data(1, 1, 199),
            metadata(1, 1, 300, 256),
            metadata(1, 1, 556, 256),
        ];
        assert!(!may_cut(&stripes, &[(1, 1000)], 250), "50 MiB are free");
        assert!(may_cut(&stripes, &[(1, 1000)], 270), "70 MiB are free");
        assert!(
            may_cut(&stripes, &[(1, 1000), (2, 100)], 250),
            "there is room on another"
        );
    }

    #[test]
    fn copies_on_two_devices_need_room_on_two() {
        let stripes = [
            metadata(1, 1, 300, 64),
            metadata(1, 2, 1, 64),
            data(1, 1, 100),
        ];
        assert!(!may_cut(&stripes, &[(1, 400), (2, 70)], 200));
        assert!(may_cut(&stripes, &[(1, 400), (2, 170)], 200));
        assert!(
            !may_cut(&stripes, &[(1, 400), (2, 170)], 0),
            "all of it goes"
        );
        assert!(may_cut(&stripes, &[(1, 400), (2, 170), (3, 40)], 0));
    }

    #[test]
    fn metadata_moves_into_what_other_chunks_hold_free() {
        let stripes = [
            metadata(1, 1, 1, 64),
            data(1, 65, 100),
            metadata(2, 1, 200, 64),
        ];
        assert!(may_cut(&stripes, &[(1, 300)], 165));
    }
}
