//! Keys and entries there and back: the prefix, ranges, transactions.

use crate::{Condition, Entry, LeaseId, StoreError, Transaction, Write};
use strata_etcd::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use strata_etcd::etcdserverpb::request_op::Request;
use strata_etcd::etcdserverpb::response_op::Response;
use strata_etcd::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse,
};
use strata_etcd::mvccpb::KeyValue;

/// What stands before every key.
#[derive(Clone, Debug)]
pub(super) struct Prefix(String);

impl Prefix {
    pub(super) fn new(prefix: &str) -> Self {
        Self(prefix.to_owned())
    }

    pub(super) fn key(&self, key: &str) -> Vec<u8> {
        [self.0.as_bytes(), key.as_bytes()].concat()
    }

    /// The keys that begin with `prefix`: the first, and the first after.
    pub(super) fn range(&self, prefix: &str) -> (Vec<u8>, Vec<u8>) {
        let mut first = self.key(prefix);
        let mut end = first.clone();
        while end.last() == Some(&0xff) {
            end.pop();
        }
        match end.last_mut() {
            Some(last) => *last += 1,
            // All keys there are; etcd expresses it with a zero.
            None => {
                end = vec![0];
                if first.is_empty() {
                    first = vec![0];
                }
            }
        }
        (first, end)
    }

    pub(super) fn entry(&self, found: KeyValue) -> Result<Entry, StoreError> {
        Ok(Entry {
            key: self.own(found.key)?,
            value: found.value,
            created: found.create_revision.unsigned_abs(),
            changed: found.mod_revision.unsigned_abs(),
            lease: (found.lease != 0).then_some(LeaseId(found.lease)),
        })
    }

    /// A key as we call it.
    pub(super) fn own(&self, key: Vec<u8>) -> Result<String, StoreError> {
        let key = String::from_utf8(key).ok();
        let own = key.and_then(|key| key.strip_prefix(&self.0).map(str::to_owned));
        own.ok_or_else(|| StoreError::Broken("etcd holds a key that is not ours".to_owned()))
    }

    /// A transaction. When it cannot be, etcd returns the state of the keys
    /// that it was conditional on.
    pub(super) fn transaction(&self, transaction: &Transaction) -> TxnRequest {
        let look = |condition: &Condition| {
            op(Request::RequestRange(RangeRequest {
                key: self.key(condition.key()),
                keys_only: true,
                ..RangeRequest::default()
            }))
        };
        let conditions = &transaction.conditions;
        TxnRequest {
            compare: conditions.iter().map(|it| self.compare(it)).collect(),
            success: transaction.writes.iter().map(|it| self.write(it)).collect(),
            failure: conditions.iter().map(look).collect(),
        }
    }

    fn compare(&self, condition: &Condition) -> Compare {
        let (target, wanted) = match condition {
            Condition::Absent(_) => (CompareTarget::Create, TargetUnion::CreateRevision(0)),
            Condition::Unchanged(_, revision) => {
                let wanted = TargetUnion::ModRevision(revision.cast_signed());
                (CompareTarget::Mod, wanted)
            }
        };
        Compare {
            result: CompareResult::Equal.into(),
            target: target.into(),
            key: self.key(condition.key()),
            target_union: Some(wanted),
        }
    }

    fn write(&self, write: &Write) -> RequestOp {
        op(match write {
            Write::Put { key, value, lease } => Request::RequestPut(PutRequest {
                key: self.key(key),
                value: value.clone(),
                lease: lease.map_or(0, |lease| lease.0),
            }),
            Write::Delete { key } => {
                Request::RequestDeleteRange(DeleteRangeRequest { key: self.key(key) })
            }
        })
    }
}

fn op(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

/// Which condition of a transaction did not hold.
pub(super) fn conflict(conditions: &[Condition], answer: &TxnResponse) -> StoreError {
    let holds = |condition: &Condition, found: Option<&KeyValue>| match condition {
        Condition::Absent(_) => found.is_none(),
        Condition::Unchanged(_, revision) => {
            found.is_some_and(|it| it.mod_revision == revision.cast_signed())
        }
    };
    let failed = conditions.iter().zip(&answer.responses).find(|(it, op)| {
        let found = match &op.response {
            Some(Response::ResponseRange(range)) => range.kvs.first(),
            _ => None,
        };
        !holds(it, found)
    });
    let failed = failed.map(|(it, _)| it).or(conditions.first());
    StoreError::Conflict {
        key: failed.map(|it| it.key().to_owned()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::Prefix;

    #[test]
    fn a_range_ends_before_the_first_key_that_begins_otherwise() {
        let strata = Prefix::new("strata/");
        let range = |first: &[u8], end: &[u8]| (first.to_vec(), end.to_vec());
        assert_eq!(strata.range("a"), range(b"strata/a", b"strata/b"));
        assert_eq!(strata.range(""), range(b"strata/", b"strata0"));
        assert_eq!(Prefix::new("").range(""), range(b"\0", b"\0"));
        assert_eq!(strata.own(b"strata/a/b".to_vec()).unwrap(), "a/b");
        assert!(strata.own(b"other".to_vec()).is_err());
    }
}
