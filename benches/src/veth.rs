//! A pair of interfaces, one end in another's network namespace: the least
//! that a network of one's own is made of. One message to the kernel.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::Result;

const NEWLINK: u16 = 16;
/// A request that is answered, and makes something new.
const REQUEST_ACK_CREATE_EXCL: u16 = 0x1 | 0x4 | 0x400 | 0x200;
const IFNAME: u16 = 3;
const LINKINFO: u16 = 18;
const NET_NS_PID: u16 = 19;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const UP: u32 = 1;
/// Where the error stands in an answer.
const ERROR_AT: std::ops::Range<usize> = 16..20;

/// Makes the interface `name` here and its peer in the namespace of `pid`.
pub(crate) fn make(name: &str, pid: i32) -> Result {
    let mut peer = interface(0);
    attribute(&mut peer, IFNAME, b"eth0\0");
    attribute(&mut peer, NET_NS_PID, &pid.to_ne_bytes());
    let mut data = Vec::new();
    attribute(&mut data, VETH_PEER, &peer);
    let mut info = Vec::new();
    attribute(&mut info, INFO_KIND, b"veth");
    attribute(&mut info, INFO_DATA, &data);
    let mut body = interface(UP);
    attribute(&mut body, IFNAME, format!("{name}\0").as_bytes());
    attribute(&mut body, LINKINFO, &info);
    let mut message = Vec::new();
    message.extend((body.len() as u32 + 16).to_ne_bytes());
    message.extend(NEWLINK.to_ne_bytes());
    message.extend(REQUEST_ACK_CREATE_EXCL.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    let mut socket = std::fs::File::from(socket()?);
    socket.write_all(&message)?;
    let mut answer = [0; 4096];
    let length = socket.read(&mut answer)?;
    let error = answer[..length].get(ERROR_AT).ok_or("a short answer")?;
    match i32::from_ne_bytes(error.try_into()?) {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(-error).into()),
    }
}

fn socket() -> Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Routes, addresses and interfaces are the family's first protocol.
        None,
    )?;
    rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// What every message about an interface begins with.
fn interface(flags: u32) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes
}

fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend((value.len() as u16 + 4).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}
