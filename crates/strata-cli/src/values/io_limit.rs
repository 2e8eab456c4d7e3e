//! Limits on a block device: `/dev/sda:rbps=10M,wiops=100` or
//! `8:0:wbps=1MiB`.

use std::str::FromStr;

use strata_api::strata::v1;

use super::Bytes;

/// One `--io`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IoLimitArg(pub(crate) v1::IoLimit);

const SHAPE: &str = "write it as DEVICE:rbps=10M,wbps=10M,riops=100,wiops=100";

impl FromStr for IoLimitArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A device may itself be 8:0, so the last colon is the one that counts.
        let Some((device, figures)) = text
            .rsplit_once(':')
            .filter(|(d, f)| !d.is_empty() && f.contains('='))
        else {
            return Err(format!("{text:?} is not a limit of a device; {SHAPE}"));
        };
        let mut limit = v1::IoLimit {
            device: device.to_owned(),
            ..Default::default()
        };
        for figure in figures.split(',') {
            let Some((key, value)) = figure.split_once('=') else {
                return Err(format!("{figure:?} has no =; {SHAPE}"));
            };
            let Bytes(amount) = value.parse()?;
            let place = match key {
                "rbps" => &mut limit.read_bps,
                "wbps" => &mut limit.write_bps,
                "riops" => &mut limit.read_iops,
                "wiops" => &mut limit.write_iops,
                _ => return Err(format!("{key:?} is not one of rbps, wbps, riops, wiops")),
            };
            if place.replace(amount).is_some() {
                return Err(format!("{key} is given twice"));
            }
        }
        Ok(Self(limit))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn devices_go_by_number_or_path() {
        let IoLimitArg(limit) = "8:0:rbps=10M,wiops=100".parse().unwrap();
        assert_eq!(limit.device, "8:0");
        assert_eq!(limit.read_bps, Some(10_000_000));
        assert_eq!(limit.write_iops, Some(100));
        assert_eq!(limit.write_bps, None);
        let IoLimitArg(limit) = "/dev/sda:wbps=1MiB".parse().unwrap();
        assert_eq!(
            (limit.device.as_str(), limit.write_bps),
            ("/dev/sda", Some(1 << 20))
        );
    }

    #[test]
    fn invalid_io_limits_are_rejected() {
        for bad in [
            "",
            "8:0",
            "/dev/sda",
            ":rbps=1",
            "8:0:rbps",
            "8:0:x=1",
            "8:0:rbps=1,rbps=2",
            "8:0:rbps=x",
        ] {
            assert!(bad.parse::<IoLimitArg>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<IoLimitArg>();
        }
    }
}
