//! Leases of etcd. They last whole seconds, and not less than a few of
//! etcd's own heartbeats: a shorter one is rounded up.

use std::time::Duration;

use tonic::{Code, Request, Status};

use super::Inner;
use super::status::fault;
use crate::{LeaseId, StoreError};
use strata_etcd::LeaseClient;
use strata_etcd::etcdserverpb::{LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest};

pub(super) async fn grant(inner: &Inner, ttl: Duration) -> Result<LeaseId, StoreError> {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    let request = LeaseGrantRequest {
        ttl: seconds.cast_signed(),
    };
    let call = |channel| async move { LeaseClient::new(channel).lease_grant(request).await };
    let answer = inner.members.write(call).await;
    let answer = answer.map_err(|status| fault(&status))?.into_inner();
    if !answer.error.is_empty() {
        return Err(StoreError::Unavailable(answer.error));
    }
    Ok(LeaseId(answer.id))
}

/// Safe to repeat, so another member may be called.
pub(super) async fn keep_alive(inner: &Inner, lease: LeaseId) -> Result<(), StoreError> {
    let call = |channel| async move {
        let request = LeaseKeepAliveRequest { id: lease.0 };
        let request = Request::new(tokio_stream::once(request));
        let mut client = LeaseClient::new(channel);
        let mut answers = client.lease_keep_alive(request).await?.into_inner();
        let answer = answers.message().await?;
        answer.ok_or_else(|| Status::unavailable("the stream was closed"))
    };
    match inner.members.read(call).await {
        Ok(answer) if answer.ttl > 0 => Ok(()),
        Ok(_) => Err(StoreError::NoSuchLease(lease)),
        Err(status) if status.code() == Code::NotFound => Err(StoreError::NoSuchLease(lease)),
        Err(status) => Err(fault(&status)),
    }
}

/// Idempotent, so another member may be called.
pub(super) async fn revoke(inner: &Inner, lease: LeaseId) -> Result<(), StoreError> {
    let call = |channel| async move {
        let request = LeaseRevokeRequest { id: lease.0 };
        LeaseClient::new(channel).lease_revoke(request).await
    };
    match inner.members.read(call).await {
        Ok(_) => Ok(()),
        Err(status) if status.code() == Code::NotFound => Ok(()),
        Err(status) => Err(fault(&status)),
    }
}
