//! An origin, and which addresses lead to it. A BMC that was taken over may
//! name any address as the place of a resource; credentials go nowhere but to
//! the origin that they are for.

use http::Uri;

use super::HttpError;

/// A scheme, a host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    origin: String,
    /// A path that stood behind it, without the slash at its end.
    path: String,
}

impl Address {
    /// Reads `https://HOST[:PORT][/PATH]`.
    pub(crate) fn parse(text: &str) -> Result<Self, HttpError> {
        let no = || HttpError::Address(super::one_line(text));
        let uri: Uri = text.trim().parse().map_err(|_| no())?;
        let origin = origin(&uri).ok_or_else(no)?;
        if uri.query().is_some() || !harmless(uri.path()) {
            return Err(no());
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { origin, path })
    }

    /// The scheme, host and port, as text.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// The path that it was given with; empty for none.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.origin.starts_with("https://")
    }

    /// Where a path of this origin is. An address with a host must be of this
    /// very origin.
    pub(crate) fn join(&self, reference: &str) -> Result<Uri, HttpError> {
        let elsewhere = || HttpError::Elsewhere {
            host: self.origin.clone(),
            to: super::one_line(reference),
        };
        let path = if reference.starts_with('/') && !reference.starts_with("//") {
            reference.to_owned()
        } else {
            let uri: Uri = reference.parse().map_err(|_| elsewhere())?;
            if origin(&uri).as_deref() != Some(&*self.origin) {
                return Err(elsewhere());
            }
            uri.path_and_query()
                .map_or("/", |path| path.as_str())
                .to_owned()
        };
        let before_query = path.split('?').next().unwrap_or_default();
        if !harmless(before_query) {
            return Err(elsewhere());
        }
        format!("{}{path}", self.origin)
            .parse()
            .map_err(|_| elsewhere())
    }
}

/// With the port written even where it is the usual one, so that two ways to
/// write an origin are one. `None` for what is no origin, or has a user in it.
fn origin(uri: &Uri) -> Option<String> {
    let usual = match uri.scheme_str()? {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = uri.authority()?;
    if authority.as_str().contains('@') || authority.host().is_empty() {
        return None;
    }
    let host = authority.host().to_ascii_lowercase();
    let port = authority.port_u16().unwrap_or(usual);
    Some(format!("{}://{host}:{port}", uri.scheme_str()?))
}

/// No steps upwards, and nothing that a server may read as one.
fn harmless(path: &str) -> bool {
    let odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\' || c == '#';
    !path.contains(odd) && !path.split('/').any(|step| step == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_sent_to_their_origin_only() {
        let bmc = Address::parse("https://BMC.example/").unwrap();
        let to = |text: &str| bmc.join(text).map(|uri| uri.to_string());
        assert_eq!(
            to("/redfish/v1/Systems/1?a=b").unwrap(),
            "https://bmc.example:443/redfish/v1/Systems/1?a=b"
        );
        assert_eq!(
            to("https://bmc.example/redfish/v1").unwrap(),
            "https://bmc.example:443/redfish/v1"
        );
        for hostile in [
            "https://evil.example/redfish/v1",
            "http://bmc.example/redfish/v1",
            "https://bmc.example:444/redfish/v1",
            "https://bmc.example@evil.example/",
            "https://user:pw@bmc.example/",
            "//evil.example/redfish/v1",
            "/redfish/../../etc",
            "/a\\b",
            "/a b",
            "/a\r\nX-Header: b",
            "redfish/v1",
            "file:///etc/passwd",
            "",
        ] {
            let refused = bmc.join(hostile);
            assert!(
                matches!(refused, Err(HttpError::Elsewhere { .. })),
                "{hostile}: {refused:?}"
            );
        }
    }

    #[test]
    fn address_is_scheme_host_and_optional_path() {
        let maas = Address::parse("http://10.0.0.1:5240/MAAS/").unwrap();
        assert_eq!(maas.origin(), "http://10.0.0.1:5240");
        assert_eq!(maas.path(), "/MAAS");
        assert!(!maas.is_tls());
        for bad in [
            "",
            "bmc",
            "ftp://bmc",
            "https://u:p@bmc",
            "https://bmc/?x=1",
            "/redfish",
        ] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }
}
