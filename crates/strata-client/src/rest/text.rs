//! Text that comes piece by piece, for as long as it comes.

use bytes::Bytes;
use http_body_util::BodyExt as _;

use super::call::Incoming;
use crate::connection::Connection;
use crate::error::Result;

/// A stream of text. Its pieces end anywhere, also within a character.
pub struct TextStream {
    connection: Connection,
    body: Incoming,
}

impl TextStream {
    pub(super) fn new(connection: Connection, body: Incoming) -> Self {
        Self { connection, body }
    }

    /// The next piece; none when the server ended the stream. May be dropped
    /// and called again: nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|why| self.connection.broken(&why))?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}
