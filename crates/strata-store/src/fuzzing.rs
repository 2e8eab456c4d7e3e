//! Exports of a store from an untrusted source: fuzzed by `fuzz/`.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use sha2::{Digest as _, Sha256};

use crate::dump::read;

pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("store_dump", store_dump)];

/// As it is, and with the last line that it would need.
fn store_dump(data: &[u8]) {
    is_read(data);
    let lines = data.iter().filter(|byte| **byte == b'\n').count();
    let sum = Sha256::digest(data);
    let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    let count = lines.saturating_sub(1);
    let mut whole = data.to_vec();
    whole.extend(format!("{{\"count\":{count},\"sha256\":\"{sum}\"}}\n").bytes());
    is_read(&whole);
}

/// Bytes in memory are never waited for.
fn is_read(mut data: &[u8]) {
    let reading = pin!(read(&mut data));
    match reading.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok((records, _))) => {
            assert!(records.is_sorted_by(|one, next| one.0 < next.0));
        }
        Poll::Ready(Err(_)) => {}
        Poll::Pending => unreachable!("memory is not waited for"),
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
