//! Resource limits of processes: `nofile=1024:4096`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// In the order of their numbers.
const NAMES: [&str; 16] = [
    "cpu",
    "fsize",
    "data",
    "stack",
    "core",
    "rss",
    "nproc",
    "nofile",
    "memlock",
    "as",
    "locks",
    "sigpending",
    "msgqueue",
    "nice",
    "rtprio",
    "rttime",
];

/// One resource limit; `u64::MAX` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// The resource, as the kernel numbers it.
    pub resource: u32,
    pub soft: u64,
    /// What it may be raised to.
    pub hard: u64,
}

impl Rlimit {
    /// Whether it lets processes take precedence over others of the host.
    pub fn raises_priority(&self) -> bool {
        let name = usize::try_from(self.resource).ok();
        let name = name.and_then(|number| NAMES.get(number));
        name.is_some_and(|name| ["nice", "rtprio"].contains(name)) && self.hard > 0
    }
}

impl FromStr for Rlimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            let text: String = text.chars().take(80).collect();
            format!("{text:?} is not a limit: expected one such as nofile=1024 or nofile=1024:4096")
        };
        let number = |part: &str| match part {
            "unlimited" | "-1" => Ok(u64::MAX),
            part => part.parse().map_err(|_| bad()),
        };
        let (name, values) = text.split_once('=').ok_or_else(bad)?;
        let name = name.to_ascii_lowercase();
        let name = name.strip_prefix("rlimit_").unwrap_or(&name);
        let resource = NAMES
            .iter()
            .position(|known| *known == name)
            .ok_or_else(bad)?;
        let (soft, hard) = match values.split_once(':') {
            None => (number(values)?, number(values)?),
            Some((soft, hard)) => (number(soft)?, number(hard)?),
        };
        if soft > hard {
            return Err(format!("{name}: the soft limit is above the hard one"));
        }
        let resource = resource as u32;
        Ok(Self {
            resource,
            soft,
            hard,
        })
    }
}

impl fmt::Display for Rlimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.get(self.resource as usize).unwrap_or(&"?");
        let show = |value: u64| match value {
            u64::MAX => "unlimited".to_owned(),
            value => value.to_string(),
        };
        write!(f, "{name}={}:{}", show(self.soft), show(self.hard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_priority_are_known() {
        let raises = |text: &str| text.parse::<Rlimit>().unwrap().raises_priority();
        for text in ["rtprio=1", "nice=0:40", "RLIMIT_RTPRIO=unlimited"] {
            assert!(raises(text), "{text}");
        }
        for text in ["rtprio=0", "nice=0", "nofile=1024", "rttime=5"] {
            assert!(!raises(text), "{text}");
        }
    }

    #[test]
    fn limits_come_back_as_they_were() {
        for text in ["nofile=1024:4096", "core=0:unlimited"] {
            assert_eq!(text.parse::<Rlimit>().unwrap().to_string(), text);
        }
        assert_eq!(
            "RLIMIT_NPROC=5".parse::<Rlimit>().unwrap().to_string(),
            "nproc=5:5"
        );
        for bad in ["", "nofile", "nofile=", "files=1", "nofile=2:1", "nofile=x"] {
            assert!(bad.parse::<Rlimit>().is_err(), "{bad:?}");
        }
    }
}
