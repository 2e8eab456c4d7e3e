//! The loopback is there from the start but down, and a machine without it
//! cannot talk to itself. All other interfaces are the start hook's.

use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

/// In every network namespace the loopback is the first interface.
const INDEX: u32 = 1;
const NEW_LINK: u16 = 16;
const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
const UP: u32 = 1;
/// Length of a message's header, and of one that changes a link.
const HEADER: usize = 16;
const MESSAGE: u32 = 32;

/// Brings it up; the kernel gives it its addresses.
pub(super) fn up() -> io::Result<()> {
    // No protocol named means the one for links, addresses and routes.
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut answer = [0; 512];
    let (_, length) = recv(&socket, &mut answer, RecvFlags::empty())?;
    // Behind the header stands an errno, negative, or zero for done.
    match answer[..length].get(HEADER..HEADER + 4) {
        Some(&[a, b, c, d]) => match i32::from_ne_bytes([a, b, c, d]) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error)),
        },
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// `struct nlmsghdr`, then `struct ifinfomsg`.
fn request() -> Vec<u8> {
    let sequence_and_sender = [1u32, 0];
    let family_and_type = 0u32;
    let mut bytes = MESSAGE.to_ne_bytes().to_vec();
    bytes.extend(
        [NEW_LINK, REQUEST_AND_ACKNOWLEDGE]
            .iter()
            .flat_map(|n| n.to_ne_bytes()),
    );
    bytes.extend(sequence_and_sender.iter().flat_map(|n| n.to_ne_bytes()));
    let flags_and_which_of_them = [UP, UP];
    bytes.extend(
        [family_and_type, INDEX]
            .iter()
            .flat_map(|n| n.to_ne_bytes()),
    );
    bytes.extend(flags_and_which_of_them.iter().flat_map(|n| n.to_ne_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_as_long_as_it_says() {
        assert_eq!(request().len(), MESSAGE as usize);
    }
}
