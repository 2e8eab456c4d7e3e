//! A virtual machine as the wire shows it.

use strata_api::strata::v1;
use strata_types::Ending;

use crate::api::views::split;
use crate::blocking::blocking;
use crate::clock::{ms, now_ms};
use crate::units::Event;
use crate::vms::{VmRef, endpoint, usage};

pub(super) fn vm(vm: &VmRef) -> v1::Vm {
    let (record, known) = (vm.record(), vm.view());
    let kind = vm.kind().ok();
    let main = known.main.as_ref().map(|main| (main.pid, main.view()));
    let ending = main.and_then(|(_, run)| run.ending);
    let (exit_code, signal) = ending.map_or((None, None), split);
    let cell = kind.as_ref().and_then(|kind| {
        let name = record.spec.name.label().clone().into();
        kind.cells.find("name", &name).ok()
    });
    let uses_kvm = kind
        .as_ref()
        .and_then(|kind| kind.uses_kvm(record.spec.accel));
    let endpoint = endpoint(&record.spec, &record.allocated);
    v1::Vm {
        spec: Some((&record.spec).into()),
        state: v1::PodState::from(known.state).into(),
        reason: known.reason,
        address: record
            .allocated
            .address
            .map(|a| a.to_string())
            .unwrap_or_default(),
        mac: endpoint
            .map(|endpoint| endpoint.mac().to_string())
            .unwrap_or_default(),
        accelerator: match uses_kvm {
            Some(true) => v1::VmAccelerator::Kvm,
            Some(false) => v1::VmAccelerator::Tcg,
            None => v1::VmAccelerator::Auto,
        }
        .into(),
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
        usage: blocking(|| cell.map(|cell| crate::api::views::usage(&cell.usage()))),
        disk_bytes: kind.map_or(0, |kind| blocking(|| usage(&kind.dirs.join(&record.id)))),
        id: record.id,
    }
}

/// Something that happened to one.
pub(super) fn event(event: &Event) -> v1::VmEvent {
    v1::VmEvent {
        at_ms: event.at_ms,
        vm: event.name.to_string(),
        vm_id: event.id.to_string(),
        state: v1::PodState::from(event.state).into(),
        message: event.message.to_string(),
        missed: 0,
    }
}

/// What they use now.
pub(super) fn stats(vms: &[VmRef]) -> v1::VmStats {
    v1::VmStats {
        vms: blocking(|| vms.iter().map(stat).collect()),
        observed_at_ms: now_ms(),
    }
}

fn stat(machine: &VmRef) -> v1::VmStat {
    let vm = vm(machine);
    let (received, sent) = traffic(vm.process_id).unwrap_or_default();
    let spec = vm.spec.unwrap_or_default();
    v1::VmStat {
        name: spec.name,
        state: vm.state,
        usage: Some(v1::PodUsage {
            cell: vm.usage,
            disk_bytes: vm.disk_bytes,
            network_received_bytes: received,
            network_sent_bytes: sent,
        }),
        cpus: spec.cpus,
        memory_bytes: spec.memory_bytes,
    }
}

/// Bytes in and out of the guest's NIC. The kernel reports which interface is
/// behind an open file of QEMU, and counts at the other end of it.
fn traffic(qemu: i64) -> Option<(u64, u64)> {
    if qemu == 0 {
        return None;
    }
    let files = std::fs::read_dir(format!("/proc/{qemu}/fdinfo")).ok()?;
    let name = files.flatten().find_map(|file| {
        let text = std::fs::read_to_string(file.path()).ok()?;
        let mut lines = text.lines();
        Some(
            lines
                .find_map(|line| line.strip_prefix("iff:"))?
                .trim()
                .to_owned(),
        )
    })?;
    let text = std::fs::read_to_string("/proc/self/net/dev").ok()?;
    let prefix = format!("{name}:");
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.trim().strip_prefix(&prefix))?;
    let mut fields = line.split_whitespace().map(|field| field.parse().ok());
    let (sent, received) = (fields.next()??, fields.nth(7)??);
    Some((received, sent))
}
