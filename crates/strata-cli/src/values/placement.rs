//! What an instance asks of its place: `ssd=yes:10`, `2`, `2:a100`.

use std::str::FromStr;

use strata_types::instance::{GpuRequest, Preferred};

/// One `--prefer`: a test, and what meeting it is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreferArg(pub(crate) Preferred);

impl FromStr for PreferArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (test, weight) = match text.rsplit_once(':') {
            Some((test, weight)) => match weight.parse() {
                Ok(weight) => (test, weight),
                Err(_) => return Err(format!("{weight:?} is not a weight; write ssd=yes:10")),
            },
            None => (text, 1),
        };
        if test.trim().is_empty() {
            return Err(format!(
                "{text:?} is not a preference; write it as ssd=yes or ssd=yes:10"
            ));
        }
        let test = test.to_owned();
        Ok(Self(Preferred { test, weight }))
    }
}

/// `--gpus`: how many, and which kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GpuArg(pub(crate) GpuRequest);

impl FromStr for GpuArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (count, kind) = match text.split_once(':') {
            Some((count, kind)) if !kind.is_empty() => (count, Some(kind.to_owned())),
            _ => (text, None),
        };
        match count.parse() {
            Ok(count @ 1..) => Ok(Self(GpuRequest { count, kind })),
            _ => Err(format!(
                "{text:?} is not a number of GPUs such as 1 or 2:a100"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_have_a_weight() {
        let prefer = |text: &str| {
            text.parse::<PreferArg>()
                .map(|arg| (arg.0.test, arg.0.weight))
        };
        assert_eq!(prefer("ssd=yes:10"), Ok(("ssd=yes".into(), 10)));
        assert_eq!(prefer("ssd:-5"), Ok(("ssd".into(), -5)));
        assert_eq!(prefer("zone in (a, b)"), Ok(("zone in (a, b)".into(), 1)));
        for bad in ["", ":3", "ssd:", "ssd:much"] {
            assert!(prefer(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn gpus_are_counted() {
        let gpus = |text: &str| text.parse::<GpuArg>().map(|arg| (arg.0.count, arg.0.kind));
        assert_eq!(gpus("2"), Ok((2, None)));
        assert_eq!(gpus("1:a100"), Ok((1, Some("a100".into()))));
        for bad in ["", "0", "x", "-1", "1:", ":a100"] {
            assert!(gpus(bad).is_err(), "{bad:?}");
        }
    }
}
