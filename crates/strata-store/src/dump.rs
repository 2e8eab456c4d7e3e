//! All records as lines of JSON, to look at, to keep, to move to another
//! engine.
//!
//! ```text
//! {"format":"strata-store","version":1,"revision":812}
//! {"key":"instance/0192…","text":"{…}"}
//! {"key":"blob","base64":"AAEC"}
//! {"count":2,"sha256":"…"}
//! ```
//!
//! The last line counts the entries and sums up all lines before it, so a
//! file that was cut is known. Keys that go with a lease are left out: their
//! owners put them there again. Revisions are not kept: the other store has
//! its own.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::limits::{MAX_KEY, MAX_OPERATIONS, MAX_TRANSACTION, MAX_VALUE};
use crate::{Entry, Listing, Revision, Store, StoreError, Transaction};

const FORMAT: &str = "strata-store";
const VERSION: u32 = 1;

/// While an import is under way this key holds its checksum; it goes with the
/// last batch. A store that has it is not whole.
pub const IMPORT_KEY: &str = "store/import";

/// The longest line there can be: JSON writes a byte with six at most.
const MAX_LINE: u64 = 6 * (MAX_VALUE + MAX_KEY) as u64 + 1024;

/// Why records were not exported or imported.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Reading or writing the file failed.
    #[error("the export: {0}")]
    Io(#[from] std::io::Error),
    /// A line is not what it should be.
    #[error("line {line} of the export: {what}")]
    Line {
        /// Which, from 1 on.
        line: usize,
        what: String,
    },
    /// The end is missing.
    #[error("the export was cut: its last line is missing")]
    Cut,
    /// The sum does not match.
    #[error("the export was changed: its checksum is not that of its last line")]
    Changed,
    /// It was written by a newer release.
    #[error("the export has version {found}, this release knows {VERSION}")]
    Newer { found: u32 },
    /// There are records already.
    #[error("the store is not empty: it has {key}")]
    NotEmpty {
        /// One of its keys.
        key: String,
    },
    /// Another import was begun and not ended.
    #[error("an import of another file was begun: import that one again, or empty the store")]
    Interrupted,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
    revision: Revision,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Footer {
    count: usize,
    sha256: String,
}

/// Writes all records as they are at one revision. The answer is how many
/// they are.
///
/// # Errors
/// When the store or the writer fails.
pub async fn export(
    store: &dyn Store,
    writer: &mut (dyn AsyncWrite + Send + Unpin),
) -> Result<usize, DumpError> {
    let Listing { entries, revision } = store.list("").await?;
    if let Some(unfinished) = entries.iter().find(|it| it.key == IMPORT_KEY) {
        tracing::warn!(
            key = unfinished.key,
            "store incomplete: an import was started and not finished"
        );
        return Err(DumpError::Interrupted);
    }
    let mut sum = Sha256::new();
    let mut count = 0;
    let header = Header {
        format: FORMAT.to_owned(),
        version: VERSION,
        revision,
    };
    write_line(writer, &mut sum, &header).await?;
    for entry in entries.into_iter().filter(|it| it.lease.is_none()) {
        write_line(writer, &mut sum, &record(entry)).await?;
        count += 1;
    }
    let footer = Footer {
        count,
        sha256: hex(sum.clone()),
    };
    write_line(writer, &mut sum, &footer).await?;
    writer.flush().await?;
    Ok(count)
}

/// Reads records into an empty store. All of the file is read and checked
/// before anything is written. When it fails in the middle, the same file can
/// be imported again and goes on. The answer is how many records there are.
///
/// # Errors
/// When the file is cut, changed or unknown, when the store has something
/// else in it, or when either fails.
pub async fn import(
    store: &dyn Store,
    reader: &mut (dyn AsyncBufRead + Send + Unpin),
) -> Result<usize, DumpError> {
    let (records, sum) = read(reader).await?;
    let there = begin(store, &sum).await?;
    let count = records.len();
    let missing = records.into_iter().filter(|(key, _)| {
        let found = there
            .entries
            .binary_search_by(|it| it.key.as_str().cmp(key));
        found.is_err()
    });
    for transaction in batches(missing) {
        store.commit(transaction).await?;
    }
    store.commit(Transaction::new().delete(IMPORT_KEY)).await?;
    Ok(count)
}

/// Takes the store for this import, or finds that it was begun.
async fn begin(store: &dyn Store, sum: &str) -> Result<Listing, DumpError> {
    let listing = store.list("").await?;
    let Some(first) = listing.entries.first() else {
        let mark = Transaction::new().if_absent(IMPORT_KEY);
        store.commit(mark.put(IMPORT_KEY, sum.to_owned())).await?;
        return Ok(listing);
    };
    match listing.entries.iter().find(|it| it.key == IMPORT_KEY) {
        Some(mark) if mark.value == sum => Ok(listing),
        Some(_) => Err(DumpError::Interrupted),
        None => Err(DumpError::NotEmpty {
            key: first.key.clone(),
        }),
    }
}

/// Transactions of new keys, each as large as one may be.
fn batches(records: impl Iterator<Item = (String, Bytes)>) -> impl Iterator<Item = Transaction> {
    let mut records = records.peekable();
    std::iter::from_fn(move || {
        let (mut transaction, mut size) = (Transaction::new(), 0);
        let fits = |size: usize, key: &str, value: &Bytes| {
            size + 2 * key.len() + value.len() <= MAX_TRANSACTION
        };
        while transaction.writes.len() < MAX_OPERATIONS
            && let Some((key, value)) = records.next_if(|(key, value)| fits(size, key, value))
        {
            size += 2 * key.len() + value.len();
            transaction = transaction.if_absent(key.clone()).put(key, value);
        }
        (!transaction.writes.is_empty()).then_some(transaction)
    })
}

type Records = Vec<(String, Bytes)>;

/// All records of a file, checked, and their sum.
pub(crate) async fn read(
    reader: &mut (dyn AsyncBufRead + Send + Unpin),
) -> Result<(Records, String), DumpError> {
    let mut sum = Sha256::new();
    let mut records = Records::new();
    let mut line = String::new();
    let mut number = 0;
    loop {
        line.clear();
        number += 1;
        let wrong = |what: &str| DumpError::Line {
            line: number,
            what: what.to_owned(),
        };
        let length = (&mut *reader).take(MAX_LINE).read_line(&mut line).await;
        if length? == 0 || !line.ends_with('\n') {
            let long = line.len() as u64 >= MAX_LINE;
            return Err(if long {
                wrong("too long")
            } else {
                DumpError::Cut
            });
        }
        if number == 1 {
            let header: Header =
                serde_json::from_str(&line).map_err(|_| wrong("not a header of an export"))?;
            if header.format != FORMAT {
                return Err(wrong("not an export of a store"));
            }
            if header.version != VERSION {
                return Err(DumpError::Newer {
                    found: header.version,
                });
            }
        } else if let Ok(record) = serde_json::from_str::<Record>(&line) {
            let key = record.key.clone();
            let value = value(record).ok_or_else(|| wrong("it has no value"))?;
            let usable = Transaction::new().put(key.clone(), value.clone());
            crate::limits::check(&usable).map_err(|error| wrong(&error.to_string()))?;
            if records.last().is_some_and(|(last, _)| *last >= key) {
                return Err(wrong("its key is not after the one before"));
            }
            records.push((key, value));
        } else {
            let footer: Footer =
                serde_json::from_str(&line).map_err(|_| wrong("not an entry of an export"))?;
            let found = hex(sum);
            if footer.sha256 != found || footer.count != records.len() {
                return Err(DumpError::Changed);
            }
            if !reader.fill_buf().await?.is_empty() {
                return Err(wrong("more follows the end"));
            }
            return Ok((records, found));
        }
        sum.update(line.as_bytes());
    }
}

fn record(entry: Entry) -> Record {
    let text = str::from_utf8(&entry.value).ok().map(str::to_owned);
    let base64 = match &text {
        Some(_) => None,
        None => Some(BASE64_STANDARD.encode(&entry.value)),
    };
    Record {
        key: entry.key,
        text,
        base64,
    }
}

fn value(record: Record) -> Option<Bytes> {
    match (record.text, record.base64) {
        (Some(text), None) => Some(text.into()),
        (None, Some(base64)) => BASE64_STANDARD.decode(base64).ok().map(Bytes::from),
        _ => None,
    }
}

async fn write_line(
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    sum: &mut Sha256,
    line: &impl Serialize,
) -> Result<(), DumpError> {
    let mut line = serde_json::to_vec(line).map_err(std::io::Error::other)?;
    line.push(b'\n');
    sum.update(&line);
    Ok(writer.write_all(&line).await?)
}

fn hex(sum: Sha256) -> String {
    sum.finalize()
        .iter()
        .map(|it| format!("{it:02x}"))
        .collect()
}
