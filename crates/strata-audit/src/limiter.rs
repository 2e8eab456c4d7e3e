//! Refusals are cheap to cause: without a bound, a client without a credential
//! could push everything else out of a log of bounded size. Each source has a
//! burst and a rate; what is beyond is counted, and the next line that is
//! written says how many there were.
//!
//! A caller with a credential has a burst and a rate of its own. Addresses share
//! places, and a client with many addresses takes all of them: that must not
//! hide the refusals of authenticated callers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Lines at once, after a rest.
const BURST: f64 = 20.0;
/// Lines a second after that.
const RATE: f64 = 1.0;
/// Sources share this many places by their hash.
const BUCKETS: usize = 1024;
/// Callers that are remembered before those that have rested are dropped.
const MAX_CALLERS: usize = 1024;

/// Decides which refusals are written.
#[derive(Debug)]
pub struct RefusalLimiter(Mutex<State>);

#[derive(Debug)]
struct State {
    places: Vec<Tokens>,
    callers: HashMap<String, Tokens>,
    suppressed: u64,
}

/// What is left of a burst, and since when.
type Tokens = (f64, Instant);

/// Takes one, if there is one.
fn take(tokens: &mut Tokens, now: Instant) -> bool {
    let left = left_of(*tokens, now);
    let taken = left >= 1.0;
    *tokens = (if taken { left - 1.0 } else { left }, now);
    taken
}

fn left_of((left, last): Tokens, now: Instant) -> f64 {
    let rest = now.saturating_duration_since(last).as_secs_f64();
    (left + rest * RATE).min(BURST)
}

impl Default for RefusalLimiter {
    fn default() -> Self {
        let places = vec![(BURST, Instant::now()); BUCKETS];
        Self(Mutex::new(State {
            places,
            callers: HashMap::new(),
            suppressed: 0,
        }))
    }
}

impl RefusalLimiter {
    /// Whether a refusal of this source, which has no credential, is written,
    /// and how many were not since the last one that was.
    pub fn admit(&self, source: Option<IpAddr>) -> Option<u64> {
        self.admit_at(source, Instant::now())
    }

    fn admit_at(&self, source: Option<IpAddr>, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = take(&mut state.places[place_of(source)], now);
        state.written(taken)
    }

    /// The same for a caller with a credential.
    pub fn admit_caller(&self, caller: &str) -> Option<u64> {
        self.admit_caller_at(caller, Instant::now())
    }

    fn admit_caller_at(&self, caller: &str, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.callers.len() >= MAX_CALLERS {
            let owes = |tokens: &mut Tokens| left_of(*tokens, now) < BURST;
            state.callers.retain(|_, tokens| owes(tokens));
        }
        let tokens = state.callers.entry(caller.to_owned());
        let taken = take(tokens.or_insert((BURST, now)), now);
        state.written(taken)
    }
}

impl State {
    fn written(&mut self, taken: bool) -> Option<u64> {
        if !taken {
            self.suppressed += 1;
            return None;
        }
        Some(std::mem::take(&mut self.suppressed))
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
        // No number of addresses takes what a caller has.
        for address in 0..100_000 {
            limiter.admit_at(Some(IpAddr::from(std::net::Ipv4Addr::from(address))), now);
        }
        assert!(limiter.admit_caller_at("viewer ada", now).is_some());
        let of_bob = (0..100).filter(|_| limiter.admit_caller_at("viewer bob", now).is_some());
        assert_eq!(of_bob.count(), 20);
        assert!(limiter.admit_caller_at("viewer ada", now).is_some());
        let later = now + Duration::from_secs(3);
        let written = (0..10).filter(|_| limiter.admit_at(flooder, later).is_some());
        assert_eq!(written.count(), 3);
    }
}
