//! The members of a cluster's etcd, called directly: to list them, to remove
//! one, and to read all their data. Any member that answers will do, but for
//! the last, which is of one member.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use strata_etcd::etcdserverpb::{
    Member, MemberListRequest, MemberRemoveRequest, SnapshotRequest, SnapshotResponse,
};
use strata_etcd::{ChannelOptions, ClusterClient, MaintenanceClient};
use strata_types::Secret;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use super::{pki, tls};
use crate::DriverError;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// For each of the two calls by which the members are observed.
const QUERY_TIMEOUT: Duration = Duration::from_millis(1500);

/// What one member reports of all.
#[derive(Debug)]
pub(super) struct Reported {
    /// The address of the member that was called.
    pub(super) address: String,
    /// All members, as far as it knows; none where it does not answer.
    pub(super) knows: Option<Vec<Member>>,
    /// All members, as the majority has them.
    pub(super) sure: Option<Vec<Member>>,
}

/// The etcd of one cluster, by the addresses of its machines.
pub(super) struct Etcd {
    channels: ChannelOptions,
    addresses: Vec<String>,
}

impl Etcd {
    /// With a certificate of its own CA.
    pub(super) fn new(
        secrets: &BTreeMap<String, Secret>,
        addresses: Vec<String>,
    ) -> Result<Self, DriverError> {
        let channels = ChannelOptions {
            tls: Some(Arc::new(tls::config(secrets, pki::ETCD)?)),
            timeout: REQUEST_TIMEOUT,
        };
        Ok(Self {
            channels,
            addresses,
        })
    }

    /// Has the others remove a member, by its name or its address: one that
    /// never came up has no name yet. One that is not there is fine.
    pub(super) async fn remove(&self, name: &str, address: &str) -> Result<(), DriverError> {
        let listed = self.call_any(|channel| list(channel, true)).await?;
        let peer = format!("https://{address}:2380");
        let is_meant = |member: &&Member| {
            member.name == name || (!address.is_empty() && member.peer_urls.contains(&peer))
        };
        for member in listed.iter().filter(is_meant) {
            let going = MemberRemoveRequest { id: member.id };
            let remove = |channel| async move {
                let removed = ClusterClient::new(channel).member_remove(going).await;
                removed.map(drop)
            };
            self.call_any(remove).await?;
        }
        Ok(())
    }

    /// Lists the members by calling all of them at once. One that has no
    /// majority around it still reports what it knows.
    pub(super) async fn query(&self) -> Vec<Reported> {
        join_all(
            self.addresses
                .iter()
                .map(|address| self.query_member(address)),
        )
        .await
    }

    async fn query_member(&self, address: &str) -> Reported {
        let mut reported = Reported {
            address: address.to_owned(),
            knows: None,
            sure: None,
        };
        let Ok(channel) = self.channel(address) else {
            return reported;
        };
        let within = |call| tokio::time::timeout(QUERY_TIMEOUT, call);
        if let Ok(Ok(knows)) = within(list(channel.clone(), false)).await {
            reported.knows = Some(knows);
            let sure = within(list(channel, true)).await;
            reported.sure = sure.ok().and_then(Result::ok);
        }
        reported
    }

    /// All that etcd knows, in pieces, from the first member that answers.
    pub(super) async fn snapshot(&self) -> Result<Streaming<SnapshotResponse>, DriverError> {
        self.call_any(|channel| async move {
            let mut client = MaintenanceClient::new(channel);
            let answer = client.snapshot(SnapshotRequest {}).await;
            answer.map(Response::into_inner)
        })
        .await
    }

    /// Calls the members in turn until one answers.
    async fn call_any<T, F>(&self, call: impl Fn(Channel) -> F) -> Result<T, DriverError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut why = "no member is known".to_owned();
        for address in &self.addresses {
            let asked = async { call(self.channel(address)?).await };
            match tokio::time::timeout(REQUEST_TIMEOUT, asked).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => why = format!("{address}: {}", message(&status)),
                Err(_) => why = format!("{address}: no answer within {REQUEST_TIMEOUT:?}"),
            }
        }
        Err(silent(&why))
    }

    fn channel(&self, address: &str) -> Result<Channel, Status> {
        strata_etcd::channel(&format!("https://{address}"), &self.channels)
            .map_err(|error| Status::unavailable(error.0))
    }
}

async fn list(channel: Channel, linearizable: bool) -> Result<Vec<Member>, Status> {
    let request = MemberListRequest { linearizable };
    let answer = ClusterClient::new(channel).member_list(request).await?;
    Ok(answer.into_inner().members)
}

fn message(status: &Status) -> String {
    format!("{} ({:?})", status.message(), status.code())
}

fn silent(why: &str) -> DriverError {
    DriverError::Silent(format!("etcd: {why}"))
}
