//! The datagrams between a node and its witnesses, read without a key: any host
//! may send one, and its code is checked later.
//!
//! ```text
//! request  "SWR1" nonce[16] lease_ms[4] name_length[1] name mac[32]
//! reply    "SWA1" nonce[16] promised[1] mac[32]
//! ```

pub(super) const REQUEST: &[u8; 4] = b"SWR1";
pub(super) const REPLY: &[u8; 4] = b"SWA1";
const NONCE: usize = 16;
const MAC: usize = 32;

/// A request for a promise. `code` is that of `body`, if it is a peer's.
pub(super) struct WitnessRequest<'a> {
    pub(super) nonce: &'a [u8],
    pub(super) lease_ms: u32,
    pub(super) name: &'a str,
    pub(super) body: &'a [u8],
    pub(super) code: &'a [u8],
}

/// A reply to one.
pub(super) struct WitnessReply<'a> {
    pub(super) promised: bool,
    pub(super) body: &'a [u8],
    pub(super) code: &'a [u8],
}

/// The request that a datagram is, if it is one.
pub(super) fn request(datagram: &[u8]) -> Option<WitnessRequest<'_>> {
    let (body, code) = parts(datagram)?;
    let rest = body.strip_prefix(REQUEST)?;
    let (nonce, rest) = rest.split_at_checked(NONCE)?;
    let (lease, rest) = rest.split_at_checked(4)?;
    let (length, name) = rest.split_first()?;
    if name.len() != usize::from(*length) {
        return None;
    }
    Some(WitnessRequest {
        nonce,
        lease_ms: u32::from_be_bytes(lease.try_into().ok()?),
        name: std::str::from_utf8(name).ok()?,
        body,
        code,
    })
}

/// The reply to the request with this nonce that a datagram is, if it is one.
pub(super) fn reply<'a>(datagram: &'a [u8], nonce: &[u8]) -> Option<WitnessReply<'a>> {
    let (body, code) = parts(datagram)?;
    match body.strip_prefix(REPLY)?.strip_prefix(nonce)? {
        [promised] => Some(WitnessReply {
            promised: *promised == 1,
            body,
            code,
        }),
        _ => None,
    }
}

/// What is said, and the code of it.
fn parts(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    datagram.split_at_checked(datagram.len().checked_sub(MAC)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        crate::replay::replay(&[("witness_message", |data| {
            let _ = request(data);
            let _ = reply(data, &data[data.len().min(4)..data.len().min(20)]);
        })]);
    }

    #[test]
    fn length_of_the_name_has_to_be_that_of_the_rest() {
        let datagram = |length: u8| {
            let head = [&REQUEST[..], &[7; NONCE], &9_u32.to_be_bytes()].concat();
            [&head[..], &[length], b"n1", &[1; MAC]].concat()
        };
        let right = datagram(2);
        let read = request(&right).unwrap();
        assert_eq!((read.name, read.lease_ms), ("n1", 9));
        assert_eq!((read.nonce, read.code), (&[7; NONCE][..], &[1; MAC][..]));
        for wrong in [0, 1, 3, 255] {
            assert!(request(&datagram(wrong)).is_none(), "{wrong}");
        }
    }
}
