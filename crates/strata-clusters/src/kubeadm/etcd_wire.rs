//! The part of etcd's interface that is spoken here. Names and numbers are
//! etcd's; what nobody reads is left out.

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemberListRequest {
    #[prost(bool, tag = "1")]
    pub(super) linearizable: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) members: Vec<Member>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Member {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    /// Empty until it has come up.
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) peer_urls: Vec<String>,
    /// It follows, and does not decide yet.
    #[prost(bool, tag = "5")]
    pub(super) is_learner: bool,
}

/// Answered as [`MemberListResponse`] is.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemberRemoveRequest {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SnapshotRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SnapshotResponse {
    #[prost(uint64, tag = "2")]
    pub(super) remaining_bytes: u64,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) blob: bytes::Bytes,
}
