//! How etcd is spoken to: its messages, and channels to its members. The store
//! of servers keeps records in one; the driver of clusters looks after the one
//! of a cluster.

mod channel;
mod wire;

pub use channel::{ChannelOptions, InvalidMember, channel};
pub use wire::{
    ClusterClient, KvClient, LeaseClient, MaintenanceClient, WatchClient, etcdserverpb, mvccpb,
};
