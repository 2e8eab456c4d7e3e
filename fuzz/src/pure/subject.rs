//! What of its own module the reader of subjects needs.

#[allow(dead_code)]
#[path = "../../../crates/strata-transport/src/subject/grpc.rs"]
mod grpc;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SubjectMatch {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) project: Option<String>,
    pub(super) is_new: bool,
}

pub(super) fn find(path: &str, body: &[u8]) -> Option<SubjectMatch> {
    grpc::find(path, body)
}

pub(super) fn is_whole(beginning: &[u8], there: usize) -> bool {
    grpc::is_whole(beginning, there)
}
