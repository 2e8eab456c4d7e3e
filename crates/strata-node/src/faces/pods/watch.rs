//! What happens to pods, and what they use.

use std::time::Duration;

use futures_util::StreamExt as _;
use strata_api::strata::v1;
use strata_types::{Error, Result};
use tokio::sync::mpsc;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::wrappers::{BroadcastStream, ReceiverStream};

use super::{Answers, views};
use crate::clock::now_ms;
use crate::pods::Pods;
use crate::units::Event;

pub(super) fn events(pods: &Pods, request: v1::WatchPodsRequest) -> Result<Answers<v1::PodEvent>> {
    if !request.name.is_empty() {
        pods.find("name", &request.name)?;
    }
    let (past, live) = pods.events().listen();
    let past = if request.history { past } else { Vec::new() };
    let past = futures_util::stream::iter(past.into_iter().map(Ok));
    let all = past.chain(BroadcastStream::new(live));
    let wanted = request.name;
    let events = all.filter_map(move |event| {
        let event = match event {
            Ok(event) => {
                let asked_for = wanted.is_empty() || *event.name == *wanted;
                asked_for.then(|| Ok(view(&event)))
            }
            Err(BroadcastStreamRecvError::Lagged(missed)) => Some(Ok(v1::PodEvent {
                at_ms: now_ms(),
                missed,
                ..v1::PodEvent::default()
            })),
        };
        std::future::ready(event)
    });
    Ok(Box::pin(events))
}

fn view(event: &Event) -> v1::PodEvent {
    v1::PodEvent {
        at_ms: event.at_ms,
        pod: event.name.to_string(),
        pod_id: event.id.to_string(),
        state: v1::PodState::from(event.state).into(),
        message: event.message.to_string(),
        missed: 0,
    }
}

pub(super) fn stats(pods: &Pods, request: v1::PodStatsRequest) -> Result<Answers<v1::PodStats>> {
    let interval = request.interval_ms.unwrap_or(1000);
    if !(100..=60_000).contains(&interval) {
        let why = format!("is {interval}; 100 to 60000 are allowed");
        return Err(Error::invalid("interval_ms", why));
    }
    if !request.name.is_empty() {
        pods.find("name", &request.name)?;
    }
    let (sender, stream) = mpsc::channel(1);
    let (pods, name) = (pods.clone(), request.name);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(interval.into()));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = sender.closed() => return,
            }
            let wanted = pods
                .list()
                .into_iter()
                .filter(|pod| name.is_empty() || pod.record().spec.name.as_str() == name);
            let view = v1::PodStats {
                pods: wanted.map(|pod| views::stat(&pod)).collect(),
                observed_at_ms: now_ms(),
            };
            if sender.send(Ok(view)).await.is_err() {
                return;
            }
        }
    });
    Ok(Box::pin(ReceiverStream::new(stream)))
}
