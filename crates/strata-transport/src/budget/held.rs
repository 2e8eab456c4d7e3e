//! Bytes of requests that are in memory: of one caller, and of all callers
//! without a credential together, as the sources of those cost nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::OverBudget;

/// A count of bytes, and how many there may be.
#[derive(Debug)]
pub(super) struct HeldCount {
    bytes: AtomicUsize,
    limit: usize,
}

impl HeldCount {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            limit,
        }
    }

    fn add(&self, more: usize) -> bool {
        let before = self.bytes.fetch_add(more, Ordering::Relaxed);
        let fits = before.saturating_add(more) <= self.limit;
        if !fits {
            self.bytes.fetch_sub(more, Ordering::Relaxed);
        }
        fits
    }

    pub(super) fn is_zero(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) == 0
    }
}

/// What one request holds, until this is dropped.
#[derive(Debug)]
pub(super) struct HeldBytes {
    counts: Vec<Arc<HeldCount>>,
    bytes: usize,
}

impl HeldBytes {
    /// Of none yet, counted by all of these.
    pub(super) fn none(counts: Vec<Arc<HeldCount>>) -> Self {
        Self { counts, bytes: 0 }
    }

    /// Holds as many more.
    pub(super) fn add(&mut self, more: usize) -> Result<(), OverBudget> {
        for (n, count) in self.counts.iter().enumerate() {
            if !count.add(more) {
                for counted in &self.counts[..n] {
                    counted.bytes.fetch_sub(more, Ordering::Relaxed);
                }
                let what = format!(
                    "unfinished requests of this caller hold {} bytes, the limit is {}",
                    count.bytes.load(Ordering::Relaxed),
                    count.limit
                );
                return Err(OverBudget::new(what, Duration::from_secs(1)));
            }
        }
        self.bytes += more;
        Ok(())
    }

    /// Holds so many from now on.
    pub(super) fn set(&mut self, bytes: usize) -> Result<(), OverBudget> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.add(more),
            None => {
                self.release(self.bytes - bytes);
                Ok(())
            }
        }
    }

    fn release(&mut self, bytes: usize) {
        for count in &self.counts {
            count.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.bytes -= bytes;
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_by_all_counts_or_by_none() {
        let (own, all) = (Arc::new(HeldCount::new(10)), Arc::new(HeldCount::new(12)));
        let mut first = HeldBytes::none(vec![own.clone(), all.clone()]);
        first.add(8).unwrap();
        assert!(first.add(3).is_err());
        let mut second = HeldBytes::none(vec![Arc::new(HeldCount::new(10)), all.clone()]);
        assert!(second.add(5).is_err(), "8 of 12 are held by another");
        second.set(4).unwrap();
        first.set(2).unwrap();
        second.set(10).unwrap();
        drop((first, second));
        assert!(own.is_zero() && all.is_zero());
    }
}
