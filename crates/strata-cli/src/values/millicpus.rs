//! Cpus in thousandths: `0.5` and `500m` are the same half.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Thousandths of a cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Millicpus(pub(crate) u32);

const MAX_MILLICPUS: f64 = 8_192_000.0;

impl Millicpus {
    fn from_cpus(cpus: f64) -> Result<Self, String> {
        let thousandths = (cpus * 1000.0).round();
        if (10.0..=MAX_MILLICPUS).contains(&thousandths) {
            return Ok(Self(thousandths as u32));
        }
        Err(format!(
            "{cpus} CPUs is out of range; it must be 0.01 to 8192"
        ))
    }
}

impl FromStr for Millicpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, divisor) = match text.strip_suffix('m') {
            Some(number) => (number, 1000.0),
            None => (text, 1.0),
        };
        let digits = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        match number.parse::<f64>() {
            Ok(cpus) if digits => Self::from_cpus(cpus / divisor),
            _ => Err(format!(
                "{text:?} is not a number of CPUs such as 1.5 or 500m"
            )),
        }
    }
}

/// As a number of cpus.
impl fmt::Display for Millicpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 1000.0)
    }
}

/// As a number of cpus.
impl Serialize for Millicpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.0) / 1000.0)
    }
}

impl<'de> Deserialize<'de> for Millicpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Millicpus;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of CPUs such as 1.5 or 500m")
            }

            fn visit_f64<E: de::Error>(self, cpus: f64) -> Result<Millicpus, E> {
                Millicpus::from_cpus(cpus).map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, cpus: u64) -> Result<Millicpus, E> {
                self.visit_f64(cpus as f64)
            }

            fn visit_i64<E: de::Error>(self, cpus: i64) -> Result<Millicpus, E> {
                self.visit_f64(cpus as f64)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Millicpus, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_ways_of_writing_mean_the_same() {
        for (text, thousandths) in [("0.5", 500), ("500m", 500), ("2", 2000), (".25", 250)] {
            assert_eq!(text.parse(), Ok(Millicpus(thousandths)), "{text}");
        }
        for bad in ["", "m", "0", "1m", "-1", "1e2", "inf", "9000", "1.5x", "."] {
            assert!(bad.parse::<Millicpus>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn every_share_comes_back_as_it_was(thousandths in 10u32..8_192_000) {
            let cpus = Millicpus(thousandths);
            prop_assert_eq!(cpus.to_string().parse(), Ok(cpus));
            prop_assert_eq!(format!("{thousandths}m").parse(), Ok(cpus));
        }

        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = text.parse::<Millicpus>();
        }
    }
}
