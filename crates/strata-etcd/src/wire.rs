//! etcd's own types, generated from `proto/etcd`. Generated code is reviewed by
//! its source, not by our lints.

#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)]
#[allow(clippy::needless_pass_by_value, clippy::wildcard_imports)]
pub mod mvccpb {
    tonic::include_proto!("mvccpb");
}

#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)]
#[allow(clippy::needless_pass_by_value, clippy::wildcard_imports)]
pub mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}

pub use etcdserverpb::cluster_client::ClusterClient;
pub use etcdserverpb::kv_client::KvClient;
pub use etcdserverpb::lease_client::LeaseClient;
pub use etcdserverpb::maintenance_client::MaintenanceClient;
pub use etcdserverpb::watch_client::WatchClient;
