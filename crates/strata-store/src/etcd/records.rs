//! Reading and writing entries of etcd.

use tonic::{Code, Status};

use super::Inner;
use super::entries::conflict;
use super::status::{fault, is_out_of_range};
use crate::limits::MAX_VALUE;
use crate::{Entry, LeaseId, Listing, Revision, StoreError, Transaction, Write};
use strata_etcd::KvClient;
use strata_etcd::etcdserverpb::{CompactionRequest, RangeRequest, RangeResponse, ResponseHeader};

/// How much a page of a listing should be, and how many entries it has at
/// most, the first one too: nothing is known then of how large they are.
const PAGE_BYTES: usize = 4 << 20;
const FIRST_PAGE: usize = 64;
const MAX_PAGE: usize = 10_000;
const MAX_ANSWER: usize = (FIRST_PAGE + 1) * (MAX_VALUE + 4096);

/// How often a listing begins again when its revision is compacted meanwhile.
const ATTEMPTS: usize = 3;

pub(super) async fn get(inner: &Inner, key: &str) -> Result<Option<Entry>, StoreError> {
    let request = RangeRequest {
        key: inner.prefix.key(key),
        ..RangeRequest::default()
    };
    let answer = range(inner, &request).await;
    let answer = answer.map_err(|status| fault(&status))?;
    let found = answer.kvs.into_iter().next();
    found.map(|found| inner.prefix.entry(found)).transpose()
}

/// Page by page, all of the revision of the first.
pub(super) async fn list(inner: &Inner, prefix: &str) -> Result<Listing, StoreError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match list_once(inner, prefix).await {
            Err(status) if is_out_of_range(&status) && attempts < ATTEMPTS => {}
            Err(status) => return Err(fault(&status)),
            Ok((found, revision)) => {
                let entries = found.into_iter().map(|it| inner.prefix.entry(it));
                return Ok(Listing {
                    entries: entries.collect::<Result<_, _>>()?,
                    revision,
                });
            }
        }
    }
}

type Found = Vec<strata_etcd::mvccpb::KeyValue>;

async fn list_once(inner: &Inner, prefix: &str) -> Result<(Found, Revision), Status> {
    let (key, range_end) = inner.prefix.range(prefix);
    let mut request = RangeRequest {
        key,
        range_end,
        limit: FIRST_PAGE as i64,
        ..RangeRequest::default()
    };
    let mut found = Found::new();
    loop {
        let answer = range(inner, &request).await?;
        if request.revision == 0 {
            request.revision = answer.header.unwrap_or_default().revision;
        }
        let page = answer.kvs;
        let Some(last) = page.last() else { break };
        request.key = [last.key.as_slice(), &[0]].concat();
        let bytes: usize = page.iter().map(|it| it.key.len() + it.value.len()).sum();
        let fitting = PAGE_BYTES / (bytes / page.len()).max(1);
        // Not too many more than before: the next may be larger.
        let most = MAX_PAGE.min(page.len() * 8);
        request.limit = fitting.clamp(1, most) as i64;
        found.extend(page);
        if !answer.more {
            break;
        }
    }
    Ok((found, request.revision.unsigned_abs()))
}

pub(super) async fn commit(
    inner: &Inner,
    transaction: Transaction,
) -> Result<Revision, StoreError> {
    let request = inner.prefix.transaction(&transaction);
    let call = |channel| async move { KvClient::new(channel).txn(request).await };
    let answer = match inner.members.write(call).await {
        Ok(answer) => answer.into_inner(),
        Err(status) if status.code() == Code::NotFound => {
            return Err(StoreError::NoSuchLease(lease_of(&transaction)));
        }
        Err(status) => return Err(fault(&status)),
    };
    if answer.succeeded {
        return Ok(revision(answer.header));
    }
    Err(conflict(&transaction.conditions, &answer))
}

/// Whether everything after a revision can still be delivered.
pub(super) async fn remembers(inner: &Inner, after: Revision) -> Result<(), StoreError> {
    let mut request = RangeRequest {
        key: inner.prefix.key("-"),
        revision: after.max(1).cast_signed(),
        count_only: true,
        ..RangeRequest::default()
    };
    let status = match range(inner, &request).await {
        Ok(_) => return Ok(()),
        Err(status) => status,
    };
    if !is_out_of_range(&status) {
        return Err(fault(&status));
    }
    request.revision = 0;
    let now = range(inner, &request).await;
    let now = now.map_err(|status| fault(&status))?;
    Err(StoreError::Compacted {
        oldest: revision(now.header),
    })
}

pub(super) async fn compact(inner: &Inner, revision: Revision) -> Result<(), StoreError> {
    let call = |channel| async move {
        let request = CompactionRequest {
            revision: revision.cast_signed(),
            physical: false,
        };
        KvClient::new(channel).compact(request).await
    };
    match inner.members.write(call).await {
        Ok(_) => Ok(()),
        Err(status) if is_out_of_range(&status) => Ok(()),
        Err(status) => Err(fault(&status)),
    }
}

async fn range(inner: &Inner, request: &RangeRequest) -> Result<RangeResponse, Status> {
    let call = |channel| async move {
        let client = KvClient::new(channel);
        let mut client = client.max_decoding_message_size(MAX_ANSWER);
        client.range(request.clone()).await
    };
    inner
        .members
        .read(call)
        .await
        .map(tonic::Response::into_inner)
}

fn revision(header: Option<ResponseHeader>) -> Revision {
    header.unwrap_or_default().revision.unsigned_abs()
}

/// etcd does not report which lease is gone; with one it is clear.
fn lease_of(transaction: &Transaction) -> LeaseId {
    let lease = |write: &Write| match write {
        Write::Put { lease, .. } => *lease,
        Write::Delete { .. } => None,
    };
    let first = transaction.writes.iter().find_map(lease);
    first.unwrap_or_default()
}
