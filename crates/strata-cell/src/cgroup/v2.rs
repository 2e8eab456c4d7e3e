//! Cell limits as files of cgroup v2.

use strata_types::{CellSpec, IoLimit};

use super::{CgroupSetting, Unsupported};

/// The group of a cell's init: processes live in leaves alone in v2.
pub(super) const LEAF: &str = "_init";
/// What is handed down to the groups below, where the kernel has it.
pub(super) const CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "io", "memory", "pids"];

/// What to write for a cell. `device` finds a device's numbers.
pub(super) fn settings(
    spec: &CellSpec,
    device: impl Fn(&IoLimit) -> Result<(u32, u32), Unsupported>,
) -> Result<Vec<CgroupSetting>, Unsupported> {
    let limits = &spec.limits;
    let mut all = vec![CgroupSetting::new(
        "cpu",
        "cpu.weight",
        spec.cpu_shares.weight(),
    )];
    if let Some(cpu) = limits.cpu {
        let value = format!("{} {}", cpu.quota_us, cpu.period_us);
        all.push(CgroupSetting::new("cpu", "cpu.max", value));
    }
    if let Some(cpus) = &limits.cpuset {
        all.push(CgroupSetting::new("cpuset", "cpuset.cpus", cpus));
    }
    let memory = [
        ("memory.low", limits.memory.low),
        ("memory.high", limits.memory.high),
        ("memory.max", limits.memory.max),
    ];
    for (file, value) in memory {
        if let Some(value) = value {
            all.push(CgroupSetting::new("memory", file, value));
        }
    }
    if limits.memory.max.is_some() {
        // Without this the cell would go on in swap.
        let mut swap = CgroupSetting::new("memory", "memory.swap.max", 0);
        swap.optional = true;
        all.push(swap);
    }
    if let Some(pids) = limits.pids_max {
        all.push(CgroupSetting::new("pids", "pids.max", pids));
    }
    for limit in &limits.io {
        let (major, minor) = device(limit)?;
        let keys = [
            ("rbps", limit.read_bps),
            ("wbps", limit.write_bps),
            ("riops", limit.read_iops),
            ("wiops", limit.write_iops),
        ];
        let mut value = format!("{major}:{minor}");
        for (key, figure) in keys {
            if let Some(figure) = figure {
                value.push_str(&format!(" {key}={figure}"));
            }
        }
        all.push(CgroupSetting::new("io", "io.max", value));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use strata_types::{CpuLimit, DeviceRef, MemoryLimit};

    use super::*;

    #[test]
    fn every_limit_has_its_file() {
        let mut spec = CellSpec::named("web".parse().unwrap());
        spec.limits.cpu = Some(CpuLimit {
            quota_us: 50_000,
            period_us: 100_000,
        });
        spec.limits.cpuset = Some("1".to_owned().try_into().unwrap());
        spec.limits.memory = MemoryLimit {
            low: Some(1),
            high: Some(2),
            max: Some(3),
        };
        spec.limits.pids_max = Some(7);
        spec.limits.io = vec![IoLimit {
            device: DeviceRef::Number(8, 0),
            read_bps: Some(1000),
            write_bps: None,
            read_iops: None,
            write_iops: Some(5),
        }];
        let settings = settings(&spec, |_| Ok((8, 0))).unwrap();
        let shown: Vec<_> = settings
            .iter()
            .map(|s| format!("{}={}", s.file, s.value))
            .collect();
        assert_eq!(
            shown,
            [
                "cpu.weight=100",
                "cpu.max=50000 100000",
                "cpuset.cpus=1",
                "memory.low=1",
                "memory.high=2",
                "memory.max=3",
                "memory.swap.max=0",
                "pids.max=7",
                "io.max=8:0 rbps=1000 wiops=5",
            ]
        );
    }
}
