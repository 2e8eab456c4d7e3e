//! What happens to pods, and what they use.

use strata_api::strata::v1;
use strata_types::Result;

use super::{Answers, views};
use crate::api::units;
use crate::clock::now_ms;
use crate::pods::{PodRef, Pods};
use crate::units::Event;

pub(super) fn events(pods: &Pods, request: v1::WatchPodsRequest) -> Result<Answers<v1::PodEvent>> {
    units::events(pods, request.name, request.history, view, |missed| {
        v1::PodEvent {
            at_ms: now_ms(),
            missed,
            ..v1::PodEvent::default()
        }
    })
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
    units::stats(pods, request.name, request.interval_ms, look)
}

fn look(pods: &[PodRef]) -> v1::PodStats {
    v1::PodStats {
        pods: pods.iter().map(views::stat).collect(),
        observed_at_ms: now_ms(),
    }
}
