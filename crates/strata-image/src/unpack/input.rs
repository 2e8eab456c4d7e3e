//! The stream under the tar: a thread that unpacks the compression, and the
//! feed on the caller's side that hashes what it gets and counts it.
//!
//! Buffers go round: full ones to the feed, empty ones back, so that a layer
//! of any size costs a handful of them.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use flate2::bufread::MultiGzDecoder;

use super::{Charge, ChargeHook, Limits, UnpackError};
use crate::{Digest, Hasher};

/// Large enough that switching threads costs nothing, small enough that a
/// buffer is still in the cache when it is written.
const CHUNK: usize = 256 << 10;
const IN_FLIGHT: usize = 4;
/// Windows up to 128 MiB, what `zstd` itself takes by default.
const ZSTD_WINDOW_LOG: u32 = 27;

enum InputChunk {
    Data(Vec<u8>),
    Failed(UnpackError),
    End,
}

type ProgressWatch<'a> = &'a (dyn Fn(u64) -> ControlFlow<()> + Sync);

/// Runs `work` on the unpacked bytes of `packed`.
pub(super) fn with<T>(
    packed: impl Read + Send,
    (limits, charge): (&Limits, ChargeHook<'_>),
    watch: ProgressWatch<'_>,
    work: impl FnOnce(&mut HashedInput) -> Result<T, UnpackError>,
) -> Result<T, UnpackError> {
    let (full, pieces) = sync_channel(IN_FLIGHT);
    let (back, empty) = sync_channel(IN_FLIGHT + 1);
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        let taken = &taken;
        thread::Builder::new()
            .name("layer-inflate".into())
            .spawn_scoped(scope, move || {
                let last = match inflate(packed, taken, watch, &full, &empty) {
                    Ok(()) => InputChunk::End,
                    Err(error) => InputChunk::Failed(error),
                };
                // There is no receiver any more when the other side gave up.
                let _ = full.send(last);
            })
            .map_err(UnpackError::Packing)?;
        let mut feed = HashedInput {
            pieces,
            back,
            current: Vec::new(),
            at: 0,
            ended: false,
            hasher: Hasher::default(),
            total: 0,
            taken,
            limits: *limits,
            charge,
        };
        work(&mut feed)
        // The feed goes here; the thread's next send fails and it ends.
    })
}

/// Counts packed bytes and lets the caller break off.
struct Counted<'a, R> {
    inner: R,
    taken: &'a AtomicU64,
    watch: ProgressWatch<'a>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        let before = self.taken.fetch_add(length as u64, Ordering::Relaxed);
        match (self.watch)(before + length as u64) {
            ControlFlow::Continue(()) => Ok(length),
            ControlFlow::Break(()) => Err(io::Error::other(UnpackError::Cancelled)),
        }
    }
}

fn inflate(
    packed: impl Read,
    taken: &AtomicU64,
    watch: ProgressWatch<'_>,
    full: &SyncSender<InputChunk>,
    empty: &Receiver<Vec<u8>>,
) -> Result<(), UnpackError> {
    let mut counted = Counted {
        inner: packed,
        taken,
        watch,
    };
    let mut magic = Vec::with_capacity(6);
    let peeked = counted.by_ref().take(6).read_to_end(&mut magic);
    peeked.map_err(UnpackError::from_read)?;
    let gzip = magic.starts_with(&[0x1f, 0x8b]);
    let zstd = magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    if magic.starts_with(b"BZh") {
        return Err(UnpackError::UnknownPacking("bzip2"));
    }
    if magic.starts_with(b"\xfd7zXZ\0") {
        return Err(UnpackError::UnknownPacking("xz"));
    }
    let packed = BufReader::with_capacity(CHUNK, Cursor::new(magic).chain(counted));
    if gzip {
        pump(MultiGzDecoder::new(packed), full, empty)
    } else if zstd {
        let mut decoder =
            zstd::stream::read::Decoder::with_buffer(packed).map_err(UnpackError::Packing)?;
        let bounded = decoder.window_log_max(ZSTD_WINDOW_LOG);
        bounded.map_err(UnpackError::Packing)?;
        pump(decoder, full, empty)
    } else {
        pump(packed, full, empty)
    }
}

fn pump(
    mut unpacked: impl Read,
    full: &SyncSender<InputChunk>,
    empty: &Receiver<Vec<u8>>,
) -> Result<(), UnpackError> {
    loop {
        let mut buffer = empty.try_recv().unwrap_or_default();
        buffer.resize(CHUNK, 0);
        let mut filled = 0;
        while filled < CHUNK {
            match unpacked.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(UnpackError::from_read(error)),
            }
        }
        let ended = filled < CHUNK;
        buffer.truncate(filled);
        if full.send(InputChunk::Data(buffer)).is_err() || ended {
            return Ok(());
        }
    }
}

/// The unpacked bytes, hashed and counted as they come in.
pub(super) struct HashedInput<'a> {
    pieces: Receiver<InputChunk>,
    back: SyncSender<Vec<u8>>,
    current: Vec<u8>,
    at: usize,
    ended: bool,
    hasher: Hasher,
    total: u64,
    taken: &'a AtomicU64,
    limits: Limits,
    charge: ChargeHook<'a>,
}

impl HashedInput<'_> {
    /// The digest and the number of all bytes that came in.
    pub(super) fn finish(&self) -> (Digest, u64) {
        (self.hasher.clone().finish(), self.total)
    }

    fn advance(&mut self) -> Result<(), UnpackError> {
        let spent = std::mem::take(&mut self.current);
        let _ = self.back.try_send(spent);
        self.at = 0;
        match self.pieces.recv() {
            Ok(InputChunk::Data(bytes)) => {
                self.count(bytes.len())?;
                self.hasher.update(&bytes);
                self.current = bytes;
                Ok(())
            }
            Ok(InputChunk::End) => {
                self.ended = true;
                Ok(())
            }
            Ok(InputChunk::Failed(error)) => Err(error),
            Err(_) => Err(UnpackError::Packing(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn count(&mut self, length: usize) -> Result<(), UnpackError> {
        self.total += length as u64;
        if self.total > self.limits.bytes {
            return Err(UnpackError::TooLarge(self.limits.bytes));
        }
        let packed = self.taken.load(Ordering::Relaxed).max(1);
        if self.total > self.limits.ratio_from && self.total / packed > self.limits.ratio {
            return Err(UnpackError::Bomb(self.limits.ratio));
        }
        (self.charge)(Charge::Bytes(length as u64))
    }
}

impl Read for HashedInput<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let length = bytes.len().min(buffer.len());
        buffer[..length].copy_from_slice(&bytes[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for HashedInput<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.current.len() && !self.ended {
            self.advance().map_err(io::Error::other)?;
        }
        Ok(&self.current[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}
