//! What still depends on the old root while the CA is rotated: what would stop
//! working if that root were retired now.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use strata_types::Role;

use super::Core;
use super::certificates::Certificate;
use super::record::Node;
use super::tables::Versioned;

/// The issuer of certificates that the server requests for itself: it has those
/// issued again.
const SERVER: &str = "server";

/// What depends on another root than the one that signs.
#[derive(Clone, Debug, Default)]
pub struct Dependents {
    /// Nodes that use a certificate of it, or one that is not known.
    pub nodes: Vec<String>,
    /// Certificates of people and programs that were not renewed.
    pub certificates: Vec<Arc<Versioned<Certificate>>>,
}

impl Dependents {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.certificates.is_empty()
    }
}

impl Core {
    /// What would stop working without the roots other than `issuer`.
    pub fn dependents_of_other_roots(&self, issuer: &str) -> Dependents {
        let certificates = self.certificates().list();
        let nodes = self.nodes();
        let nodes = nodes.iter().map(|node| &node.record);
        let mut certificates_left = unrenewed(certificates.iter().map(|one| &one.record), issuer);
        let not_revoked =
            |one: &Certificate| self.certificates().revocation_of(&one.id()).is_none();
        certificates_left.retain(|serial| {
            let found = certificates.iter().find(|one| one.serial == *serial);
            found.is_some_and(|one| not_revoked(one))
        });
        Dependents {
            nodes: nodes_behind(nodes, certificates.iter().map(|one| &one.record), issuer),
            certificates: certificates
                .into_iter()
                .filter(|one| certificates_left.contains(&one.serial))
                .collect(),
        }
    }
}

/// Nodes whose key in use has no certificate of the root. The one they were
/// given last does not count before they use it: the answer that had it may
/// have been lost.
fn nodes_behind<'a>(
    nodes: impl Iterator<Item = &'a Node>,
    certificates: impl Iterator<Item = &'a Certificate>,
    issuer: &str,
) -> Vec<String> {
    let new: HashSet<&str> = certificates
        .filter(|one| one.role == Role::Node && one.issuer == issuer)
        .map(|one| one.key.as_str())
        .collect();
    let behind = nodes.filter(|node| {
        let in_use = node.keys.first();
        in_use.is_some_and(|key| !new.contains(key.as_str()))
    });
    behind.map(|node| node.name.to_string()).collect()
}

/// The serials of certificates of other roots that no other was renewed from.
/// Nodes are known by their keys instead.
fn unrenewed<'a>(
    certificates: impl Iterator<Item = &'a Certificate> + Clone,
    issuer: &str,
) -> BTreeSet<String> {
    let parents: HashSet<&str> = certificates
        .clone()
        .filter_map(|one| one.parent.as_deref())
        .collect();
    certificates
        .filter(|one| one.role != Role::Node && one.issued_by != SERVER)
        .filter(|one| one.issuer != issuer && !parents.contains(one.serial.as_str()))
        .map(|one| one.serial.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use strata_identity::CertificateId;

    use super::*;

    fn certificate(serial: &str, role: Role, issuer: &str, parent: Option<&str>) -> Certificate {
        let id = CertificateId {
            serial: serial.into(),
            key: format!("key-{serial}"),
            name: "ann".parse().unwrap(),
            role,
            issued_at: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::MAX,
            issuer: issuer.into(),
        };
        let mut made = Certificate::first(&id, "admin");
        made.parent = parent.map(str::to_owned);
        made
    }

    #[test]
    fn renewed_certificate_depends_on_the_old_root_no_more() {
        let mut all = vec![
            certificate("a", Role::Operator, "", None),
            certificate("b", Role::Viewer, "old", None),
            certificate("n", Role::Node, "old", None),
        ];
        let left =
            |all: &[Certificate]| unrenewed(all.iter(), "new").into_iter().collect::<Vec<_>>();
        assert_eq!(left(&all), ["a", "b"]);
        all.push(certificate("c", Role::Operator, "new", Some("a")));
        assert_eq!(left(&all), ["b"]);
        all[1].issued_by = SERVER.into();
        assert!(left(&all).is_empty());
    }
}
