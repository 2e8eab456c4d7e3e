//! A virtual machine as it is printed, and what it is asked to be as it is
//! written down.

use std::collections::BTreeMap;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use strata_api::strata::v1;
use strata_api::strata::v1::vm_spec::Boot;

use super::cell::UsageView;
use super::pod::{state_style, state_word};
use super::{Restart, text, time_ms};
use crate::output::{Column, Show, TableCell, human};
use crate::values::{Bytes, Millicpus, Span, VmDiskArg};

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What a virtual machine is asked to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VmSpecView {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) cpus: u32,
    /// How much cpu time it may use. Default: that of its cpus.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) cpu: Option<Millicpus>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) memory: Option<Bytes>,
    /// A disk image to boot from; else a kernel.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) image: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) kernel: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) initrd: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) command_line: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) disk_size: Option<Bytes>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) disks: Vec<VmDiskArg>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) machine: MachineKind,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) accelerator: Accelerator,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) no_network: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) address: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) ports: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) restart: Restart,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) stop_grace: Option<Span>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) user_data: Option<String>,
    /// No wish but an observation: read over.
    #[serde(default, skip_serializing, rename = "status")]
    pub(crate) _status: IgnoredAny,
}

impl VmSpecView {
    /// With what the node fills in where nothing is said.
    pub(crate) fn with_defaults(self) -> Self {
        Self {
            cpus: self.cpus.max(1),
            memory: self.memory.or(Some(Bytes(512 << 20))),
            stop_grace: self.stop_grace.or(Some(Span::from_millis(30_000))),
            ..self
        }
    }
}

/// Machine type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MachineKind {
    /// Chosen by the node.
    #[default]
    Auto,
    /// `q35`: a PC.
    Q35,
    /// `microvm`: minimal, for direct kernel boot.
    #[value(name = "microvm")]
    MicroVm,
}

/// Accelerator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Accelerator {
    /// KVM where it works, else TCG.
    #[default]
    Auto,
    /// KVM: hardware virtualisation.
    Kvm,
    /// TCG: software emulation.
    Tcg,
}

impl Accelerator {
    fn from_wire(accelerator: v1::VmAccelerator) -> Self {
        match accelerator {
            v1::VmAccelerator::Auto => Self::Auto,
            v1::VmAccelerator::Kvm => Self::Kvm,
            v1::VmAccelerator::Tcg => Self::Tcg,
        }
    }

    /// As people write it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

impl From<v1::VmSpec> for VmSpecView {
    fn from(spec: v1::VmSpec) -> Self {
        let (machine, accelerator) = (spec.machine(), spec.accelerator());
        let restart = Restart::from_wire(spec.restart());
        let size = |bytes: u64| (bytes != 0).then_some(Bytes(bytes));
        let mut view = Self {
            name: spec.name,
            cpus: spec.cpus,
            cpu: (spec.cpu_millis != 0).then_some(Millicpus(spec.cpu_millis)),
            memory: size(spec.memory_bytes),
            disk_size: size(spec.disk_bytes),
            disks: spec.disks.iter().map(VmDiskArg::from_wire).collect(),
            machine: match machine {
                v1::VmMachine::Auto => MachineKind::Auto,
                v1::VmMachine::Q35 => MachineKind::Q35,
                v1::VmMachine::Microvm => MachineKind::MicroVm,
            },
            accelerator: Accelerator::from_wire(accelerator),
            no_network: spec.no_network,
            address: text(spec.address),
            ports: spec.ports,
            restart,
            stop_grace: spec.stop_grace_ms.map(Span::from_millis),
            labels: spec.labels.into_iter().collect(),
            user_data: text(spec.user_data),
            ..Default::default()
        };
        match spec.boot {
            Some(Boot::Image(image)) => view.image = text(image),
            Some(Boot::Kernel(kernel)) => {
                view.kernel = text(kernel.kernel);
                view.initrd = text(kernel.initrd);
                view.command_line = text(kernel.command_line);
            }
            None => {}
        }
        view
    }
}

impl From<VmSpecView> for v1::VmSpec {
    fn from(view: VmSpecView) -> Self {
        let size = |bytes: Option<Bytes>| bytes.map_or(0, |Bytes(n)| n);
        let kernel = view.kernel.map(|kernel| {
            Boot::Kernel(v1::VmKernel {
                kernel,
                initrd: view.initrd.unwrap_or_default(),
                command_line: view.command_line.unwrap_or_default(),
            })
        });
        Self {
            name: view.name,
            cpus: view.cpus,
            cpu_millis: view.cpu.map_or(0, |Millicpus(n)| n),
            memory_bytes: size(view.memory),
            boot: view.image.map(Boot::Image).or(kernel),
            disk_bytes: size(view.disk_size),
            disks: view.disks.into_iter().map(VmDiskArg::into_wire).collect(),
            machine: match view.machine {
                MachineKind::Auto => v1::VmMachine::Auto,
                MachineKind::Q35 => v1::VmMachine::Q35,
                MachineKind::MicroVm => v1::VmMachine::Microvm,
            }
            .into(),
            accelerator: match view.accelerator {
                Accelerator::Auto => v1::VmAccelerator::Auto,
                Accelerator::Kvm => v1::VmAccelerator::Kvm,
                Accelerator::Tcg => v1::VmAccelerator::Tcg,
            }
            .into(),
            no_network: view.no_network,
            address: view.address.unwrap_or_default(),
            ports: view.ports,
            restart: view.restart.into_wire().into(),
            stop_grace_ms: view.stop_grace.map(Span::millis_u32),
            labels: view.labels.into_iter().collect(),
            user_data: view.user_data.unwrap_or_default(),
        }
    }
}

/// A virtual machine: what it was asked to be, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct VmView {
    #[serde(flatten)]
    pub(crate) spec: VmSpecView,
    pub(crate) status: VmStatusView,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct VmStatusView {
    /// As that of a pod.
    pub(crate) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mac: Option<String>,
    pub(crate) accelerator: Accelerator,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process_id: Option<i64>,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    /// How QEMU last ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    pub(crate) restarts: u32,
    pub(crate) usage: UsageView,
    pub(crate) disk_bytes: u64,
}

impl VmView {
    /// Whether it is switched on.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.status.state, "starting" | "running" | "stopping")
    }

    /// Whether it was switched off, from inside or because it was told to.
    pub(crate) fn succeeded(&self) -> bool {
        match self.status.state {
            "exited" => self.status.exit_code == Some(0),
            state => matches!(state, "created" | "stopped"),
        }
    }

    /// How it is, or how it ended, for people.
    pub(crate) fn outcome(&self) -> String {
        let status = &self.status;
        match (status.state, &status.reason) {
            ("exited", _) if self.succeeded() => "powered off".to_owned(),
            ("exited" | "failed" | "waiting", Some(reason)) => reason.clone(),
            (state, _) => state.to_owned(),
        }
    }

    /// What a watcher wants to see again when it changes.
    pub(crate) fn summary(&self) -> impl PartialEq + use<> {
        let s = &self.status;
        (
            s.state,
            s.reason.clone(),
            s.id.clone(),
            s.restarts,
            s.address.clone(),
        )
    }
}

impl From<v1::Vm> for VmView {
    fn from(vm: v1::Vm) -> Self {
        Self {
            status: VmStatusView {
                state: state_word(vm.state()),
                accelerator: Accelerator::from_wire(vm.accelerator()),
                reason: text(vm.reason),
                id: vm.id,
                address: text(vm.address),
                mac: text(vm.mac),
                process_id: (vm.process_id > 0).then_some(vm.process_id),
                created_at: time_ms(vm.created_at_ms),
                started_at: time_ms(vm.started_at_ms),
                ended_at: time_ms(vm.ended_at_ms),
                exit_code: vm.exit_code,
                signal: vm.signal,
                restarts: vm.restarts,
                usage: vm.usage.unwrap_or_default().into(),
                disk_bytes: vm.disk_bytes,
            },
            spec: vm.spec.unwrap_or_default().into(),
        }
    }
}

impl Show for VmView {
    fn reference(&self) -> String {
        format!("vm/{}", self.spec.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("STATE"),
            Column::figures("CPUS"),
            Column::figures("MEMORY"),
            Column::new("ADDRESS"),
            Column::text("PORTS"),
        ];
        if wide {
            columns.extend([
                Column::new("ACCELERATOR"),
                Column::new("MAC"),
                Column::figures("DISK"),
                Column::figures("RESTARTS"),
                Column::figures("PID"),
                Column::text("BOOT"),
                Column::text("REASON"),
            ]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let (spec, status) = (&self.spec, &self.status);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let memory = spec.memory.map(|Bytes(n)| human::bytes(n));
        let mut row = vec![
            TableCell::from(&spec.name),
            TableCell::styled(status.state, state_style(status.state)),
            spec.cpus.max(1).to_string().into(),
            or_dash(memory).into(),
            or_dash(status.address.clone()).into(),
            or_dash(text(spec.ports.join(","))).into(),
        ];
        if wide {
            row.extend([
                TableCell::from(status.accelerator.word()),
                or_dash(status.mac.clone()).into(),
                human::bytes(status.disk_bytes).into(),
                status.restarts.to_string().into(),
                or_dash(status.process_id.map(|pid| pid.to_string())).into(),
                or_dash(spec.image.clone().or_else(|| spec.kernel.clone())).into(),
                or_dash(status.reason.clone()).into(),
            ]);
        }
        row.push(human::age(status.created_at, now).into());
        row
    }
}
