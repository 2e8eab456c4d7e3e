//! etcd's own types, generated from `proto/etcd`. Generated code is judged by
//! its source, not by our lints.

#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)]
#[allow(clippy::needless_pass_by_value, clippy::wildcard_imports)]
pub(crate) mod mvccpb {
    tonic::include_proto!("mvccpb");
}

#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)]
#[allow(clippy::needless_pass_by_value, clippy::wildcard_imports)]
pub(crate) mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}

pub(super) use etcdserverpb::kv_client::KvClient;
pub(super) use etcdserverpb::lease_client::LeaseClient;
pub(super) use etcdserverpb::watch_client::WatchClient;
