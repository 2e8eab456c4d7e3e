//! Messages with the daemon: one seqpacket each, file descriptors beside it.

use core::mem::MaybeUninit;

use crate::sys::{self, Message};
use crate::wire::{MAGIC, MAX_FDS, MAX_MESSAGE, Reply, Request, VERSION};

const HEADER: usize = 16;
// In whole words of 8 bytes.
const CONTROL: usize = (HEADER + 4 * MAX_FDS).next_multiple_of(8);
const RIGHTS: [i32; 2] = [1, 1];
const TRUNCATED: usize = 0x20 | 0x08;

/// The message being looked at, and the files that came with it.
#[repr(C, align(8))]
pub struct Inbox {
    bytes: [u8; MAX_MESSAGE],
    len: usize,
    fds: [i32; MAX_FDS],
    fd_count: usize,
}

impl Inbox {
    pub const EMPTY: Self = Self { bytes: [0; MAX_MESSAGE], len: 0, fds: [0; MAX_FDS], fd_count: 0 };

    pub fn request(&self) -> Option<Request> {
        if self.len < size_of::<Request>() {
            return None;
        }
        // SAFETY: long enough, and any bytes are a valid Request.
        let request = unsafe { self.bytes.as_ptr().cast::<Request>().read_unaligned() };
        (request.magic == MAGIC).then_some(request)
    }

    /// What follows the request. Its last byte is NUL where there is one.
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(size_of::<Request>()..self.len).unwrap_or(&[])
    }

    pub fn fds(&self) -> &[i32] {
        &self.fds[..self.fd_count]
    }

    pub fn close_fds(&mut self) {
        self.fds().iter().for_each(|fd| sys::close(*fd));
        self.fd_count = 0;
    }
}

/// A connection from the daemon.
pub struct Link {
    fd: i32,
    pub subscribed: bool,
}

/// A reply without content yet.
pub fn ok() -> Reply {
    Reply { magic: MAGIC, version: VERSION, ..Reply::default() }
}

impl Link {
    pub fn new(fd: i32) -> Self {
        Self { fd, subscribed: false }
    }

    pub fn close(self) {
        sys::close(self.fd);
    }

    /// Receives the next message; false when there is none now.
    pub fn receive(&self, inbox: &mut Inbox) -> sys::Result<bool> {
        let mut control = [0u64; CONTROL / 8];
        let mut iov = [inbox.bytes.as_mut_ptr() as usize, MAX_MESSAGE];
        let mut message = Message {
            name: 0,
            name_len: 0,
            iov: &raw mut iov,
            iov_len: 1,
            control: control.as_mut_ptr().cast(),
            control_len: CONTROL,
            flags: 0,
        };
        let len = match sys::receive(self.fd, &mut message) {
            Ok(0) => return Err(sys::EPROTO),
            Ok(len) => len,
            Err(sys::EAGAIN | sys::EINTR) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        inbox.len = len;
        inbox.fd_count = 0;
        let control_len = control[0] as usize;
        let kind = [control[1] as i32, (control[1] >> 32) as i32];
        if message.control_len >= HEADER && kind == RIGHTS && control_len <= CONTROL {
            inbox.fd_count = (control_len - HEADER) / 4;
            for (i, fd) in inbox.fds[..inbox.fd_count].iter_mut().enumerate() {
                *fd = (control[2 + i / 2] >> (32 * (i % 2))) as i32;
            }
        }
        if message.flags & TRUNCATED != 0 {
            inbox.close_fds();
            return Err(sys::EPROTO);
        }
        Ok(true)
    }

    /// Sends a reply, and with it `pid` as a credential, which the kernel
    /// translates into what the receiver calls that process, and a file.
    pub fn send(&self, reply: &Reply, pid: i32, fd: Option<i32>) -> sys::Result<()> {
        const CREDENTIALS: u64 = 1 | 2 << 32;
        const FILE: u64 = 1 | 1 << 32;
        let mut control = [
            HEADER as u64 + 12,
            CREDENTIALS,
            pid as u64,
            0,
            HEADER as u64 + 4,
            FILE,
            fd.unwrap_or(0) as u64,
        ];
        let mut iov = [&raw const *reply as usize, size_of::<Reply>()];
        let message = Message {
            name: 0,
            name_len: 0,
            iov: &raw mut iov,
            iov_len: 1,
            control: control.as_mut_ptr().cast(),
            control_len: if fd.is_some() { 56 } else { 32 },
            flags: 0,
        };
        sys::send(self.fd, &message).map(drop)
    }
}

/// The bytes of a plain record.
pub fn bytes_of<T: Copy>(record: &T) -> &[u8] {
    let bytes = (&raw const *record).cast::<MaybeUninit<u8>>();
    // SAFETY: the records of `wire` have no padding, so every byte is set.
    unsafe { core::slice::from_raw_parts(bytes.cast(), size_of::<T>()) }
}
