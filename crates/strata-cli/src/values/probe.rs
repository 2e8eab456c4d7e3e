//! Where a pod is asked over HTTP whether it works: `8080` or `8080/health`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strata_api::strata::v1::HttpProbe;

/// A port and a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct HttpProbeArg {
    port: u16,
    path: String,
}

impl HttpProbeArg {
    /// As it stands on the wire.
    pub(crate) fn from_wire(probe: &HttpProbe) -> Option<Self> {
        Some(Self {
            port: u16::try_from(probe.port).ok()?,
            path: probe.path.clone(),
        })
    }

    /// As it is sent.
    pub(crate) fn into_wire(self) -> HttpProbe {
        HttpProbe {
            port: self.port.into(),
            path: self.path,
        }
    }
}

impl FromStr for HttpProbeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let end = text.find('/').unwrap_or(text.len());
        let (port, path) = text.split_at(end);
        match port.parse() {
            Ok(port @ 1..) => Ok(Self {
                port,
                path: path.to_owned(),
            }),
            _ => Err(format!(
                "{text:?} is not a port with a path, such as 8080 or 8080/health"
            )),
        }
    }
}

impl TryFrom<String> for HttpProbeArg {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HttpProbeArg> for String {
    fn from(probe: HttpProbeArg) -> Self {
        probe.to_string()
    }
}

impl fmt::Display for HttpProbeArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.port, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_optional() {
        for text in ["8080", "8080/", "80/health?deep=1"] {
            assert_eq!(text.parse::<HttpProbeArg>().unwrap().to_string(), text);
        }
        for bad in ["", "0", "/health", "70000", "x/y"] {
            assert!(bad.parse::<HttpProbeArg>().is_err(), "{bad:?}");
        }
    }
}
