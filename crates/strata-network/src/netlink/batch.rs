//! The writer: messages with nested attributes, one after the other.

use super::kinds::flag;

/// Length, kind, flags, sequence and port of one message.
pub(super) const HEADER: usize = 16;
const ALIGN: usize = 4;
const NESTED: u16 = 1 << 15;

/// Messages that are sent together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Where each message begins.
    starts: Vec<usize>,
}

impl Batch {
    /// Begins the next message; `header` is what its family puts in front of
    /// the attributes.
    pub(crate) fn message(&mut self, kind: u16, flags: u16, header: &[u8]) -> &mut Self {
        self.starts.push(self.bytes.len());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes
            .extend_from_slice(&(flags | flag::REQUEST).to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(header);
        self.close_message()
    }

    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.attribute(kind, value);
        self.close_message()
    }

    /// Adds a text with the zero byte that the kernel wants after it.
    pub(crate) fn put_text(&mut self, kind: u16, text: &str) -> &mut Self {
        let start = self.open(kind);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        self.close(start);
        self.close_message()
    }

    /// Adds a number in the order of this machine, as links and routes do.
    pub(crate) fn put_u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Adds a number in the order of the network, as nftables does.
    pub(crate) fn put_be32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_be_bytes())
    }

    /// Adds an attribute that has attributes.
    pub(crate) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.open(kind | NESTED);
        fill(self);
        self.close(start);
        self.close_message()
    }

    /// Adds bytes that are no attribute: a header inside of a nest.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self.pad();
        self.close_message()
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there is nothing to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Requests an answer to one message and numbers all of them.
    pub(super) fn seal(&mut self, first: u32, answered: usize) -> &[u8] {
        for (index, start) in self.starts.iter().enumerate() {
            let sequence = first.wrapping_add(index as u32);
            self.bytes[start + 8..start + 12].copy_from_slice(&sequence.to_ne_bytes());
            if index == answered {
                let mut flags = u16::from_ne_bytes([self.bytes[start + 6], self.bytes[start + 7]]);
                if flags & flag::DUMP != flag::DUMP {
                    flags |= flag::ACK;
                }
                self.bytes[start + 6..start + 8].copy_from_slice(&flags.to_ne_bytes());
            }
        }
        &self.bytes
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let start = self.open(kind);
        self.bytes.extend_from_slice(value);
        self.close(start);
    }

    fn open(&mut self, kind: u16) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        start
    }

    fn close(&mut self, start: usize) {
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.pad();
    }

    fn pad(&mut self) {
        let padded = self.bytes.len().next_multiple_of(ALIGN);
        self.bytes.resize(padded, 0);
    }

    fn close_message(&mut self) -> &mut Self {
        self.pad();
        if let Some(&start) = self.starts.last() {
            let length = (self.bytes.len() - start) as u32;
            self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::Attributes;
    use super::super::reply::replies;
    use super::*;

    #[test]
    fn netlink_batch_round_trips() {
        let mut batch = Batch::default();
        batch.message(7, 0, &[1, 2, 3, 4]).put_text(1, "abc");
        batch.message(8, 0, &[]).nest(2, |inner| {
            inner.put_u32(3, 5).put(4, &[9]);
        });
        let bytes = batch.seal(10, 1).to_vec();
        let read: Vec<_> = replies(&bytes).collect();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].kind, read[0].sequence), (7, 10));
        assert_eq!(read[0].attributes(4).text(1), Some("abc"));
        assert_eq!((read[1].kind, read[1].sequence), (8, 11));
        let outer = read[1].attributes(0);
        let inner = Attributes::new(outer.get(2).unwrap());
        assert_eq!(inner.u32(3), Some(5));
        assert_eq!(inner.get(4), Some(&[9][..]));
    }
}
