//! The places of one connection: how many requests are under way on it.
//!
//! HTTP/2 has a limit of its own, which the client keeps: it holds back what is
//! more, and a caller that follows that many logs waits without an error. So
//! that limit is higher, and this one is kept here. A burst of short requests
//! waits for its turn, for as long as others end; what waits while none ends is
//! refused, with the reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::OverBudget;
use crate::Limits;

/// Maximum number of intervals a request waits for a slot.
const MAX_WAITS: u32 = 24;

/// The places of one connection.
#[derive(Clone)]
pub(crate) struct RequestSlots {
    free: Arc<Semaphore>,
    /// How many requests have ended.
    ended: Arc<AtomicU64>,
    limit: u32,
    wait: Duration,
}

/// The place of a request, which is free again when this is dropped.
pub(super) struct RequestSlot {
    _permit: OwnedSemaphorePermit,
    ended: Arc<AtomicU64>,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl RequestSlots {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            free: Arc::new(Semaphore::new(limits.streams as usize)),
            ended: Arc::default(),
            limit: limits.streams,
            wait: limits.stream_wait,
        }
    }

    /// Waits for a place.
    pub(super) async fn take(self) -> Result<RequestSlot, OverBudget> {
        let mut permit = std::pin::pin!(self.free.clone().acquire_owned());
        for _ in 0..MAX_WAITS {
            let before = self.ended.load(Ordering::Relaxed);
            match tokio::time::timeout(self.wait, permit.as_mut()).await {
                Ok(Ok(permit)) => {
                    return Ok(RequestSlot {
                        _permit: permit,
                        ended: self.ended,
                    });
                }
                Err(_) if self.ended.load(Ordering::Relaxed) != before => {}
                _ => break,
            }
        }
        let what = format!(
            "this connection has {} concurrent requests, streams included, and none ended within {} s; use another connection",
            self.limit,
            self.wait.as_secs()
        );
        Err(OverBudget::new(what, self.wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> RequestSlots {
        RequestSlots::new(&Limits {
            streams: 2,
            ..Limits::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn request_without_a_place_is_refused_after_its_wait() {
        let places = two();
        let first = places.clone().take().await.unwrap();
        let _second = places.clone().take().await.unwrap();
        let Err(over) = places.clone().take().await else {
            panic!("there are two places");
        };
        assert!(over.what.contains("2 concurrent requests"), "{}", over.what);
        let waiting = tokio::spawn(places.take());
        drop(first);
        assert!(waiting.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn burst_of_short_requests_waits_for_as_long_as_others_end() {
        let places = two();
        let burst = (0..30).map(|_| {
            let places = places.clone();
            tokio::spawn(async move {
                let place = places.take().await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                place.is_ok()
            })
        });
        for one in burst.collect::<Vec<_>>() {
            assert!(one.await.unwrap());
        }
    }
}
