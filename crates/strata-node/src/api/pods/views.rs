//! A pod as the wire shows it.

use strata_api::strata::v1;
use strata_types::Ending;

use crate::api::views::split;
use crate::blocking::blocking;
use crate::clock::ms;
use crate::pods::PodRef;
use crate::units::{Health, UnitKind as _};

pub(super) fn pod(pod: &PodRef) -> v1::Pod {
    let (record, view) = (pod.record(), pod.view());
    let main = view.main.as_ref().map(|main| (main.pid, main.view()));
    let ending = main.and_then(|(_, run)| run.ending);
    let (exit_code, signal) = ending.map_or((None, None), split);
    v1::Pod {
        spec: Some((&record.spec).into()),
        state: v1::PodState::from(view.state).into(),
        reason: view.reason,
        id: record.id,
        image_digest: record.allocated.image_digest,
        address: record
            .allocated
            .address
            .map(|a| a.to_string())
            .unwrap_or_default(),
        process_id: main
            .filter(|(_, run)| !run.is_over())
            .map_or(0, |(pid, _)| pid),
        created_at_ms: record.created_at_ms,
        started_at_ms: main.map_or(0, |(_, run)| ms(run.started_ns)),
        ended_at_ms: main.map_or(0, |(_, run)| ms(run.ended_ns)),
        exit_code,
        signal,
        out_of_memory: ending == Some(Ending::OutOfMemory),
        restarts: record.restarts,
        next_start_at_ms: view.next_start_at_ms,
        health: health(view.health).into(),
        usage: None,
    }
}

/// The same with what it uses now, which takes a look at the machine.
pub(super) fn pod_with_usage(pod: &PodRef) -> v1::Pod {
    v1::Pod {
        usage: usage(pod),
        ..self::pod(pod)
    }
}

fn health(health: Health) -> v1::PodHealth {
    match health {
        Health::Unknown => v1::PodHealth::Unspecified,
        Health::Starting => v1::PodHealth::Starting,
        Health::Healthy => v1::PodHealth::Healthy,
        Health::Unhealthy => v1::PodHealth::Unhealthy,
    }
}

/// What a pod uses of the machine.
pub(super) fn usage(pod: &PodRef) -> Option<v1::PodUsage> {
    let record = pod.record();
    let kind = pod.kind().ok()?;
    let cell = kind
        .cells
        .find("name", &record.spec.name.label().clone().into())
        .ok();
    blocking(|| {
        let disk = kind
            .rootfs_builder
            .roots
            .usage(&record.id)
            .map_or(0, |usage| usage.bytes);
        let init = cell.as_ref().map_or(0, |cell| cell.init_pid());
        let (received, sent) = traffic(init).unwrap_or_default();
        Some(v1::PodUsage {
            cell: cell
                .as_ref()
                .map(|cell| crate::api::views::usage(&cell.usage())),
            disk_bytes: disk,
            network_received_bytes: received,
            network_sent_bytes: sent,
        })
    })
}

/// Bytes in and out of `eth0`, as the pod's own network namespace counts.
fn traffic(init: i64) -> Option<(u64, u64)> {
    if init == 0 {
        return None;
    }
    let text = std::fs::read_to_string(format!("/proc/{init}/net/dev")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("eth0:"))?;
    let mut fields = line.split_whitespace().map(|field| field.parse().ok());
    Some((fields.next()??, fields.nth(7)??))
}

/// One line of the figures of all pods.
pub(super) fn stat(pod: &PodRef) -> v1::PodStat {
    let record = pod.record();
    v1::PodStat {
        name: crate::pods::PodKind::name(&record.spec).to_string(),
        state: v1::PodState::from(pod.view().state).into(),
        usage: usage(pod),
        limits: Some((&record.spec.limits).into()),
    }
}
