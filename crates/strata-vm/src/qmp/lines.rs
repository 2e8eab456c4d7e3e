//! Lines with a bound: what is on the other side of the socket may have been
//! taken over by its guest.

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use super::QmpError;

/// The longest line. QEMU's longest answers to our requests are some kilobytes.
const MAX_LINE_LEN: usize = 1 << 20;

/// The lines of a stream.
pub(super) struct Lines<R> {
    from: BufReader<R>,
    begun: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from: BufReader::new(from),
            begun: Vec::new(),
        }
    }

    /// The next line; none at the end. Nothing is lost when the caller stops
    /// waiting and calls again.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, QmpError> {
        loop {
            let bytes = self
                .from
                .fill_buf()
                .await
                .map_err(|e| QmpError::of_io(&e))?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(bytes.len());
            if self.begun.len() + taken > MAX_LINE_LEN {
                let why = format!("a line longer than {MAX_LINE_LEN} bytes");
                return Err(QmpError::Garbage(why));
            }
            self.begun.extend_from_slice(&bytes[..taken]);
            self.from.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.begun)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_whole_and_a_torn_one_does_not() {
        let mut lines = Lines::new(&b"one\r\n\ntwo\nthr"[..]);
        assert_eq!(lines.next().await.unwrap().unwrap(), b"one\r");
        assert_eq!(lines.next().await.unwrap().unwrap(), b"");
        assert_eq!(lines.next().await.unwrap().unwrap(), b"two");
        assert_eq!(lines.next().await, Ok(None));
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_given_up() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'));
        assert!(matches!(lines.next().await, Err(QmpError::Garbage(_))));
    }
}
