//! What a certificate shall contain: the name of its holder, what it may be
//! used for, how long it lasts. The subject carries identity: CN is the name, O
//! is `strata:<role>`. (CN is longer here than the 64 of X.520; every verifier
//! we know reads it all the same, and an id that does not fit would not be the
//! id.)

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyUsagePurpose,
    SanType, SerialNumber, date_time_ymd,
};
use strata_types::Role;

use crate::caller::{
    CertificateError, caller_from_certificate, certificate_from_pem, parse_certificate,
};
use crate::{CaError, CertificateId, Host, Name, node_host};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Before the first second, so that a machine whose clock is behind accepts it.
pub(crate) const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Begins every organization that carries identity.
pub(crate) const ORGANIZATION: &str = "strata:";
/// The organization of a control plane's own certificate: no role, no caller.
pub(crate) const SERVER: &str = "server";

/// When a certificate begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: Timestamp,
    /// The last second.
    pub not_after: Timestamp,
}

/// When to renew: after two thirds of the lifetime. A third is left to try
/// again in, which for 30 days is more than any outage we want to survive.
pub fn renew_at(not_before: Timestamp, not_after: Timestamp) -> Timestamp {
    let lifetime = not_after.duration_since(not_before);
    not_before
        .checked_add(lifetime * 2 / 3)
        .unwrap_or(not_after)
        .max(not_before)
}

/// A certificate that was signed.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate in PEM.
    pub certificate_pem: String,
    /// When it begins and ends.
    pub validity: Validity,
}

impl Issued {
    /// What it is known by; none when it names no caller.
    pub fn id(&self) -> Option<CertificateId> {
        CertificateId::of(&certificate_from_pem(&self.certificate_pem)?).ok()
    }
}

/// A lifetime outside of what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{asked} s is not a lifetime; {least} to {most} s is allowed")]
pub struct TtlError {
    /// The requested lifetime in seconds.
    pub asked: u64,
    /// The least that is allowed, in seconds.
    pub least: u64,
    /// The most that is allowed, in seconds.
    pub most: u64,
}

impl From<TtlError> for strata_types::Error {
    fn from(error: TtlError) -> Self {
        Self::invalid("ttl_seconds", error.to_string())
    }
}

/// `ttl` if it is within bounds.
pub(crate) fn bounded(
    ttl: Duration,
    least: Duration,
    most: Duration,
) -> Result<Duration, TtlError> {
    if (least..=most).contains(&ttl) {
        return Ok(ttl);
    }
    Err(TtlError {
        asked: ttl.as_secs(),
        least: least.as_secs(),
        most: most.as_secs(),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Server,
    Caller(Role),
}

/// What a certificate shall contain.
#[derive(Clone, Debug)]
pub struct CertificateSpec {
    name: Name,
    holder: Holder,
    hosts: Vec<Host>,
    ttl: Duration,
    after: Option<Timestamp>,
}

impl CertificateSpec {
    pub const MIN_TTL: Duration = Duration::from_secs(60);
    pub const MAX_TTL: Duration = Duration::from_secs(2 * 365 * 24 * 60 * 60);

    /// For a caller. A node is called as well, so its certificate serves too:
    /// it names [`node_host`], and never the loopback, where it would pass for
    /// the server to every client that checks the name alone. 30 days for a
    /// node, a year for people and programs.
    pub fn caller(name: Name, role: Role) -> Self {
        let (hosts, ttl) = match role {
            Role::Node => (node_host(&name).into_iter().collect(), 30 * DAY),
            Role::Admin | Role::Operator | Role::Viewer => (Vec::new(), 365 * DAY),
        };
        Self {
            name,
            holder: Holder::Caller(role),
            hosts,
            ttl,
            after: None,
        }
    }

    /// For the control plane's port: serves, and cannot call. Names this
    /// machine; 30 days.
    pub fn server(name: Name) -> Self {
        Self {
            name,
            holder: Holder::Server,
            hosts: Host::loopback().to_vec(),
            ttl: 30 * DAY,
            after: None,
        }
    }

    /// For the holder of `certificate` once more: same name, same role, and the
    /// same lifetime, so that a certificate meant for an hour does not become
    /// one for a year. Hosts are derived again, not copied.
    pub fn renewal_of(certificate: &[u8]) -> Result<Self, CertificateError> {
        let caller = caller_from_certificate(certificate)?;
        let validity = parse_certificate(certificate)?.validity;
        let lifetime = validity.not_after.duration_since(validity.not_before) - CLOCK_SKEW;
        let lifetime = Duration::try_from(lifetime).unwrap_or(Self::MIN_TTL);
        let mut spec = Self::caller(caller.name, caller.role);
        spec.ttl = lifetime.clamp(Self::MIN_TTL, Self::MAX_TTL);
        Ok(spec)
    }

    /// Names the loopback too: for a node that runs alone, whose CA has no
    /// server that it could pass for.
    #[must_use]
    pub fn with_loopback(mut self) -> Self {
        if self.serves() {
            let missing = Host::loopback().into_iter();
            let missing = missing.filter(|host| !self.hosts.contains(host));
            self.hosts.extend(missing.collect::<Vec<_>>());
        }
        self
    }

    /// All hosts that the certificate of a server with these further ones
    /// names.
    pub fn server_hosts(further: &[Host]) -> Vec<Host> {
        Host::loopback()
            .into_iter()
            .chain(further.iter().cloned())
            .collect()
    }

    /// Whether it is a control plane's own.
    pub(crate) fn is_server(&self) -> bool {
        self.holder == Holder::Server
    }

    /// Names more hosts. Only on certificates that serve: others have no
    /// use for it and stay without. The loopback is no node's.
    #[must_use]
    pub fn with_hosts(mut self, hosts: impl IntoIterator<Item = Host>) -> Self {
        let is_node = self.holder == Holder::Caller(Role::Node);
        let not_its_own = |host: &Host| is_node && host.is_loopback();
        let may_name = |host: &Host| !host.is_unspecified() && !not_its_own(host);
        if self.serves() {
            for host in hosts.into_iter().filter(may_name) {
                if !self.hosts.contains(&host) {
                    self.hosts.push(host);
                }
            }
        }
        self
    }

    /// Counts as issued after this moment, also within the same second: for a
    /// name whose certificates were revoked until then.
    #[must_use]
    pub fn issued_after(mut self, moment: Option<Timestamp>) -> Self {
        self.after = moment;
        self
    }

    /// Lasts for `ttl` instead of the default.
    pub fn lasting(mut self, ttl: Duration) -> Result<Self, TtlError> {
        self.ttl = bounded(ttl, Self::MIN_TTL, Self::MAX_TTL)?;
        Ok(self)
    }

    pub fn name(&self) -> &Name {
        &self.name
    }

    fn serves(&self) -> bool {
        matches!(self.holder, Holder::Server | Holder::Caller(Role::Node))
    }

    /// From a little before now until the lifetime ends, or the CA does.
    pub(crate) fn validity(&self, now: Timestamp, ca: Validity) -> Result<Validity, CaError> {
        let now = whole_second(now);
        let second = SignedDuration::from_secs(1);
        let after = self.after.and_then(|at| at.checked_add(second).ok());
        let now = after.map_or(now, |after| now.max(whole_second(after)));
        if now >= ca.not_after {
            return Err(CaError::Ended(ca.not_after));
        }
        Ok(Validity {
            not_before: now
                .checked_sub(CLOCK_SKEW)
                .map_or(ca.not_before, |t| t.max(ca.not_before)),
            not_after: now
                .checked_add(self.ttl)
                .map_or(ca.not_after, |t| t.min(ca.not_after)),
        })
    }

    pub(crate) fn params(&self, validity: Validity) -> Result<CertificateParams, rcgen::Error> {
        let organization = match self.holder {
            Holder::Server => SERVER,
            Holder::Caller(role) => role.as_str(),
        };
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(self.name.as_str(), organization);
        params.serial_number = Some(serial());
        set_validity(&mut params, validity);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if self.serves() {
            params
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        if self.holder != Holder::Server {
            params
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        for host in &self.hosts {
            params.subject_alt_names.push(match host {
                Host::Address(address) => SanType::IpAddress(*address),
                Host::Dns(name) => SanType::DnsName(name.as_ref().try_into()?),
            });
        }
        Ok(params)
    }
}

pub(crate) fn subject(name: &str, organization: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(
        DnType::OrganizationName,
        format!("{ORGANIZATION}{organization}"),
    );
    subject.push(DnType::CommonName, name);
    subject
}

/// A serial of its own for every certificate, those of one key included.
pub(crate) fn serial() -> SerialNumber {
    let mut bytes: [u8; 16] = rand::random();
    // Positive, and never short of a byte.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    SerialNumber::from_slice(&bytes)
}

/// Certificates know whole seconds from 1970 on.
pub(crate) fn set_validity(params: &mut CertificateParams, validity: Validity) {
    let date = |at: Timestamp| {
        date_time_ymd(1970, 1, 1) + Duration::from_secs(at.as_second().max(0).unsigned_abs())
    };
    params.not_before = date(validity.not_before);
    params.not_after = date(validity.not_after);
}

/// `at` without the part of a second that no certificate can hold.
pub(crate) fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn renewal_is_due_after_two_thirds() {
        assert_eq!(renew_at(at(0), at(90)), at(60));
        assert_eq!(renew_at(at(10), at(10)), at(10));
        assert_eq!(renew_at(at(90), at(0)), at(90));
    }

    #[test]
    fn token_lifetimes_are_bounded() {
        let spec = || CertificateSpec::caller("a".parse().unwrap(), Role::Viewer);
        assert!(spec().lasting(CertificateSpec::MIN_TTL).is_ok());
        assert!(spec().lasting(CertificateSpec::MAX_TTL).is_ok());
        let error = spec().lasting(Duration::ZERO).unwrap_err();
        assert_eq!((error.asked, error.least), (0, 60));
        assert!(spec().lasting(Duration::MAX).is_err());
    }

    #[test]
    fn a_certificate_does_not_outlive_its_ca() {
        let ca = Validity {
            not_before: at(1000),
            not_after: at(2000),
        };
        let spec = CertificateSpec::caller("a".parse().unwrap(), Role::Viewer);
        let validity = spec.validity(at(1100), ca).unwrap();
        assert_eq!(validity, ca);
        assert!(matches!(
            spec.validity(at(2000), ca),
            Err(CaError::Ended(_))
        ));
    }

    proptest! {
        #[test]
        fn renewal_is_always_within_the_lifetime(start in 0_i64..4_000_000_000, length in 0_i64..4_000_000_000) {
            let due = renew_at(at(start), at(start + length));
            prop_assert!(at(start) <= due && due <= at(start + length));
        }
    }
}
