//! Sizes: `64MiB`, `64MB`, `1.5G`, `4096`. Letters alone count in thousands,
//! as everywhere in Strata; an `i` makes them count in 1024s.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Bytes(pub(crate) u64);

const UNITS: [(&str, u64); 16] = [
    ("", 1),
    ("b", 1),
    ("k", 1_000),
    ("kb", 1_000),
    ("ki", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1_000_000),
    ("mb", 1_000_000),
    ("mi", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1_000_000_000),
    ("gb", 1_000_000_000),
    ("gi", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1_000_000_000_000),
    ("ti", 1 << 40),
];
const LONG_UNITS: [(&str, u64); 2] = [("tb", 1_000_000_000_000), ("tib", 1 << 40)];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = |why: &str| {
            let shown: String = text.chars().take(40).collect();
            Err(format!("{shown:?} {why}"))
        };
        let split = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        if number.is_empty() {
            return refuse("is not a size; write a number with a unit, e.g. 64MiB, 64MB or 4096");
        }
        let unit = unit.trim_start().to_ascii_lowercase();
        let Some((_, factor)) = UNITS.iter().chain(&LONG_UNITS).find(|(u, _)| *u == unit) else {
            return refuse("has an unknown unit; use K, M, G, T or KiB, MiB, GiB, TiB");
        };
        match scaled(number, *factor) {
            Some(bytes) => Ok(Self(bytes)),
            None => refuse("is too large; the maximum is 16EiB"),
        }
    }
}

/// `number` times `factor`, exactly, rounded down to whole bytes.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    // Digits beyond these weigh less than a byte of any unit.
    let digits: String = fraction.chars().take(15).collect();
    let part = match digits.len() {
        0 => 0,
        places => {
            let numerator = u128::from(digits.parse::<u64>().ok()?) * u128::from(factor);
            u64::try_from(numerator / 10u128.pow(u32::try_from(places).ok()?)).ok()?
        }
    };
    whole.checked_mul(factor)?.checked_add(part)
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        let exact = [
            (1u64 << 40, "TiB"),
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
        ]
        .into_iter()
        .find(|(size, _)| n >= *size && n.is_multiple_of(*size));
        match exact {
            Some((size, unit)) => write!(f, "{}{unit}", n / size),
            None => write!(f, "{n}"),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 64MiB or a number of bytes")
            }

            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Bytes, E> {
                Ok(Bytes(n))
            }

            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Bytes, E> {
                u64::try_from(n)
                    .map(Bytes)
                    .map_err(|_| E::custom("a size is not negative"))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
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
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64MiB", 64 << 20),
            ("64Mi", 64 << 20),
            ("64mib", 64 << 20),
            ("64MB", 64_000_000),
            ("64 MB", 64_000_000),
            ("1G", 1_000_000_000),
            ("1.5GiB", 3 << 29),
            (".5k", 500),
            ("2TB", 2_000_000_000_000),
        ] {
            assert_eq!(text.parse::<Bytes>(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_rejected_with_the_format() {
        let why = |text: &str| text.parse::<Bytes>().unwrap_err();
        insta::assert_snapshot!(why("lots"), @r#""lots" is not a size; write a number with a unit, e.g. 64MiB, 64MB or 4096"#);
        insta::assert_snapshot!(why("64 lots"), @r#""64 lots" has an unknown unit; use K, M, G, T or KiB, MiB, GiB, TiB"#);
        insta::assert_snapshot!(why("99999999T"), @r#""99999999T" is too large; the maximum is 16EiB"#);
        for bad in [
            "",
            "-1",
            "1.2.3",
            ".",
            "1e3",
            "0x10",
            "1 2",
            "18446744073709551616",
        ] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn every_size_comes_back_as_it_was(n: u64) {
            prop_assert_eq!(Bytes(n).to_string().parse::<Bytes>(), Ok(Bytes(n)));
        }

        #[test]
        fn whole_units_are_exact(n in 0u64..16_000_000, unit in 0usize..16) {
            let (unit, factor) = UNITS[unit];
            prop_assert_eq!(format!("{n}{unit}").parse::<Bytes>().ok(), n.checked_mul(factor).map(Bytes));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Bytes>();
        }

        #[test]
        fn numbers_never_panic(text in "[0-9.]{0,30}[kmgtib]{0,3}") {
            let _ = text.parse::<Bytes>();
        }
    }
}
