//! Lets clients in over a Unix socket that name its path as the authority.
//!
//! gRPC's C core (Python, C++, Ruby, PHP, C#) sends `:authority: %2Frun%2F…`
//! and gRPC for Java the plain path. Neither is an authority by RFC 3986, and
//! the HTTP/2 library ends the stream with PROTOCOL_ERROR before any handler is
//! called. On a Unix socket no authority is needed; so it is replaced on the
//! way in, before the library reads it. Nothing else of a connection is
//! touched, and nothing of one that does not speak HTTP/2.

mod header_block;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use header_block::without_authority;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length, type, flags, stream.
const FRAME_HEADER: usize = 9;
const HEADERS: u8 = 0x1;
const CONTINUATION: u8 = 0x9;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// Length of the dependency and weight of a PRIORITY block.
const PRIORITY_LENGTH: usize = 5;
/// The largest frame that is allowed by default, and so by the library.
const LARGEST_FRAME: usize = 16_384;
/// The most that a header block may have here; one that is larger goes on as
/// it is.
const LARGEST_BLOCK: usize = 128 << 10;
/// How much is read at once.
const READ_BYTES: usize = 16 << 10;

/// A stream whose reader finds no path of a socket as an authority.
pub(crate) struct WithoutAuthority<S> {
    inner: S,
    state: State,
    /// Read, and not parsed yet.
    input: BytesMut,
    output: BytesMut,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The first bytes show whether it is HTTP/2.
    Beginning,
    Frame,
    /// So much of a frame goes on as it is.
    Passing(usize),
    /// A header block whose end has not come.
    Block {
        first: [u8; FRAME_HEADER],
        block: Vec<u8>,
        priority: Vec<u8>,
    },
    /// All that follows goes on as it is.
    Transparent,
}

impl<S> WithoutAuthority<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self {
            inner,
            state: State::Beginning,
            input: BytesMut::new(),
            output: BytesMut::new(),
        }
    }

    /// Moves from the input to the output what can be.
    fn advance(&mut self) {
        loop {
            match &mut self.state {
                State::Beginning => {
                    let length = self.input.len().min(PREFACE.len());
                    if self.input[..length] != PREFACE[..length] {
                        self.state = State::Transparent;
                    } else if length == PREFACE.len() {
                        let preface = self.input.split_to(PREFACE.len());
                        self.output.extend_from_slice(&preface);
                        self.state = State::Frame;
                    } else {
                        return;
                    }
                }
                State::Passing(left) => {
                    let length = self.input.len().min(*left);
                    let passing = self.input.split_to(length);
                    self.output.extend_from_slice(&passing);
                    *left -= length;
                    if *left > 0 {
                        return;
                    }
                    self.state = State::Frame;
                }
                State::Transparent => {
                    let all = self.input.split();
                    self.output.extend_from_slice(&all);
                    return;
                }
                State::Frame | State::Block { .. } => {
                    if !self.frame() {
                        return;
                    }
                }
            }
        }
    }

    /// Takes in the next frame; false when more of it has to come.
    fn frame(&mut self) -> bool {
        let Some(header) = self.input.first_chunk::<FRAME_HEADER>().copied() else {
            return false;
        };
        let length =
            usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
        let is_part = matches!(&self.state, State::Block { first, .. }
            if header[3] == CONTINUATION && header[5..] == first[5..]);
        let is_block = header[3] == HEADERS && self.state == State::Frame;
        if length > LARGEST_FRAME || !(is_part || is_block) {
            // Not what can come here, or nothing to do with headers: left to
            // the library.
            self.give_up_block();
            self.state = State::Passing(FRAME_HEADER + length);
            return true;
        }
        if self.input.len() < FRAME_HEADER + length {
            return false;
        }
        let frame = self.input.split_to(FRAME_HEADER + length);
        let payload = &frame[FRAME_HEADER..];
        let ends = header[4] & END_HEADERS != 0;
        match &mut self.state {
            State::Block { block, .. } => block.extend_from_slice(payload),
            _ => match fragment(header[4], payload) {
                Some((priority, fragment)) => {
                    self.state = State::Block {
                        first: header,
                        block: fragment.to_vec(),
                        priority: priority.to_vec(),
                    };
                }
                None => {
                    self.output.extend_from_slice(&frame);
                    return true;
                }
            },
        }
        match &self.state {
            State::Block { block, .. } if ends || block.len() > LARGEST_BLOCK => {
                self.end_block(ends);
            }
            _ => {}
        }
        true
    }

    /// What was gathered of a block goes on as it came.
    fn give_up_block(&mut self) {
        if let State::Block { .. } = &self.state {
            self.end_block(false);
        }
    }

    /// Writes a block in frames, without its authority where it is whole.
    fn end_block(&mut self, whole: bool) {
        let State::Block {
            first,
            block,
            priority,
        } = std::mem::replace(&mut self.state, State::Frame)
        else {
            return;
        };
        let block = match whole {
            true => without_authority(&block).unwrap_or(block),
            false => block,
        };
        let room = LARGEST_FRAME - priority.len();
        let (head, mut rest) = block.split_at(block.len().min(room));
        // The end of the stream and the priority stay; padding went.
        let flags = first[4] & !(PADDED | END_HEADERS);
        let stream = &first[5..];
        let last = |rest: &[u8]| {
            if whole && rest.is_empty() {
                END_HEADERS
            } else {
                0
            }
        };
        let out = &mut self.output;
        put_frame(out, HEADERS, flags | last(rest), stream, &[&priority, head]);
        while !rest.is_empty() {
            let (next, after) = rest.split_at(rest.len().min(LARGEST_FRAME));
            rest = after;
            put_frame(out, CONTINUATION, last(rest), stream, &[next]);
        }
    }
}

/// The priority of a HEADERS frame and its part of the block, without padding.
fn fragment(flags: u8, payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let payload = match flags & PADDED != 0 {
        true => {
            let (padding, rest) = payload.split_first()?;
            &rest[..rest.len().checked_sub(usize::from(*padding))?]
        }
        false => payload,
    };
    match flags & PRIORITY != 0 {
        true => payload.split_at_checked(PRIORITY_LENGTH),
        false => Some((&[], payload)),
    }
}

fn put_frame(out: &mut BytesMut, kind: u8, flags: u8, stream: &[u8], parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(stream);
    for part in parts {
        out.extend_from_slice(part);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WithoutAuthority<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if !this.output.is_empty() {
                let length = this.output.len().min(buffer.remaining());
                buffer.put_slice(&this.output[..length]);
                this.output.advance(length);
                return Poll::Ready(Ok(()));
            }
            // What needs no inspection goes straight to the reader.
            let straight = match this.state {
                State::Transparent => usize::MAX,
                State::Passing(left) if this.input.is_empty() => left,
                _ => 0,
            };
            if straight > 0 {
                let room = straight.min(buffer.remaining());
                let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
                ready!(Pin::new(&mut this.inner).poll_read(context, &mut part))?;
                let read = part.filled().len();
                buffer.advance(read);
                if let State::Passing(left) = &mut this.state {
                    *left -= read;
                    if *left == 0 {
                        this.state = State::Frame;
                    }
                }
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; READ_BYTES];
            let mut part = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut part))?;
            if part.filled().is_empty() {
                // The end, wherever it came: what is left goes on as it is.
                this.give_up_block();
                let rest = this.input.split();
                this.output.extend_from_slice(&rest);
                if this.output.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            this.input.extend_from_slice(part.filled());
            this.advance();
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WithoutAuthority<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
