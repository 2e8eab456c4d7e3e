//! Cell limits as files of cgroup v1.

use strata_types::{CellSpec, IoLimit};

use super::{CgroupSetting, Unsupported};

/// What to write, and where, for a cell. `device` finds a device's numbers.
pub(super) fn settings(
    spec: &CellSpec,
    device: impl Fn(&IoLimit) -> Result<(u32, u32), Unsupported>,
) -> Result<Vec<CgroupSetting>, Unsupported> {
    let limits = &spec.limits;
    let mut all = vec![CgroupSetting::new(
        "cpu",
        "cpu.shares",
        spec.cpu_shares.get(),
    )];
    if let Some(cpu) = limits.cpu {
        all.push(CgroupSetting::new(
            "cpu",
            "cpu.cfs_period_us",
            cpu.period_us,
        ));
        all.push(CgroupSetting::new("cpu", "cpu.cfs_quota_us", cpu.quota_us));
    }
    if let Some(cpus) = &limits.cpuset {
        all.push(CgroupSetting::new("cpuset", "cpuset.cpus", cpus));
    }
    if limits.memory.high.is_some() {
        return Err(Unsupported {
            field: "cell.options.memory.high",
            why: "needs cgroup v2, and this machine runs v1; use max".into(),
        });
    }
    if let Some(low) = limits.memory.low {
        all.push(CgroupSetting::new(
            "memory",
            "memory.soft_limit_in_bytes",
            low,
        ));
    }
    if let Some(max) = limits.memory.max {
        all.push(CgroupSetting::new("memory", "memory.limit_in_bytes", max));
        // Without this the cell would go on in swap.
        let mut swap = CgroupSetting::new("memory", "memory.memsw.limit_in_bytes", max);
        swap.optional = true;
        all.push(swap);
    }
    if let Some(pids) = limits.pids_max {
        all.push(CgroupSetting::new("pids", "pids.max", pids));
    }
    for limit in &limits.io {
        let (major, minor) = device(limit)?;
        let files = [
            ("blkio.throttle.read_bps_device", limit.read_bps),
            ("blkio.throttle.write_bps_device", limit.write_bps),
            ("blkio.throttle.read_iops_device", limit.read_iops),
            ("blkio.throttle.write_iops_device", limit.write_iops),
        ];
        for (file, value) in files {
            if let Some(value) = value {
                all.push(CgroupSetting::new(
                    "blkio",
                    file,
                    format!("{major}:{minor} {value}"),
                ));
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use strata_types::{CpuLimit, DeviceRef, MemoryLimit};

    use super::*;

    fn spec() -> CellSpec {
        CellSpec::named("web".parse().unwrap())
    }

    #[test]
    fn every_limit_has_its_file() {
        let mut spec = spec();
        spec.limits.cpu = Some(CpuLimit {
            quota_us: 50_000,
            period_us: 100_000,
        });
        spec.limits.cpuset = Some("0-1".to_owned().try_into().unwrap());
        spec.limits.memory = MemoryLimit {
            low: Some(1),
            high: None,
            max: Some(2),
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
                "cpu.shares=1024",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=50000",
                "cpuset.cpus=0-1",
                "memory.soft_limit_in_bytes=1",
                "memory.limit_in_bytes=2",
                "memory.memsw.limit_in_bytes=2",
                "pids.max=7",
                "blkio.throttle.read_bps_device=8:0 1000",
                "blkio.throttle.write_iops_device=8:0 5",
            ]
        );
    }

    #[test]
    fn limits_that_cgroup_v1_lacks_are_refused_by_name() {
        let mut spec = spec();
        spec.limits.memory.high = Some(1 << 30);
        let error = settings(&spec, |_| Ok((0, 0))).unwrap_err();
        assert_eq!(error.field, "cell.options.memory.high");
    }
}
