//! How many cpus' worth of time a cell gets: `1.5`.

use std::str::FromStr;

use serde::Deserialize;

/// A number of cpus in thousandths, so that it survives being written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "f64")]
pub(crate) struct Cpus(u32);

impl Cpus {
    const PERIOD_US: u64 = 100_000;
    const MAX: f64 = 8192.0;

    /// The quota in the default period of the wire.
    pub(crate) fn quota_us(self) -> u64 {
        u64::from(self.0) * Self::PERIOD_US / 1000
    }

    /// As a number of cpus, from a quota and a period.
    pub(crate) fn from_wire(quota_us: u64, period_us: Option<u64>) -> f64 {
        let period = period_us.filter(|p| *p > 0).unwrap_or(Self::PERIOD_US);
        (quota_us as f64 / period as f64 * 1000.0).round() / 1000.0
    }
}

impl TryFrom<f64> for Cpus {
    type Error = String;

    fn try_from(cpus: f64) -> Result<Self, String> {
        if (0.01..=Self::MAX).contains(&cpus) {
            Ok(Self((cpus * 1000.0).round() as u32))
        } else {
            Err(format!(
                "{cpus} CPUs is out of range; it must be 0.01 to 8192"
            ))
        }
    }
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(cpus) if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') => cpus.try_into(),
            _ => Err(format!("{text:?} is not a number of CPUs such as 1.5")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cpus_become_a_quota() {
        assert_eq!("1.5".parse::<Cpus>().unwrap().quota_us(), 150_000);
        assert_eq!(".25".parse::<Cpus>().unwrap().quota_us(), 25_000);
        for bad in ["", "0", "-1", "x", "1e2", "inf", "NaN", "9000", "."] {
            assert!(bad.parse::<Cpus>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_quota_reads_back_as_the_same_cpus(thousandths in 10u32..8_192_000) {
            let cpus = f64::from(thousandths) / 1000.0;
            let quota = cpus.to_string().parse::<Cpus>().unwrap().quota_us();
            prop_assert_eq!(Cpus::from_wire(quota, None), cpus);
        }
    }
}
