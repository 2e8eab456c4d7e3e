//! The one call that has no safe wrapper: making a tap.

#![allow(unsafe_code)]

use std::os::fd::AsFd;

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

const IFF_TAP: u16 = 0x0002;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
const TUNSETIFF: Opcode = opcode::write::<i32>(b'T', 202);

/// `struct ifreq` with its flags: a name, a number, and room.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// Makes the descriptor, an open `/dev/net/tun`, a tap of this name.
pub(crate) fn make_tap(tun: impl AsFd, name: &str) -> rustix::io::Result<()> {
    let mut request = InterfaceRequest {
        name: [0; 16],
        flags: IFF_TAP | IFF_NO_PI | IFF_VNET_HDR,
        rest: [0; 22],
    };
    let length = name.len().min(15);
    request.name[..length].copy_from_slice(&name.as_bytes()[..length]);
    // SAFETY: TUNSETIFF reads a `struct ifreq` and writes it back. That is 40
    // bytes and begins with the name and the flags, as this does.
    unsafe {
        let update: Updater<'_, TUNSETIFF, InterfaceRequest> = Updater::new(&mut request);
        ioctl(tun, update)
    }
}
