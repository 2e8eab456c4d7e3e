//! What etcd's errors mean to the caller.

use tonic::{Code, Status};

use crate::StoreError;

/// By the code, and by the text where the code is ambiguous: etcd has one code
/// for several things.
pub(super) fn fault(status: &Status) -> StoreError {
    let text = status.message().to_owned();
    match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::AlreadyExists => {
            StoreError::Invalid(text)
        }
        Code::ResourceExhausted if text.contains("space exceeded") => StoreError::Broken(text),
        Code::OutOfRange if text.contains("message length too large") => StoreError::Broken(text),
        Code::DataLoss | Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented => {
            StoreError::Broken(text)
        }
        _ => StoreError::Unavailable(text),
    }
}

/// Whether a revision was requested that etcd does not have: it is compacted or
/// never was.
pub(super) fn is_out_of_range(status: &Status) -> bool {
    status.code() == Code::OutOfRange && status.message().contains("revision")
}
