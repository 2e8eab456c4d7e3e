//! `observe.LogItem`, written by hand: the generated one would copy every
//! line into a string of its own, twice on its way, and a log is millions of
//! lines. Here a line is a slice of the block it was read in, or of the
//! message it came in.

use std::fmt;
use std::ops::Deref;

use bytes::{Buf, BufMut, Bytes};
use prost::DecodeError;
use prost::encoding::{self, DecodeContext, WireType};

/// A text that shares its bytes.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Text(Bytes);

impl Text {
    /// A text that is part of the program.
    pub const fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// Bytes that should be text; what is not is shown as U+FFFD.
    pub fn from_lossy(bytes: Bytes) -> Self {
        match str::from_utf8(&bytes) {
            Ok(_) => Self(bytes),
            Err(_) => String::from_utf8_lossy(&bytes).into_owned().into(),
        }
    }

    pub fn as_str(&self) -> &str {
        // Checked when it was made; an empty text stands for the impossible.
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.as_str().to_owned()
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// `observe.LogItem`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogItem {
    /// Which output: `stdout`, `stderr`, `daemon`, or `strata` for a word of
    /// the node itself.
    pub channel: Text,
    /// The line, without its end.
    pub line: Text,
    /// Unix seconds.
    pub timestamp: i64,
}

const CHANNEL: u32 = 1;
const LINE: u32 = 2;
const TIMESTAMP: u32 = 3;

impl prost::Message for LogItem {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        for (tag, text) in [(CHANNEL, &self.channel), (LINE, &self.line)] {
            if !text.is_empty() {
                encoding::bytes::encode(tag, &text.0, buf);
            }
        }
        if self.timestamp != 0 {
            encoding::int64::encode(TIMESTAMP, &self.timestamp, buf);
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        let field = match tag {
            CHANNEL => &mut self.channel,
            LINE => &mut self.line,
            TIMESTAMP => return encoding::int64::merge(wire_type, &mut self.timestamp, buf, ctx),
            _ => return encoding::skip_field(wire_type, tag, buf, ctx),
        };
        encoding::bytes::merge(wire_type, &mut field.0, buf, ctx)?;
        if str::from_utf8(&field.0).is_err() {
            field.0.clear();
            #[allow(deprecated)]
            return Err(DecodeError::new("a string of LogItem is not UTF-8"));
        }
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        let text = |tag, text: &Text| match text.is_empty() {
            true => 0,
            false => encoding::bytes::encoded_len(tag, &text.0),
        };
        let time = match self.timestamp {
            0 => 0,
            time => encoding::int64::encoded_len(TIMESTAMP, &time),
        };
        text(CHANNEL, &self.channel) + text(LINE, &self.line) + time
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    /// As the generator would have made it.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Plain {
        #[prost(string, tag = "1")]
        channel: String,
        #[prost(string, tag = "2")]
        line: String,
        #[prost(int64, tag = "3")]
        timestamp: i64,
    }

    #[test]
    fn log_item_has_the_wire_format_of_the_generated_type() {
        for (channel, line, timestamp) in [
            ("stdout", "hello", 5),
            ("", "", 0),
            ("stderr", "ünï", -1),
            ("x", "", i64::MAX),
        ] {
            let plain = Plain {
                channel: channel.into(),
                line: line.into(),
                timestamp,
            };
            let item = LogItem {
                channel: channel.into(),
                line: line.into(),
                timestamp,
            };
            let bytes = plain.encode_to_vec();
            assert_eq!(item.encode_to_vec(), bytes);
            assert_eq!(item.encoded_len(), bytes.len());
            assert_eq!(LogItem::decode(bytes.as_slice()).unwrap(), item);
        }
    }

    #[test]
    fn non_utf8_input_is_rejected_or_shown() {
        assert!(LogItem::decode([0x12, 1, 0xff].as_slice()).is_err());
        assert_eq!(
            Text::from_lossy(Bytes::from_static(b"a\xffb")),
            "a\u{fffd}b"
        );
    }

    #[test]
    fn unknown_fields_are_passed_over() {
        assert_eq!(
            LogItem::decode([0xa2, 0x06, 1, b'x'].as_slice()).unwrap(),
            LogItem::default()
        );
    }
}
