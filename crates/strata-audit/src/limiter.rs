//! Refusals are cheap to cause: without a bound, a client without a credential
//! could push everything else out of a log of bounded size. Each source has a
//! burst and a rate; what is beyond is counted, and the next line that is
//! written says how many there were.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Lines at once, after a rest.
const BURST: f64 = 20.0;
/// Lines a second after that.
const RATE: f64 = 1.0;
/// Sources share this many places by their hash.
const BUCKETS: usize = 1024;

/// Decides which refusals are written.
#[derive(Debug)]
pub struct RefusalLimiter(Mutex<State>);

#[derive(Debug)]
struct State {
    places: Vec<(f64, Instant)>,
    suppressed: u64,
}

impl Default for RefusalLimiter {
    fn default() -> Self {
        let places = vec![(BURST, Instant::now()); BUCKETS];
        Self(Mutex::new(State {
            places,
            suppressed: 0,
        }))
    }
}

impl RefusalLimiter {
    /// Whether a refusal of this source is written, and how many were not
    /// since the last one that was.
    pub fn admit(&self, source: Option<IpAddr>) -> Option<u64> {
        self.admit_at(source, Instant::now())
    }

    fn admit_at(&self, source: Option<IpAddr>, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = place_of(source);
        let (tokens, last) = state.places[place];
        let rest = now.saturating_duration_since(last).as_secs_f64();
        let tokens = (tokens + rest * RATE).min(BURST);
        if tokens < 1.0 {
            state.places[place] = (tokens, now);
            state.suppressed += 1;
            return None;
        }
        state.places[place] = (tokens - 1.0, now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

/// An IPv6 source is its /64, all of which one host may have.
fn place_of(source: Option<IpAddr>) -> usize {
    let bits = match source {
        None => 0,
        Some(IpAddr::V4(address)) => u64::from(address.to_bits()) + 1,
        Some(IpAddr::V6(address)) => (address.to_bits() >> 64) as u64,
    };
    // Spreads neighbours; need not be secret, for the places are bounded.
    let spread = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    spread as usize % BUCKETS
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn flood_of_one_source_is_counted_and_others_are_written() {
        let (limiter, now) = (RefusalLimiter::default(), Instant::now());
        let flooder = "192.0.2.1".parse().ok();
        let written = (0..10_000).filter(|_| limiter.admit_at(flooder, now).is_some());
        assert_eq!(written.count(), 20);
        let other = limiter.admit_at("198.51.100.7".parse().ok(), now);
        assert_eq!(other, Some(9_980));
        let later = now + Duration::from_secs(3);
        let written = (0..10).filter(|_| limiter.admit_at(flooder, later).is_some());
        assert_eq!(written.count(), 3);
    }
}
