//! How large machines are that were never up, as far as their providers know:
//! lists of hypervisors and the choice of machines for a cluster have amounts
//! before a machine is measured.

use strata_machines::Discovered;
use strata_types::machine::{MachineSpec, ProviderKind};

use crate::core::{Core, Machine};

/// Notes the sizes of what a provider has found.
pub(super) async fn observe(core: &Core, provider: ProviderKind, found: &[Discovered]) {
    let is_unknown = |machine: &Machine| {
        let (cpu, ram) = (machine.cpu, machine.ram);
        machine.spec.provider == provider
            && (cpu.or(machine.spec.cpu).is_none() || ram.or(machine.spec.ram).is_none())
    };
    for machine in core.machines().iter().filter(|machine| is_unknown(machine)) {
        let Some(size) = only(found, machine.id.as_str(), &machine.spec) else {
            continue;
        };
        if (machine.cpu.or(size.cpu), machine.ram.or(size.ram)) == (machine.cpu, machine.ram) {
            continue;
        }
        let noted = core.lead_machine(machine.id.as_str(), |now| {
            let mut next = now.clone();
            // What was measured meanwhile is better known.
            next.cpu = now.cpu.or(size.cpu);
            next.ram = now.ram.or(size.ram);
            Ok(next)
        });
        if let Err(error) = noted.await {
            tracing::debug!(machine = %machine.id, %error, "size of the machine not saved");
        }
    }
}

/// The one machine of a provider that a specification means; none where it may
/// be another, as with one name in two regions.
fn only<'a>(found: &'a [Discovered], id: &str, spec: &MachineSpec) -> Option<&'a Discovered> {
    let address = spec.address.trim_end_matches('/');
    let is_it = |one: &&Discovered| {
        let below = one.handle.strip_prefix(address);
        match (below, spec.handle.as_str()) {
            // The only one of its management interface, or of its own name.
            (Some(below), "") if !address.is_empty() => below.starts_with('/'),
            (_, "") => one.handle == id,
            (Some(below), handle) if below == handle => true,
            (_, handle) => one.handle == handle,
        }
    };
    let mut all = found.iter().filter(is_it);
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use strata_types::machine::PowerState;

    use super::*;

    fn found(handles: &[&str]) -> Vec<Discovered> {
        let one = |handle: &&str| Discovered {
            handle: (*handle).to_owned(),
            hostname: None,
            tag: None,
            power: PowerState::Off,
            cpu: Some(8),
            ram: Some(16_000),
        };
        handles.iter().map(one).collect()
    }

    fn meant(handles: &[&str], address: &str, handle: &str) -> Option<String> {
        let spec = MachineSpec {
            provider: ProviderKind::Redfish,
            handle: handle.into(),
            address: address.into(),
            credentials: String::new(),
            cpu: None,
            ram: None,
            disk: None,
            labels: Default::default(),
        };
        only(&found(handles), "m1", &spec).map(|one| one.handle.clone())
    }

    #[test]
    fn only_a_machine_that_is_meant_beyond_doubt_has_a_size() {
        let bmcs = [
            "https://10.0.9.7/redfish/v1/Systems/1",
            "https://10.0.9.7/redfish/v1/Systems/2",
            "https://10.0.9.70/redfish/v1/Systems/1",
        ];
        let system = "/redfish/v1/Systems/1";
        assert_eq!(meant(&bmcs, "https://10.0.9.7/", system).unwrap(), bmcs[0]);
        assert_eq!(meant(&bmcs, "", bmcs[1]).unwrap(), bmcs[1]);
        assert_eq!(meant(&bmcs, "https://10.0.9.70", "").unwrap(), bmcs[2]);
        assert_eq!(meant(&bmcs, "https://10.0.9.7", ""), None);
        assert_eq!(meant(&["aaa111", "m1"], "", "aaa111").unwrap(), "aaa111");
        assert_eq!(meant(&["aaa111", "m1"], "", "").unwrap(), "m1");
        // In two regions, or any of those with a tag.
        assert_eq!(meant(&["aaa111", "aaa111"], "", "aaa111"), None);
        assert_eq!(meant(&["aaa111"], "", "tag:big"), None);
    }
}
