//! The calls to the kernel that no safe library offers: those of btrfs, of
//! loop devices and of block devices. The only unsafe code of this crate.
//!
//! Arguments are plain bytes, put and read at the offsets of the kernel's user
//! API, which is the same on all 64-bit machines we build for. A request can
//! be made only here, with the size of its argument, and is only done with an
//! argument of that size: so the one unsafe call below is right for all.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// A request and the size of what the kernel reads and writes for it.
pub(crate) struct Request<const N: usize>(u32);

/// btrfs: the file system and its devices.
pub(crate) const FS_INFO: Request<1024> = Request(0x8400_941f);
pub(crate) const DEV_INFO: Request<4096> = Request(0xd000_941e);
pub(crate) const DEV_STATS: Request<1032> = Request(0xc408_9434);
pub(crate) const ADD_DEV: Request<4096> = Request(0x5000_940a);
pub(crate) const RM_DEV_V2: Request<4096> = Request(0x5000_943a);
pub(crate) const DEV_REPLACE: Request<2600> = Request(0xca28_9435);
pub(crate) const RESIZE: Request<4096> = Request(0x5000_9403);
pub(crate) const SCRUB: Request<1024> = Request(0xc400_941b);
pub(crate) const SCRUB_CANCEL: Request<0> = Request(0x0000_941c);
pub(crate) const SCRUB_PROGRESS: Request<1024> = Request(0xc400_941d);
pub(crate) const BALANCE_V2: Request<1024> = Request(0xc400_9420);
pub(crate) const SYNC: Request<0> = Request(0x0000_9408);
pub(crate) const TREE_SEARCH: Request<4096> = Request(0xd000_9411);
/// btrfs: subvolumes and their quotas.
pub(crate) const SUBVOL_CREATE_V2: Request<4096> = Request(0x5000_9418);
/// The only pointer in its argument is read, and only with a flag we never set.
pub(crate) const SNAP_CREATE_V2: Request<4096> = Request(0x5000_9417);
pub(crate) const SNAP_DESTROY_V2: Request<4096> = Request(0x5000_943f);
pub(crate) const SUBVOL_INFO: Request<504> = Request(0x81f8_943c);
pub(crate) const SUBVOL_SETFLAGS: Request<8> = Request(0x4008_941a);
pub(crate) const QUOTA_CTL: Request<16> = Request(0xc010_9428);
pub(crate) const QUOTA_RESCAN: Request<64> = Request(0x4040_942c);
pub(crate) const QUOTA_RESCAN_WAIT: Request<0> = Request(0x0000_942e);
pub(crate) const QGROUP_LIMIT: Request<48> = Request(0x8030_942b);
/// Block devices and loop devices.
pub(crate) const BLOCK_SIZE: Request<8> = Request(0x8008_1272);
pub(crate) const LOOP_FREE: Request<0> = Request(0x4c82);
pub(crate) const LOOP_CONFIGURE: Request<304> = Request(0x4c0a);
pub(crate) const LOOP_STATUS: Request<232> = Request(0x4c05);
pub(crate) const LOOP_CLEAR: Request<0> = Request(0x4c01);

/// The argument of a request.
pub(crate) struct Bytes<const N: usize>(Box<[u8; N]>);

impl<const N: usize> Bytes<N> {
    pub(crate) fn new() -> Self {
        Self(Box::new([0; N]))
    }

    pub(crate) fn with(mut self, at: usize, number: u64) -> Self {
        self.0[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        self
    }

    pub(crate) fn with_u32(mut self, at: usize, number: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        self
    }

    /// A text that ends with a zero, in a place of `room` bytes.
    pub(crate) fn with_text(mut self, at: usize, room: usize, text: &[u8]) -> Result<Self, Errno> {
        if text.len() >= room {
            return Err(Errno::NAMETOOLONG);
        }
        self.0[at..at + text.len()].copy_from_slice(text);
        Ok(self)
    }

    pub(crate) fn get(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }

    pub(crate) fn array<const M: usize>(&self, at: usize) -> [u8; M] {
        let mut array = [0; M];
        array.copy_from_slice(&self.0[at..at + M]);
        array
    }

    /// The text from here to the first zero.
    pub(crate) fn text(&self, at: usize) -> &[u8] {
        let text = &self.0[at..];
        &text[..text
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(text.len())]
    }
}

/// Does a request; what the kernel answers is in the argument afterwards.
pub(crate) fn ioctl<const N: usize>(
    fd: impl AsFd,
    request: &Request<N>,
    argument: &mut Bytes<N>,
) -> Result<i32, Errno> {
    // SAFETY: the argument lives through the call and is as large as what the
    // kernel reads and writes for this request, which was made above with
    // this size; a request of size 0 has no argument.
    check(unsafe {
        libc::ioctl(
            fd.as_fd().as_raw_fd(),
            libc::Ioctl::from(request.0),
            argument.0.as_mut_ptr(),
        )
    })
}

/// A kind of block groups: what they are for and how often they keep it, how
/// large they are, and what is used of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct SpaceInfo {
    pub(crate) flags: u64,
    pub(crate) total: u64,
    pub(crate) used: u64,
}

/// All kinds of block groups. Apart from the others, because its answer holds
/// its own length.
pub(crate) fn space_info(fd: impl AsFd) -> Result<Vec<SpaceInfo>, Errno> {
    const SPACE_INFO: libc::Ioctl = 0xc010_9414;
    const MOST: usize = 64;
    #[repr(C)]
    struct Spaces {
        slots: u64,
        total: u64,
        spaces: [SpaceInfo; MOST],
    }
    let none = SpaceInfo {
        flags: 0,
        total: 0,
        used: 0,
    };
    let mut answer = Spaces {
        slots: MOST as u64,
        total: 0,
        spaces: [none; MOST],
    };
    // SAFETY: the kernel writes no more entries than there are slots.
    check(unsafe {
        libc::ioctl(
            fd.as_fd().as_raw_fd(),
            SPACE_INFO,
            std::ptr::from_mut(&mut answer),
        )
    })?;
    let count = usize::try_from(answer.total).unwrap_or(MOST).min(MOST);
    Ok(answer.spaces[..count].to_vec())
}

fn check(result: i32) -> Result<i32, Errno> {
    if result == -1 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(result)
}

/// Cancels a balance. Its argument is a number instead of a place.
pub(crate) fn cancel_balance(fd: impl AsFd) -> Result<(), Errno> {
    const BALANCE_CTL: libc::Ioctl = 0x4004_9421;
    const CANCEL: libc::c_int = 2;
    // SAFETY: the kernel takes the number for what it is.
    check(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), BALANCE_CTL, CANCEL) }).map(drop)
}
