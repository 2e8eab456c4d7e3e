//! The reader: what the kernel answers, cut into messages and attributes.
//! Lengths are never believed beyond the bytes that are there.

use super::batch::HEADER;

/// One message from the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// What kind of message it is.
    pub(crate) kind: u16,
    /// Which request it answers.
    pub(crate) sequence: u32,
    /// Whose request it answers, or whose change it reports.
    pub(crate) port: u32,
    body: Vec<u8>,
}

impl Reply {
    /// What comes after the header.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The attributes after a family header of this size.
    pub(crate) fn attributes(&self, header: usize) -> Attributes<'_> {
        Attributes::new(self.body.get(header..).unwrap_or_default())
    }

    /// A number of the family header.
    pub(crate) fn header_u32(&self, at: usize) -> u32 {
        number(self.body.get(at..at + 4)).unwrap_or_default()
    }
}

/// Cuts what was received into messages.
pub(crate) fn replies(mut bytes: &[u8]) -> impl Iterator<Item = Reply> + '_ {
    std::iter::from_fn(move || {
        let length = number(bytes.get(0..4))? as usize;
        if length < HEADER || length > bytes.len() {
            return None;
        }
        let reply = Reply {
            kind: u16::from_ne_bytes([bytes[4], bytes[5]]),
            sequence: number(bytes.get(8..12))?,
            port: number(bytes.get(12..16))?,
            body: bytes[HEADER..length].to_vec(),
        };
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(reply)
    })
}

/// Attributes, found by kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Reads these bytes as attributes.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// All of them, in order.
    pub(crate) fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let length = usize::from(u16::from_ne_bytes([*rest.first()?, *rest.get(1)?]));
            let kind = u16::from_ne_bytes([*rest.get(2)?, *rest.get(3)?]) & 0x3fff;
            let value = rest.get(4..length)?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            Some((kind, value))
        })
    }

    /// The first of this kind.
    pub(crate) fn get(self, kind: u16) -> Option<&'a [u8]> {
        self.iter()
            .find(|(k, _)| *k == kind)
            .map(|(_, value)| value)
    }

    /// A number in the order of this machine.
    pub(crate) fn u32(self, kind: u16) -> Option<u32> {
        number(self.get(kind)?.get(0..4))
    }

    pub(crate) fn text(self, kind: u16) -> Option<&'a str> {
        let value = self.get(kind)?;
        let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
        std::str::from_utf8(&value[..end]).ok()
    }

    /// The attributes inside of one.
    pub(crate) fn nested(self, kind: u16) -> Attributes<'a> {
        Attributes(self.get(kind).unwrap_or_default())
    }
}

fn number(bytes: Option<&[u8]>) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes?.try_into().ok()?))
}
