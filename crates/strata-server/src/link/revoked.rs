//! Revocations as they are sent to nodes.

use strata_api::strata::v1::{self, revocation::What};
use strata_identity::Revocation;

/// How many one message carries: far below what a node takes in at once.
const CHUNK_ENTRIES: usize = 1000;

/// All of them, in as many messages as it takes; one for an empty list, which
/// is a list too.
pub(super) fn in_parts(all: &[Revocation]) -> Vec<v1::Revocations> {
    let parts = all.len().div_ceil(CHUNK_ENTRIES).max(1);
    let part = |n: usize| {
        let these = all.iter().skip(n * CHUNK_ENTRIES).take(CHUNK_ENTRIES);
        v1::Revocations {
            revocations: these.map(to_wire).collect(),
            more: n + 1 < parts,
        }
    };
    (0..parts).map(part).collect()
}

fn to_wire(revocation: &Revocation) -> v1::Revocation {
    let what = match revocation {
        Revocation::Serial { serial } => What::Serial(serial.clone()),
        Revocation::Key { key } => What::Key(key.clone()),
        Revocation::Name { name, role, until } => What::Name(v1::RevokedName {
            name: name.to_string(),
            role: v1::Role::from(*role).into(),
            until: until.as_second(),
        }),
        Revocation::Role { role, until } => What::Role(v1::RevokedRole {
            role: v1::Role::from(*role).into(),
            until: until.as_second(),
        }),
    };
    v1::Revocation { what: Some(what) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revocation_list_is_sent_whole_with_an_end() {
        for count in [0, 1, CHUNK_ENTRIES, CHUNK_ENTRIES + 1, 3 * CHUNK_ENTRIES] {
            let all: Vec<_> = (0..count)
                .map(|n| Revocation::Serial {
                    serial: format!("{n:x}"),
                })
                .collect();
            let parts = in_parts(&all);
            let told: usize = parts.iter().map(|part| part.revocations.len()).sum();
            assert_eq!(told, count);
            let more: Vec<bool> = parts.iter().map(|part| part.more).collect();
            assert_eq!(more.iter().filter(|more| !**more).count(), 1);
            assert_eq!(more.last(), Some(&false));
        }
    }
}
