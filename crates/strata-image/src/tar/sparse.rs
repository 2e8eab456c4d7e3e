//! Files with holes: which stored bytes go where.

use super::TarError;
use super::header::{Block, unsigned};

/// More than any real file has; a map is held in memory.
const MAX_SPANS: usize = 1 << 20;

/// A run of stored bytes and where in the file it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: u64,
    pub(crate) length: u64,
}

/// Spans in order, apart, within the file, and as long together as the data.
pub(super) fn check(spans: &[Span], size: u64, stored: u64) -> Result<(), TarError> {
    let (mut end, mut total) = (0_u64, 0_u64);
    for span in spans {
        if span.at < end {
            return Err(TarError::Sparse);
        }
        end = span.at.checked_add(span.length).ok_or(TarError::Sparse)?;
        total += span.length;
    }
    if end > size || total != stored || spans.len() > MAX_SPANS {
        return Err(TarError::Sparse);
    }
    Ok(())
}

/// Offsets and lengths in turn, as PAX 0.0 and 0.1 have them.
pub(super) fn from_pairs(numbers: &[u64]) -> Result<Vec<Span>, TarError> {
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() || pairs.len() > MAX_SPANS {
        return Err(TarError::Sparse);
    }
    let span = |[at, length]: &[u64; 2]| Span {
        at: *at,
        length: *length,
    };
    Ok(pairs.iter().map(span).collect())
}

/// What an old GNU header holds: up to four spans, whether a block of more
/// follows, and the size of the file.
pub(super) fn from_gnu_header(block: &Block) -> Result<(Vec<Span>, bool, u64), TarError> {
    let mut spans = Vec::new();
    gnu_spans(&block[386..482], &mut spans)?;
    Ok((
        spans,
        block[482] != 0,
        unsigned(&block[483..495], "sparse size")?,
    ))
}

/// A block of further spans; whether another follows.
pub(super) fn from_gnu_extension(block: &Block, spans: &mut Vec<Span>) -> Result<bool, TarError> {
    gnu_spans(&block[..504], spans)?;
    if spans.len() > MAX_SPANS {
        return Err(TarError::Sparse);
    }
    Ok(block[504] != 0)
}

fn gnu_spans(field: &[u8], spans: &mut Vec<Span>) -> Result<(), TarError> {
    for pair in field.chunks_exact(24) {
        if pair[0] == 0 {
            break;
        }
        spans.push(Span {
            at: unsigned(&pair[..12], "sparse map")?,
            length: unsigned(&pair[12..], "sparse map")?,
        });
    }
    Ok(())
}

/// How many numbers a PAX 1.0 map has, from its first line.
pub(super) fn pair_count(count: u64) -> Result<usize, TarError> {
    let count = usize::try_from(count).map_err(|_| TarError::Sparse)?;
    if count > MAX_SPANS {
        return Err(TarError::Sparse);
    }
    Ok(count * 2)
}
