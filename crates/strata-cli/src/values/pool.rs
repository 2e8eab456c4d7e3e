//! Pools of a cluster: `web=3`, or `train=2:gpu` for machines with a GPU.

use std::str::FromStr;

use strata_types::Label;
use strata_types::cluster::InstanceType;

/// One `--pool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolArg {
    pub(crate) name: String,
    pub(crate) count: u32,
    pub(crate) instance_type: InstanceType,
}

impl FromStr for PoolArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not a pool; write it as NAME=COUNT or NAME=COUNT:gpu");
        let (name, rest) = text.split_once('=').ok_or_else(bad)?;
        let (count, kind) = rest.split_once(':').unwrap_or((rest, "standard"));
        let name = Label::from_field("name", name).map_err(|why| why.message().to_owned())?;
        Ok(Self {
            name: name.to_string(),
            count: count.parse().map_err(|_| bad())?,
            instance_type: kind.parse().map_err(|why| format!("{kind:?} {why}"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_read_as_they_are_written() {
        let pool = |name: &str, count, instance_type| PoolArg {
            name: name.into(),
            count,
            instance_type,
        };
        assert_eq!("web=3".parse(), Ok(pool("web", 3, InstanceType::Standard)));
        assert_eq!(
            "train=2:gpu".parse(),
            Ok(pool("train", 2, InstanceType::Gpu))
        );
        for bad in [
            "web",
            "web=",
            "=3",
            "web=-1",
            "web=3:fast",
            "Web=3",
            "web=3:gpu:x",
        ] {
            assert!(bad.parse::<PoolArg>().is_err(), "{bad}");
        }
    }
}
