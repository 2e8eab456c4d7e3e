//! What is the same for all kinds of units: their events and their usage.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use strata_tasks::spawn_detached;
use strata_types::{Error, Result};
use tokio::sync::mpsc;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::wrappers::{BroadcastStream, ReceiverStream};
use tonic::Status;

use super::sampling::sample;
use crate::units::{Event, Unit, UnitKind, Units};

/// A stream of answers.
pub(super) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Events of units, as far as requested; `missed` reports events that a slow
/// listener did not get.
pub(super) fn events<K: UnitKind, T: Send + 'static>(
    units: &Units<K>,
    wanted: String,
    history: bool,
    view: fn(&Event) -> T,
    missed: fn(u64) -> T,
) -> Result<Answers<T>> {
    if !wanted.is_empty() {
        units.find("name", &wanted)?;
    }
    let (past, live) = units.events().listen();
    let past = if history { past } else { Vec::new() };
    let past = futures_util::stream::iter(past.into_iter().map(Ok));
    let all = past.chain(BroadcastStream::new(live));
    let events = all.filter_map(move |event| {
        let event = match event {
            Ok(event) => {
                let asked_for = wanted.is_empty() || *event.name == *wanted;
                asked_for.then(|| Ok(view(&event)))
            }
            Err(BroadcastStreamRecvError::Lagged(n)) => Some(Ok(missed(n))),
        };
        std::future::ready(event)
    });
    Ok(Box::pin(events))
}

/// A look at all units, or at one, once at each interval.
pub(super) fn stats<K: UnitKind, T: Send + 'static>(
    units: &Units<K>,
    name: String,
    interval_ms: Option<u32>,
    look: fn(&[Arc<Unit<K>>]) -> T,
) -> Result<Answers<T>> {
    let interval = interval_ms.unwrap_or(1000);
    if !(100..=60_000).contains(&interval) {
        let why = format!("is {interval}; 100 to 60000 are allowed");
        return Err(Error::invalid("interval_ms", why));
    }
    if !name.is_empty() {
        units.find("name", &name)?;
    }
    let (sender, stream) = mpsc::channel(1);
    let units = units.clone();
    spawn_detached("unit-stats", async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(interval.into()));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = sender.closed() => return,
            }
            let mut wanted = units.list();
            wanted.retain(|unit| {
                name.is_empty() || K::name(&unit.record().spec).as_str() == name.as_str()
            });
            let seen = sample(|| look(&wanted)).await;
            if sender.send(Ok(seen)).await.is_err() {
                return;
            }
        }
    });
    Ok(Box::pin(ReceiverStream::new(stream)))
}
