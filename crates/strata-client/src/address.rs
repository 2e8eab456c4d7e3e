//! Where something listens: `unix:PATH` or `https://HOST[:PORT]`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;

/// The address of a server or a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket of this host; the kernel authenticates the caller.
    Unix(PathBuf),
    /// A TCP port that speaks TLS. Has a host and a port.
    Https(Uri),
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// `unix:` without a path.
    #[error("unix: requires the path of a socket, as unix:/run/strata/node.sock")]
    NoPath,
    /// Plain HTTP carries proofs in the clear.
    #[error("http:// is not supported, TLS is required; use https://HOST:PORT")]
    Plain,
    /// Not an address.
    #[error("{0:?} is not an address; use https://HOST:PORT or unix:PATH")]
    Unknown(String),
}

impl Address {
    /// The port of a server that was named without one.
    pub const DEFAULT_PORT: u16 = 7700;
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path {
                "" => Err(BadAddress::NoPath),
                path => Ok(Self::Unix(path.into())),
            };
        }
        if text.starts_with("http://") {
            return Err(BadAddress::Plain);
        }
        let unknown = || BadAddress::Unknown(text.chars().take(80).collect());
        let rest = text.strip_prefix("https://").unwrap_or(text);
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '@', '?', '#']) {
            return Err(unknown());
        }
        let parsed: Uri = format!("https://{authority}/")
            .parse()
            .map_err(|_| unknown())?;
        match (parsed.host(), parsed.port_u16()) {
            (None | Some(""), _) => Err(unknown()),
            (Some(_), Some(_)) => Ok(Self::Https(parsed)),
            (Some(_), None) if authority.ends_with(':') => Err(unknown()),
            (Some(host), None) => format!("https://{host}:{}/", Self::DEFAULT_PORT)
                .parse()
                .map(Self::Https)
                .map_err(|_| unknown()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Https(uri) => {
                f.write_str("https://")?;
                f.write_str(uri.authority().map_or("", |authority| authority.as_str()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_people_write_them() {
        for (text, read) in [
            ("unix:/run/x.sock", "unix:/run/x.sock"),
            ("unix:///run/x.sock", "unix:/run/x.sock"),
            ("https://127.0.0.1:7700", "https://127.0.0.1:7700"),
            ("https://[::1]:7700/", "https://[::1]:7700"),
            ("localhost:7710", "https://localhost:7710"),
            ("https://strata.lan", "https://strata.lan:7700"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), read);
        }
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        assert_eq!("http://a:1".parse::<Address>(), Err(BadAddress::Plain));
        assert_eq!("unix:".parse::<Address>(), Err(BadAddress::NoPath));
        for bad in ["", "https://", "https://a/b", "a b", "https://u@h:1", "h:"] {
            assert!(bad.parse::<Address>().is_err(), "{bad:?}");
        }
    }
}
