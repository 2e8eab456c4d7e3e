//! Which data to move so that what is kept twice can use a new device: both
//! copies of new data need room, on two devices.

use crate::btrfs::Chunk;

/// Room on a device that nothing is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeSpace {
    pub(crate) device: u64,
    pub(crate) bytes: u64,
}

/// The chunk to move next: one that is not on the device with most room, and
/// lies where room is least. Nothing when what the device with most room has
/// more than the others is less than what a move would even out.
pub(crate) fn next_to_move<'a>(chunks: &'a [Chunk], rooms: &[FreeSpace]) -> Option<&'a Chunk> {
    let most = rooms.iter().max_by_key(|room| room.bytes)?;
    let others: u64 = rooms
        .iter()
        .filter(|room| room.device != most.device)
        .map(|room| room.bytes)
        .sum();
    let excess = most.bytes.checked_sub(others)?;
    let room_of = |device: &u64| {
        let room = rooms.iter().find(|room| room.device == *device);
        room.map_or(u64::MAX, |room| room.bytes)
    };
    chunks
        .iter()
        .filter(|chunk| !chunk.devices.contains(&most.device))
        // Moving takes one copy's room from the device and frees it elsewhere.
        .filter(|chunk| chunk.bytes <= excess)
        .min_by_key(|chunk| chunk.devices.iter().map(room_of).min())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// What the kernel does: to the two devices with most room.
    fn apply(chunk: &Chunk, chunks: &mut Vec<Chunk>, rooms: &mut [FreeSpace]) -> bool {
        rooms.sort_by_key(|room| std::cmp::Reverse(room.bytes));
        let to = [rooms[0].device, rooms[1].device];
        let mut after = rooms.to_vec();
        for room in &mut after {
            // Chunks are first freed here: the slack of others takes the data.
            room.bytes += u64::from(chunk.devices.contains(&room.device)) * chunk.bytes;
            let Some(left) = room
                .bytes
                .checked_sub(u64::from(to.contains(&room.device)) * chunk.bytes)
            else {
                return false;
            };
            room.bytes = left;
        }
        rooms.copy_from_slice(&after);
        let start = chunks.iter().map(|c| c.start).max().unwrap_or(0) + 1;
        chunks.retain(|c| c != chunk);
        chunks.push(Chunk {
            start,
            bytes: chunk.bytes,
            devices: to.to_vec(),
        });
        true
    }

    proptest! {
        #[test]
        fn moving_ends_and_evens_out(
            pairs in vec((1_u64..4, 1_u64..3), 1..40),
            rooms in vec(0_u64..50, 4),
        ) {
            let mut chunks: Vec<Chunk> = pairs
                .iter()
                .enumerate()
                .map(|(at, (first, second))| Chunk {
                    start: at as u64,
                    bytes: 5,
                    devices: vec![*first, (first + second - 1) % 3 + 1],
                })
                .collect();
            chunks.retain(|chunk| chunk.devices[0] != chunk.devices[1]);
            let mut rooms: Vec<FreeSpace> = rooms
                .iter()
                .zip(1..)
                .map(|(bytes, device)| FreeSpace { device, bytes: *bytes })
                .collect();
            let count = chunks.len();
            let mut moves = 0;
            while let Some(chunk) = next_to_move(&chunks, &rooms).cloned() {
                if !apply(&chunk, &mut chunks, &mut rooms) {
                    break;
                }
                moves += 1;
                prop_assert!(moves <= count, "moved in circles");
            }
        }
    }
}
