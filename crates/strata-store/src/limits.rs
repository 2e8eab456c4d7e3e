//! How large things may be, the same for every engine.
//!
//! The bounds are those of etcd as it comes, a little below where it counts its
//! own framing too. What sealing adds is not counted. What the embedded engine
//! takes, etcd takes: no limit surfaces on the day of moving.

use std::collections::HashSet;
use std::time::Duration;

use crate::sealed::plain_length;
use crate::{Condition, StoreError, Transaction, Write};

/// The longest key, in bytes.
pub const MAX_KEY: usize = 512;

/// The largest value, in bytes.
pub const MAX_VALUE: usize = 1 << 20;

/// How many writes a transaction has at most, and how many conditions.
pub const MAX_OPERATIONS: usize = 128;

/// Keys and values of one transaction together, in bytes.
pub const MAX_TRANSACTION: usize = MAX_VALUE + (256 << 10);

pub const MAX_LEASE: Duration = Duration::from_secs(365 * 24 * 3600);

/// How large a transaction is: keys and values.
pub(crate) fn size(transaction: &Transaction) -> usize {
    let writes = transaction.writes.iter().map(|write| match write {
        Write::Put { key, value, .. } => key.len() + plain_length(value),
        Write::Delete { key } => key.len(),
    });
    let conditions = transaction.conditions.iter().map(|it| it.key().len());
    writes.chain(conditions).sum()
}

/// Whether a transaction is one that any store takes.
pub(crate) fn check(transaction: &Transaction) -> Result<(), StoreError> {
    at_most("conditions", transaction.conditions.len(), MAX_OPERATIONS)?;
    at_most("writes", transaction.writes.len(), MAX_OPERATIONS)?;
    for condition in &transaction.conditions {
        check_key(condition.key())?;
        if let Condition::Unchanged(key, 0) = condition {
            return Err(StoreError::Invalid(format!(
                "{key} cannot be unchanged since revision 0: nothing was written then"
            )));
        }
    }
    let mut keys = HashSet::with_capacity(transaction.writes.len());
    for write in &transaction.writes {
        check_key(write.key())?;
        if let Write::Put { key, value, .. } = write
            && plain_length(value) > MAX_VALUE
        {
            return Err(StoreError::Invalid(format!(
                "the value of {key} has {} bytes, {MAX_VALUE} are allowed",
                plain_length(value)
            )));
        }
        if !keys.insert(write.key()) {
            return Err(StoreError::Invalid(format!(
                "{} is written twice in one transaction",
                write.key()
            )));
        }
    }
    at_most("bytes", size(transaction), MAX_TRANSACTION)
}

/// Whether a key is one.
pub(crate) fn check_key(key: &str) -> Result<(), StoreError> {
    if key.is_empty() {
        return Err(StoreError::Invalid("a key is empty".to_owned()));
    }
    if key.len() > MAX_KEY {
        return Err(StoreError::Invalid(format!(
            "a key has {} bytes, {MAX_KEY} are allowed",
            key.len()
        )));
    }
    Ok(())
}

/// Whether a lease may last that long.
pub(crate) fn check_ttl(ttl: Duration) -> Result<(), StoreError> {
    if ttl < Duration::from_millis(1) || ttl > MAX_LEASE {
        return Err(StoreError::Invalid(format!(
            "a lease of {ttl:?}; it must last a millisecond and at most {MAX_LEASE:?}"
        )));
    }
    Ok(())
}

fn at_most(what: &str, found: usize, most: usize) -> Result<(), StoreError> {
    if found > most {
        return Err(StoreError::Invalid(format!(
            "a transaction of {found} {what}, {most} are allowed"
        )));
    }
    Ok(())
}
