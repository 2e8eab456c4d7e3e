//! The walk over a stream: extension headers are folded into the entry that
//! follows them, and data is handed out where it lies.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek as _};

use super::header::{BLOCK, Block, Header};
use super::pax::{Pax, integer};
use super::{Entry, Kind, TarError, sparse};

/// The largest long name or set of PAX records that is kept. Extended
/// attributes are up to 64 KiB each.
const MAX_EXTENSION: u64 = 1 << 20;

/// Reads entries from a stream. Data of the current entry is taken with
/// `data` and `consume`; what is not taken is skipped.
pub(crate) struct TarReader<R> {
    stream: R,
    left: u64,
    padding: u64,
}

/// What precedes an entry and belongs to it.
#[derive(Default)]
struct PendingHeaders {
    pax: Option<Pax>,
    long_path: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl<R: BufRead> TarReader<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self {
            stream,
            left: 0,
            padding: 0,
        }
    }

    /// The next entry; none at the end. Call it until then, and then
    /// `finish`, for the digest to cover all of the stream.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, TarError> {
        self.skip_rest()?;
        let mut ahead = PendingHeaders::default();
        loop {
            let Some(block) = self.header_block()? else {
                return Ok(None);
            };
            let header = Header::parse(&block)?;
            match header.flag {
                b'x' => ahead.pax = Some(Pax::parse(&self.extension(header.size)?)?),
                b'L' => ahead.long_path = Some(self.long_name(header.size)?),
                b'K' => ahead.long_link = Some(self.long_name(header.size)?),
                // Notes on the archive as a whole; no builder puts anything
                // about files there.
                b'g' => drop(self.extension(header.size)?),
                _ => return self.entry(header, ahead, &block).map(Some),
            }
        }
    }

    /// The next bytes of the entry; empty at its end.
    pub(crate) fn data(&mut self) -> Result<&[u8], TarError> {
        if self.left == 0 {
            return Ok(&[]);
        }
        let bytes = self.stream.fill_buf()?;
        if bytes.is_empty() {
            return Err(TarError::Truncated);
        }
        let length = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        Ok(&bytes[..length])
    }

    /// Marks bytes that `data` gave as taken.
    pub(crate) fn consume(&mut self, count: usize) {
        self.stream.consume(count);
        self.left = self.left.saturating_sub(count as u64);
    }

    /// Reads what follows the last entry, and gives the stream back.
    pub(crate) fn finish(mut self) -> Result<R, TarError> {
        loop {
            let length = self.stream.fill_buf()?.len();
            if length == 0 {
                return Ok(self.stream);
            }
            self.stream.consume(length);
        }
    }

    fn entry(
        &mut self,
        header: Header,
        ahead: PendingHeaders,
        block: &Block,
    ) -> Result<Entry, TarError> {
        let pax = ahead.pax.unwrap_or_default();
        let path = pax.path.or(ahead.long_path);
        let kind = header.kind(path.as_ref().unwrap_or(&header.path))?;
        // Links and directories may carry a size, but no data.
        let stored = match kind {
            Kind::File => pax.size.unwrap_or(header.size),
            // POSIX lets a hard link repeat the data.
            Kind::HardLink if header.flag == b'1' => pax.size.unwrap_or(header.size),
            _ => 0,
        };
        self.begin(stored)?;
        let small = |value: u64, what| u32::try_from(value).map_err(|_| TarError::Number(what));
        let mut entry = Entry {
            kind,
            path: path.unwrap_or(header.path),
            link: pax.link.or(ahead.long_link).unwrap_or(header.link),
            mode: header.mode & 0o7777,
            uid: small(pax.uid.unwrap_or(header.uid), "uid")?,
            gid: small(pax.gid.unwrap_or(header.gid), "gid")?,
            mtime: pax.mtime.unwrap_or((header.mtime, 0)),
            device: header.device,
            stored,
            size: stored,
            sparse: None,
            xattrs: pax.xattrs,
        };
        if header.flag == b'S' {
            let (mut spans, mut more, size) = sparse::from_gnu_header(block)?;
            // The map's own blocks are not counted in the size.
            let data = (self.left, self.padding);
            while more {
                let block = self.block()?.ok_or(TarError::Truncated)?;
                more = sparse::from_gnu_extension(&block, &mut spans)?;
            }
            (self.left, self.padding) = data;
            (entry.size, entry.sparse) = (size, Some(spans));
        } else if kind == Kind::File && pax.sparse.map_in_data {
            entry.sparse = Some(self.map_in_data()?);
            entry.size = pax.sparse.size.ok_or(TarError::Sparse)?;
            entry.stored = self.left;
        } else if let (Kind::File, Some(map)) = (kind, &pax.sparse.map) {
            entry.sparse = Some(sparse::from_pairs(map)?);
            entry.size = pax.sparse.size.ok_or(TarError::Sparse)?;
        }
        if let Some(spans) = &entry.sparse {
            sparse::check(spans, entry.size, entry.stored)?;
            if let Some(name) = pax.sparse.name {
                entry.path = name;
            }
        }
        Ok(entry)
    }

    /// PAX 1.0: a count and then numbers, a line each, padded to a block.
    fn map_in_data(&mut self) -> Result<Vec<sparse::Span>, TarError> {
        let mut numbers = Vec::new();
        let mut wanted = None;
        let mut line = Vec::new();
        while wanted.is_none_or(|wanted| numbers.len() < wanted) {
            if self.left < BLOCK as u64 {
                return Err(TarError::Sparse);
            }
            let block = self.block()?.ok_or(TarError::Truncated)?;
            self.left -= BLOCK as u64;
            for byte in block {
                if wanted.is_some_and(|wanted| numbers.len() >= wanted) {
                    break;
                }
                if byte != b'\n' {
                    line.push(byte);
                    continue;
                }
                let number = integer(&line, "sparse map")?;
                line.clear();
                match wanted {
                    None => wanted = Some(sparse::pair_count(number)?),
                    Some(_) => numbers.push(number),
                }
            }
        }
        sparse::from_pairs(&numbers)
    }

    fn long_name(&mut self, size: u64) -> Result<Vec<u8>, TarError> {
        let mut name = self.extension(size)?;
        let end = name.iter().position(|byte| *byte == 0);
        name.truncate(end.unwrap_or(name.len()));
        Ok(name)
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>, TarError> {
        if size > MAX_EXTENSION {
            return Err(TarError::ExtensionTooLarge(size));
        }
        self.begin(size)?;
        let mut bytes = Vec::new();
        loop {
            let piece = self.data()?;
            if piece.is_empty() {
                break;
            }
            bytes.extend_from_slice(piece);
            let length = piece.len();
            self.consume(length);
        }
        self.skip_rest()?;
        Ok(bytes)
    }

    fn begin(&mut self, size: u64) -> Result<(), TarError> {
        let padded = size.checked_next_multiple_of(BLOCK as u64);
        self.padding = padded.ok_or(TarError::Number("size"))? - size;
        self.left = size;
        Ok(())
    }

    fn skip_rest(&mut self) -> Result<(), TarError> {
        self.left += self.padding;
        self.padding = 0;
        loop {
            let length = self.data()?.len();
            if length == 0 {
                return Ok(());
            }
            self.consume(length);
        }
    }

    /// A header; none at a block of zeroes or at the end of the stream,
    /// because some writers leave the zeroes out.
    fn header_block(&mut self) -> Result<Option<Block>, TarError> {
        Ok(self
            .block()?
            .filter(|block| block.iter().any(|byte| *byte != 0)))
    }

    fn block(&mut self) -> Result<Option<Block>, TarError> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            let bytes = self.stream.fill_buf()?;
            if bytes.is_empty() {
                return if filled == 0 {
                    Ok(None)
                } else {
                    Err(TarError::Truncated)
                };
            }
            let length = bytes.len().min(BLOCK - filled);
            block[filled..filled + length].copy_from_slice(&bytes[..length]);
            self.stream.consume(length);
            filled += length;
        }
        Ok(Some(block))
    }
}

impl TarReader<BufReader<File>> {
    /// Where the data of the entry lies in the file; moves past it unread.
    pub(crate) fn seek_past(&mut self) -> Result<u64, TarError> {
        let at = self.stream.stream_position()?;
        let length = self.left + self.padding;
        let length = i64::try_from(length).map_err(|_| TarError::Number("size"))?;
        let end = self.stream.get_ref().metadata()?.len();
        if at.checked_add(self.left).is_none_or(|last| last > end) {
            return Err(TarError::Truncated);
        }
        self.stream.seek_relative(length)?;
        (self.left, self.padding) = (0, 0);
        Ok(at)
    }
}
