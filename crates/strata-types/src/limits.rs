//! What a cell may use at most. A value that exists is valid: contradictions
//! are refused where the value is made.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Everything that is limited. What is `None` is not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    #[serde(default)]
    pub cpu: Option<CpuLimit>,
    #[serde(default)]
    pub cpuset: Option<CpuSet>,
    /// Bytes of memory.
    #[serde(default)]
    pub memory: MemoryLimit,
    /// Processes and threads.
    #[serde(default)]
    pub pids_max: Option<u64>,
    /// Traffic with block devices.
    #[serde(default)]
    pub io: Vec<IoLimit>,
}

/// `quota_us` of cpu time in each `period_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuLimit {
    /// Microseconds of cpu time in each period.
    pub quota_us: u64,
    /// Microseconds of a period.
    pub period_us: u64,
}

impl CpuLimit {
    const DEFAULT_PERIOD_US: u64 = 100_000;

    /// Checks quota and period as the kernel would, naming the field.
    pub fn from_fields(
        field: &str,
        quota_us: Option<u64>,
        period_us: Option<u64>,
    ) -> Result<Option<Self>, Error> {
        let period = period_us.unwrap_or(Self::DEFAULT_PERIOD_US);
        if !(1_000..=1_000_000).contains(&period) {
            return Err(Error::invalid(
                format!("{field}.period_us"),
                format!("is {period}; 1000 to 1000000 are allowed"),
            ));
        }
        match quota_us {
            None if period_us.is_some() => Err(Error::invalid(
                format!("{field}.period_us"),
                "means nothing without quota_us",
            )),
            None => Ok(None),
            Some(quota @ 1_000..=1_000_000_000_000) => Ok(Some(Self {
                quota_us: quota,
                period_us: period,
            })),
            Some(quota) => Err(Error::invalid(
                format!("{field}.quota_us"),
                format!("is {quota}; 1000 is the least, 1000000000000 the most"),
            )),
        }
    }
}

/// A set of cpus, written as `0-2,4`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    const MAX_CPU: u32 = 8191;

    /// The cpus in the set.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }
}

impl TryFrom<String> for CpuSet {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        let bad = || {
            let shown: String = text.chars().take(80).collect();
            Error::invalid(
                "cpuset",
                format!("{shown:?} is not a list of CPUs: expected one such as 0-2,4"),
            )
        };
        if text.len() > 4096 {
            return Err(bad());
        }
        let number = |part: &str| match part.parse::<u32>() {
            Ok(n) if n <= Self::MAX_CPU && part.bytes().all(|b| b.is_ascii_digit()) => Ok(n),
            _ => Err(bad()),
        };
        let mut cpus = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(bad());
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> Self {
        set.to_string()
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.cpus().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|&next| next == last + 1) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

/// Bytes of memory; low <= high <= max where they are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// Kept for the cell when the machine runs short.
    pub low: Option<u64>,
    /// Beyond this the cell is slowed down and reclaimed from.
    pub high: Option<u64>,
    /// Beyond this its processes are killed.
    pub max: Option<u64>,
}

impl MemoryLimit {
    /// The least that lets a cell's init and a small process live.
    const MIN_MAX: u64 = 1 << 20;

    /// Checks that the three do not contradict each other.
    pub fn from_fields(
        field: &str,
        low: Option<u64>,
        high: Option<u64>,
        max: Option<u64>,
    ) -> Result<Self, Error> {
        for (name, value) in [("low", low), ("high", high), ("max", max)] {
            if value.is_some_and(|v| v > i64::MAX as u64) {
                return Err(Error::invalid(
                    format!("{field}.{name}"),
                    "is more than any machine has",
                ));
            }
        }
        if let Some(max) = max.filter(|&max| max < Self::MIN_MAX) {
            return Err(Error::invalid(
                format!("{field}.max"),
                format!("is {max} bytes; {} is the least", Self::MIN_MAX),
            ));
        }
        let order = [("low", low), ("high", high), ("max", max)];
        let given: Vec<_> = order
            .iter()
            .filter_map(|(n, v)| v.map(|v| (n, v)))
            .collect();
        for pair in given.windows(2) {
            let [(small, a), (large, b)] = [pair[0], pair[1]];
            if a > b {
                return Err(Error::invalid(
                    format!("{field}.{small}"),
                    format!("is {a}, more than {large}, which is {b}"),
                ));
            }
        }
        Ok(Self { low, high, max })
    }
}

/// A block device, by number or by path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceRef {
    /// Major and minor number.
    Number(u32, u32),
    Path(String),
}

impl DeviceRef {
    /// Reads `8:0` or `/dev/sda` from the field `field`.
    pub fn from_field(field: &str, text: &str) -> Result<Self, Error> {
        let number = |s: &str| {
            s.parse::<u32>()
                .ok()
                .filter(|_| s.bytes().all(|b| b.is_ascii_digit()))
        };
        let parsed = text
            .split_once(':')
            .and_then(|(major, minor)| Some(Self::Number(number(major)?, number(minor)?)));
        let path = || {
            let plain = text.starts_with("/dev/") && !text.contains("..") && !text.contains('\0');
            (plain && text.len() < 256).then(|| Self::Path(text.to_owned()))
        };
        parsed.or_else(path).ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            Error::invalid(
                field,
                format!("{shown:?} is not a block device: expected one such as 8:0 or /dev/sda"),
            )
        })
    }
}

/// Traffic with one block device, per second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoLimit {
    pub device: DeviceRef,
    /// Bytes read.
    pub read_bps: Option<u64>,
    /// Bytes written.
    pub write_bps: Option<u64>,
    pub read_iops: Option<u64>,
    pub write_iops: Option<u64>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cpuset(text: &str) -> Result<CpuSet, Error> {
        CpuSet::try_from(text.to_owned())
    }

    #[test]
    fn cpusets_read_and_write() {
        assert_eq!(cpuset("0-2,4").unwrap().to_string(), "0-2,4");
        assert_eq!(cpuset("3,1,2,1").unwrap().to_string(), "1-3");
        for bad in ["", "-", "2-1", "a", "1,,2", "0-99999", "+1", " 1", "-1"] {
            assert!(cpuset(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn contradictions_in_memory_name_the_field() {
        let error = MemoryLimit::from_fields("m", Some(9 << 20), Some(8 << 20), None).unwrap_err();
        assert_eq!(error.field(), Some("m.low"));
        let error = MemoryLimit::from_fields("m", Some(9 << 20), None, Some(8 << 20)).unwrap_err();
        assert_eq!(error.field(), Some("m.low"));
        assert!(MemoryLimit::from_fields("m", None, None, Some(5)).is_err());
        assert!(MemoryLimit::from_fields("m", None, None, Some(u64::MAX)).is_err());
    }

    #[test]
    fn a_period_needs_a_quota() {
        let error = CpuLimit::from_fields("cpu", None, Some(50_000)).unwrap_err();
        assert_eq!(error.field(), Some("cpu.period_us"));
        assert!(CpuLimit::from_fields("cpu", Some(1), None).is_err());
        assert!(CpuLimit::from_fields("cpu", Some(50_000), Some(1)).is_err());
        assert_eq!(CpuLimit::from_fields("cpu", None, None).unwrap(), None);
    }

    #[test]
    fn devices_are_numbers_or_paths() {
        assert_eq!(
            DeviceRef::from_field("d", "8:16").unwrap(),
            DeviceRef::Number(8, 16)
        );
        assert!(DeviceRef::from_field("d", "/dev/vda").is_ok());
        for bad in [
            "",
            "sda",
            "8",
            "8:",
            ":1",
            "-1:0",
            "/dev/../etc/passwd",
            "/etc/passwd",
        ] {
            assert!(DeviceRef::from_field("d", bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_a_set_that_survives(text in "[0-9,\\- a-z]{0,40}") {
            if let Ok(set) = cpuset(&text) {
                prop_assert_eq!(cpuset(&set.to_string()).unwrap(), set);
            }
        }

        #[test]
        fn any_text_is_refused_or_a_device_under_dev(text in ".{0,300}") {
            match DeviceRef::from_field("d", &text) {
                Ok(DeviceRef::Path(path)) => {
                    prop_assert!(path.starts_with("/dev/") && !path.contains(".."));
                }
                Ok(DeviceRef::Number(major, minor)) => {
                    let shown = format!("{major}:{minor}");
                    prop_assert_eq!(DeviceRef::from_field("d", &shown).unwrap(), DeviceRef::Number(major, minor));
                }
                Err(error) => prop_assert!(error.to_string().len() < 600),
            }
        }

        #[test]
        fn memory_limits_are_ordered_or_refused(
            low in proptest::option::of(any::<u64>()),
            high in proptest::option::of(any::<u64>()),
            max in proptest::option::of(any::<u64>()),
        ) {
            if let Ok(memory) = MemoryLimit::from_fields("m", low, high, max) {
                let given: Vec<u64> = [memory.low, memory.high, memory.max].into_iter().flatten().collect();
                prop_assert!(given.is_sorted());
            }
        }
    }
}
