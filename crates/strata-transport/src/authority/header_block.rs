//! A header block of HTTP/2 (RFC 7541), read just far enough to find values of
//! `:authority`.
//!
//! Values are replaced without knowing the dynamic table. The new one is never
//! longer, so the table of the decoder holds all that the client expects it to
//! hold, in the same places: entries are counted from the newest on.

/// What stands in place of the path of a socket.
const HOST: &[u8] = b"u";
/// `:authority` in the static table.
const AUTHORITY: usize = 1;
/// The same, spelled out and in Huffman's code.
const NAME: &[u8] = b":authority";
const NAME_HUFFMAN: &[u8] = &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f];
/// No integer in a header block needs more.
const LONGEST_INTEGER: usize = 1 << 24;

/// The block with every `:authority` replaced that has a value; none if it
/// cannot be read, which is left to the HTTP/2 library.
pub(super) fn without_authority(block: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader { rest: block };
    let mut out = Vec::with_capacity(block.len());
    while let Some(&first) = reader.rest.first() {
        let start = reader.rest;
        let prefix = match first {
            // One of the table's, or another size of the table.
            0x80.. | 0x20..=0x3f => {
                reader.integer(if first >= 0x80 { 7 } else { 5 })?;
                out.extend_from_slice(reader.since(start));
                continue;
            }
            0x40..=0x7f => 6,
            _ => 4,
        };
        let name = match reader.integer(prefix)? {
            0 => Name::of(&reader.string()?),
            AUTHORITY => Name::Authority,
            _ => Name::Other,
        };
        let before = reader.since(start);
        let value = reader.string()?;
        out.extend_from_slice(before);
        match name {
            Name::Authority if !value.bytes.is_empty() => {
                out.push(HOST.len() as u8);
                out.extend_from_slice(HOST);
            }
            _ => out.extend_from_slice(value.whole),
        }
    }
    Some(out)
}

#[derive(Clone, Copy)]
enum Name {
    Authority,
    Other,
}

impl Name {
    fn of(text: &Text<'_>) -> Self {
        let spelled = match text.huffman {
            true => NAME_HUFFMAN,
            false => NAME,
        };
        match text.bytes == spelled {
            true => Self::Authority,
            false => Self::Other,
        }
    }
}

/// A string as it stands in the block.
struct Text<'a> {
    huffman: bool,
    bytes: &'a [u8],
    /// Field type with a length prefix.
    whole: &'a [u8],
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// What was read since there was this much left.
    fn since(&self, start: &'a [u8]) -> &'a [u8] {
        &start[..start.len() - self.rest.len()]
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// An HPACK integer with a prefix of this many bits.
    fn integer(&mut self, prefix: u32) -> Option<usize> {
        let most = (1_usize << prefix) - 1;
        let first = usize::from(self.byte()?) & most;
        if first < most {
            return Some(first);
        }
        let mut value = most;
        // Longer ones are too large, or padded with zeros without an end.
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            value += usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return (value <= LONGEST_INTEGER).then_some(value);
            }
        }
        None
    }

    fn string(&mut self) -> Option<Text<'a>> {
        let start = self.rest;
        let huffman = *self.rest.first()? >= 0x80;
        let length = self.integer(7)?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Text {
            huffman,
            bytes,
            whole: self.since(start),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn literal(first: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
        let mut block = vec![first];
        if !name.is_empty() {
            block.push(name.len() as u8);
            block.extend_from_slice(name);
        }
        block.push(value.len() as u8);
        block.extend_from_slice(value);
        block
    }

    #[test]
    fn integer_without_an_end_is_refused() {
        for padding in [4, 9, 60] {
            let block = [&[0xff][..], &vec![0x80; padding], &[0x01]].concat();
            assert_eq!(without_authority(&block), None, "{padding}");
        }
        // Three groups of seven bits, the last of which is 1.
        let block = [0xff, 0x80, 0x80, 0x01];
        let read = Reader { rest: &block }.integer(7);
        assert_eq!(read, Some(127 + (1 << 14)));
    }

    #[test]
    fn authorities_are_replaced_in_every_form_and_nothing_else_is() {
        let path = b"%2Frun%2Fstrata%2Fnode.sock";
        let host = |first, name: &[u8]| literal(first, name, HOST);
        // Indexed or not, never indexed; by number and by name.
        for first in [0x41, 0x01, 0x11] {
            let block = literal(first, b"", path);
            assert_eq!(without_authority(&block).unwrap(), host(first, b""));
        }
        for first in [0x40, 0x00, 0x10] {
            let block = literal(first, NAME, path);
            assert_eq!(without_authority(&block).unwrap(), host(first, NAME));
        }
        let mut spelled = vec![0x40, 0x80 | NAME_HUFFMAN.len() as u8];
        spelled.extend_from_slice(NAME_HUFFMAN);
        let mut block = spelled.clone();
        block.extend_from_slice(&[0x83, 1, 2, 3]);
        spelled.extend_from_slice(&[1, b'u']);
        assert_eq!(without_authority(&block).unwrap(), spelled);

        // Another size, one of the table, another name, an empty value.
        let mut others = vec![0x3f, 0xe1, 0x1f, 0x82];
        others.extend(literal(0x44, b"", b"/strata.v1.Node/Info"));
        others.extend(literal(0x40, b"te", b"trailers"));
        others.extend(literal(0x41, b"", b""));
        assert_eq!(without_authority(&others).unwrap(), others);
        let mut all = others.clone();
        all.extend(literal(0x41, b"", path));
        all.extend_from_slice(&others);
        let mut expected = others.clone();
        expected.extend(host(0x41, b""));
        expected.extend_from_slice(&others);
        assert_eq!(without_authority(&all).unwrap(), expected);
    }

    #[test]
    fn truncated_or_oversized_request_names_no_object() {
        for bad in [
            &[0x41][..],
            &[0x41, 3, b'a'],
            &[0x40],
            &[
                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
            ],
            &[0x41, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(without_authority(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_and_never_grow(block: Vec<u8>) {
            if let Some(read) = without_authority(&block) {
                prop_assert!(read.len() <= block.len());
                prop_assert_eq!(without_authority(&read), Some(read.clone()));
            }
        }
    }
}
