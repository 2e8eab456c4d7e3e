//! What a machine's cell is like and what is started in it. Nothing here
//! touches the machine.

use std::time::Duration;

use strata_types::{
    CellSpec, CommandLine, CpuLimit, EnvironmentVariable, ExecutableSpec, Identity, Limits,
    MemoryLimit, Result, RootMode,
};

use super::NestedNodeKind;
use super::files::CONFIG;
use super::spec::NestedNodeSpec;
use super::{MAIN, SPAWNED, SPAWNED_CPU, SPAWNED_MEMORY};
use crate::units::UnitKind as _;

/// Where a machine finds the program of its node: that of the host node.
pub(super) const PROGRAM: &str = "/run/strata/bin/strata";
/// A machine gives what runs in it 8 s to end, and 2 s to be gone.
const STOP_GRACE: Duration = Duration::from_secs(12);

pub(super) fn cell(unit_spec: &NestedNodeSpec) -> CellSpec {
    let mut cell = CellSpec::named(NestedNodeKind::cell(unit_spec));
    cell.isolated_network = true;
    cell.root = RootMode::Handed;
    cell.limits = Limits {
        cpu: unit_spec.cpu_millis.map(|millis| CpuLimit {
            quota_us: u64::from(millis) * 100,
            period_us: 100_000,
        }),
        memory: MemoryLimit {
            max: unit_spec.memory,
            ..MemoryLimit::default()
        },
        ..Limits::default()
    };
    cell
}

/// Its PID 1. What it joins with goes into its environment, which is its own
/// and root's to read: arguments are readable by all.
pub(super) fn main(
    unit_spec: &NestedNodeSpec,
    hierarchies: &str,
    joined: bool,
) -> Result<ExecutableSpec> {
    let mut words = vec![PROGRAM, "node", "--config", CONFIG];
    let mut variables = vec![
        format!("{SPAWNED}={hierarchies}"),
        "HOME=/root".to_owned(),
        format!("HOSTNAME={}", unit_spec.name),
    ];
    // Its limits are those of groups that it does not see.
    variables.extend(
        unit_spec
            .memory
            .map(|bytes| format!("{SPAWNED_MEMORY}={bytes}")),
    );
    variables.extend(
        unit_spec
            .cpu_millis
            .map(|millis| format!("{SPAWNED_CPU}={millis}")),
    );
    if let Some(join) = &unit_spec.join {
        words.extend(["--server", &join.server]);
        if !joined {
            let name = join.node.as_ref().unwrap_or(&unit_spec.name);
            words.extend(["--name", name.as_str()]);
            variables.push(format!("STRATA_JOIN_TOKEN={}", join.token.expose()));
        }
    }
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    Ok(ExecutableSpec {
        name: MAIN.parse()?,
        cell: NestedNodeKind::cell(unit_spec),
        command: CommandLine::try_from(words)?,
        description: String::new(),
        environment: variables
            .into_iter()
            .map(EnvironmentVariable::try_from)
            .collect::<Result<_>>()?,
        identity: Identity::default(),
        working_directory: None,
        stop_grace: STOP_GRACE,
        stop_signal: 15,
        restart: ExecutableSpec::default_restart(),
    })
}
