//! The subject of a gRPC call: the fields of its request that name it. A table
//! of their numbers, and as much of the wire format as it takes to find them.

use super::SubjectMatch;

/// Which fields name the object.
#[derive(Clone, Copy, Debug)]
enum SubjectField {
    /// All of these, with `/` between.
    By(&'static [&'static [u32]]),
    /// The first of these that is there.
    ByFirst(&'static [&'static [u32]]),
    /// By none: it is one of its kind, or its session names it.
    Not,
}
use SubjectField::{By, ByFirst, Not};

/// The field that most requests have it in.
const FIRST: SubjectField = By(&[&[1]]);
/// The first field of the message in the first field.
const NESTED: SubjectField = By(&[&[1, 1]]);

const CALLS: &[(&str, &str, SubjectField)] = &[
    ("/cnct.kaas.api.Cluster/CreateCluster", "cluster", FIRST),
    ("/cnct.kaas.api.Cluster/GetCluster", "cluster", FIRST),
    ("/cnct.kaas.api.Cluster/DeleteCluster", "cluster", FIRST),
    ("/cnct.kaas.api.Cluster/AddNodePool", "cluster", FIRST),
    ("/cnct.kaas.api.Cluster/DeleteNodePool", "cluster", FIRST),
    ("/cnct.kaas.api.Cluster/ScaleNodePool", "cluster", FIRST),
    ("/cnct.kaas.api.Cluster/UpgradeCluster", "cluster", FIRST),
    (
        "/operations.v1.OperationsService/CreateHypervisor",
        "hypervisor",
        FIRST,
    ),
    (
        "/operations.v1.OperationsService/DestroyHypervisor",
        "hypervisor",
        FIRST,
    ),
    (
        "/operations.v1.OperationsService/ExpandStorage",
        "storage",
        Not,
    ),
    (
        "/operations.v1.OperationsService/ShrinkStorage",
        "storage",
        Not,
    ),
    (
        "/operations.v1.OperationsService/CreateBackup",
        "backup",
        Not,
    ),
    ("/runtime.CellService/Allocate", "cell", NESTED),
    ("/runtime.CellService/Free", "cell", FIRST),
    (
        "/runtime.CellService/Start",
        "cell",
        By(&[&[1, 4], &[1, 1]]),
    ),
    ("/runtime.CellService/Stop", "cell", By(&[&[1], &[2]])),
    ("/runtime.Pods/Create", "pod", NESTED),
    ("/runtime.Pods/Start", "pod", FIRST),
    ("/runtime.Pods/Stop", "pod", FIRST),
    ("/runtime.Pods/Destroy", "pod", FIRST),
    ("/runtime.Pods/Exec", "pod", Not),
    ("/runtime.Pods/Attach", "pod", Not),
    ("/runtime.Instances/Create", "vm", NESTED),
    ("/runtime.Instances/Start", "vm", FIRST),
    ("/runtime.Instances/Stop", "vm", FIRST),
    ("/runtime.Instances/Destroy", "vm", FIRST),
    ("/runtime.Instances/Console", "vm", Not),
    ("/runtime.Spawn/Create", "machine", NESTED),
    ("/runtime.Spawn/Start", "machine", FIRST),
    ("/runtime.Spawn/Stop", "machine", FIRST),
    ("/runtime.Spawn/Destroy", "machine", FIRST),
    ("/schedule.Assignments/Follow", "node", Not),
    ("/schedule.Assignments/Tunnel", "node", Not),
    ("/strata.v1.ServerImages/Manifest", "image", FIRST),
    ("/strata.v1.ServerImages/Blob", "image", NESTED),
    ("/scheduler.NodeService/Register", "node", Not),
    ("/scheduler.NodeService/Unregister", "node", FIRST),
    (
        "/scheduler.InstanceService/Create",
        "instance",
        ByFirst(&[&[1], &[2]]),
    ),
    ("/scheduler.InstanceService/Start", "instance", FIRST),
    ("/scheduler.InstanceService/Stop", "instance", FIRST),
    ("/scheduler.InstanceService/Destroy", "instance", FIRST),
    ("/strata.v1.Identity/IssueCertificate", "certificate", FIRST),
    ("/strata.v1.Identity/RenewCertificate", "certificate", Not),
    ("/strata.v1.Identity/Join", "node", By(&[&[2]])),
    ("/strata.v1.Identity/CreateToken", "token", FIRST),
    ("/strata.v1.Identity/ListTokens", "token", Not),
    ("/strata.v1.Identity/RevokeToken", "token", FIRST),
    ("/strata.v1.Images/Pull", "image", FIRST),
    ("/strata.v1.Images/Remove", "image", FIRST),
    ("/strata.v1.Images/Prune", "image", Not),
    ("/strata.v1.Instances/Exec", "instance", Not),
    ("/strata.v1.Node/PowerOff", "node", Not),
    ("/strata.v1.Volumes/Create", "volume", FIRST),
    ("/strata.v1.Volumes/Remove", "volume", FIRST),
];

/// Before a message: whether it is compressed, and its length.
pub(super) const HEADER: usize = 5;
const LENGTH_DELIMITED: u64 = 2;

fn entry(path: &str) -> Option<(&'static str, SubjectField)> {
    let found = CALLS.iter().find(|(call, ..)| *call == path)?;
    Some((found.1, found.2))
}

/// Whether the first message names the object.
pub(super) fn is_in_body(path: &str) -> bool {
    entry(path).is_some_and(|(_, named)| !matches!(named, Not))
}

/// Whether all of the first message is there, of so many bytes in all.
pub(super) fn is_whole(beginning: &[u8], there: usize) -> bool {
    let length = beginning.get(1..HEADER).and_then(|it| it.try_into().ok());
    let length = length.map(u32::from_be_bytes);
    let length = length.and_then(|length| usize::try_from(length).ok());
    length.is_some_and(|length| there.saturating_sub(HEADER) >= length)
}

/// What a call is about.
pub(super) fn find(path: &str, body: &[u8]) -> Option<SubjectMatch> {
    let (kind, named) = entry(path)?;
    let message = match body.first() {
        Some(0) => body.get(HEADER..).unwrap_or_default(),
        // Compressed, which no service takes.
        _ => &[],
    };
    let text = |fields: &&[u32]| {
        let text = String::from_utf8_lossy(field(message, fields)?).into_owned();
        (!text.is_empty()).then_some(text)
    };
    let name = match named {
        By(all) => all.iter().filter_map(text).collect::<Vec<_>>().join("/"),
        ByFirst(all) => all.iter().find_map(text).unwrap_or_default(),
        Not => String::new(),
    };
    Some(SubjectMatch {
        kind: kind.to_owned(),
        name,
        project: None,
        is_new: path == "/scheduler.InstanceService/Create",
    })
}

/// A text, by the numbers of the fields that lead to it. As every reader of the
/// format does it: the last one counts, and messages that come twice are one.
/// What follows a mistake, or the end of what was read, is ignored.
fn field<'a>(message: &'a [u8], path: &[u32]) -> Option<&'a [u8]> {
    let (number, deeper) = path.split_first()?;
    let (mut rest, mut found) = (message, None);
    while let Some((tag, value)) = next_field(&mut rest) {
        if tag == u64::from(*number) << 3 | LENGTH_DELIMITED {
            found = match deeper.is_empty() {
                true => Some(value),
                false => field(value, deeper).or(found),
            };
        }
    }
    found
}

/// The next field's tag, and its bytes where it is a text or a message.
fn next_field<'a>(rest: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let tag = varint(rest)?;
    let length = match tag & 7 {
        0 => varint(rest).map(|_| 0)?,
        1 => 8,
        LENGTH_DELIMITED => usize::try_from(varint(rest)?).ok()?,
        5 => 4,
        _ => return None,
    };
    // The beginning of a message that is not all there is of use too.
    let length = length.min(rest.len());
    let (value, after) = rest.split_at(length);
    *rest = after;
    Some((tag, value))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;
    use strata_api::strata::v1;
    use strata_api::{runtime, scheduler};
    use strata_identity::policy::{self, Policy};

    use super::*;

    fn framed(message: &impl prost::Message) -> Vec<u8> {
        let bytes = message.encode_to_vec();
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[0][..], &length, &bytes].concat()
    }

    fn name(path: &str, body: &[u8]) -> String {
        assert!(is_whole(body, body.len()));
        assert!(!is_whole(body, body.len() - 1) && !is_whole(&body[..4], 4));
        let found = find(path, body).unwrap();
        format!("{}/{}", found.kind, found.name)
    }

    #[test]
    fn every_call_that_is_audited_is_in_the_table() {
        let missing: Vec<&str> = policy::grpc_methods()
            .filter(|method| Policy::default().is_audited(method) && entry(method).is_none())
            .collect();
        assert_eq!(missing, [""; 0]);
        let known: Vec<&str> = policy::grpc_methods().collect();
        for (call, ..) in CALLS {
            assert!(known.contains(call), "{call}");
        }
    }

    #[test]
    fn name_is_found_where_the_request_has_it() {
        let executable = runtime::Executable {
            name: "main".into(),
            cell_name: "web".into(),
            command: "sleep 1".into(),
            ..runtime::Executable::default()
        };
        let start = runtime::StartCellRequest {
            executable: Some(executable),
        };
        let start = framed(&start);
        assert_eq!(name("/runtime.CellService/Start", &start), "cell/web/main");
        let token = framed(&v1::RevokeTokenRequest { id: "0a1b".into() });
        assert_eq!(
            name("/strata.v1.Identity/RevokeToken", &token),
            "token/0a1b"
        );
        let pod = v1::CreatePodRequest {
            pod: Some(v1::PodSpec {
                name: "web".into(),
                environment: vec!["PASSWORD=x".into()],
                ..v1::PodSpec::default()
            }),
            ..v1::CreatePodRequest::default()
        };
        assert_eq!(name("/runtime.Pods/Create", &framed(&pod)), "pod/web");
        let instance = |id: &str| scheduler::Instance {
            id: id.into(),
            name: "web".into(),
            ..scheduler::Instance::default()
        };
        let create = "/scheduler.InstanceService/Create";
        assert_eq!(name(create, &framed(&instance("i1"))), "instance/i1");
        assert_eq!(name(create, &framed(&instance(""))), "instance/web");
    }

    /// A request that names it twice is read as its handler reads it.
    #[test]
    fn last_of_two_names_counts() {
        let free = |name: &str| runtime::FreeCellRequest {
            cell_name: name.into(),
            ..runtime::FreeCellRequest::default()
        };
        let bytes = [free("a").encode_to_vec(), free("b").encode_to_vec()].concat();
        let read = runtime::FreeCellRequest::decode(&*bytes).unwrap();
        assert_eq!(field(&bytes, &[1]), Some(read.cell_name.as_bytes()));
        let cell = |cell| runtime::AllocateCellRequest { cell: Some(cell) };
        let named = cell(runtime::Cell {
            name: "a".into(),
            ..runtime::Cell::default()
        });
        let shares = cell(runtime::Cell {
            cpu_shares: 5,
            ..runtime::Cell::default()
        });
        let bytes = [named.encode_to_vec(), shares.encode_to_vec()].concat();
        let read = runtime::AllocateCellRequest::decode(&*bytes).unwrap();
        assert_eq!(read.cell.unwrap().name, "a");
        assert_eq!(field(&bytes, &[1, 1]), Some(&b"a"[..]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(body in prop::collection::vec(any::<u8>(), 0..200)) {
            for (call, ..) in CALLS {
                let _ = find(call, &body);
            }
            let _ = is_whole(&body, body.len());
        }

        #[test]
        fn name_is_that_of_the_message(name in "\\PC{0,40}", cell in "\\PC{0,40}") {
            let stop = runtime::StopCellRequest {
                cell_name: cell.clone(),
                executable_name: name.clone(),
                ..runtime::StopCellRequest::default()
            };
            let bytes = stop.encode_to_vec();
            prop_assert_eq!(field(&bytes, &[1]).unwrap_or_default(), cell.as_bytes());
            prop_assert_eq!(field(&bytes, &[2]).unwrap_or_default(), name.as_bytes());
        }
    }
}
