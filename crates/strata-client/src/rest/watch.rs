//! Following objects: all there are, then each change as it happens.

use std::collections::VecDeque;
use std::marker::PhantomData;

use http_body_util::BodyExt as _;

use super::Resource;
use super::call::{Incoming, unreadable};
use super::sse::{Event, EventReader};
use crate::connection::Connection;
use crate::error::{Error, Result};

/// Something happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// It is so now.
    Put(T),
    /// It is gone; this is how it was.
    Delete(T),
    /// All that was there has been told; changes follow.
    Synced,
    /// Some changes were left out; all that is there is told again.
    Resync,
}

/// A stream of changes.
pub struct Watch<T> {
    connection: Connection,
    body: Incoming,
    reader: EventReader,
    waiting: VecDeque<Event>,
    of: PhantomData<fn() -> T>,
}

impl<T: Resource> Watch<T> {
    pub(super) fn new(connection: Connection, body: Incoming) -> Self {
        Self {
            connection,
            body,
            reader: EventReader::default(),
            waiting: VecDeque::new(),
            of: PhantomData,
        }
    }

    /// The next change; none when the server ended the stream. May be dropped
    /// and called again: nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Change<T>>> {
        loop {
            while let Some(event) = self.waiting.pop_front() {
                if let Some(change) = change(&event)? {
                    return Ok(Some(change));
                }
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            let frame = frame.map_err(|why| self.connection.broken(&why))?;
            if let Some(bytes) = frame.data_ref() {
                let events = self.reader.push(bytes).map_err(|why| unreadable(&why))?;
                self.waiting.extend(events);
            }
        }
    }
}

/// Events of kinds that are not known here are from a later version, and left
/// out.
fn change<T: Resource>(event: &Event) -> Result<Option<Change<T>>> {
    let object = || serde_json::from_str(&event.data).map_err(|why| unreadable(&why));
    Ok(Some(match event.name.as_str() {
        "put" => Change::Put(object()?),
        "delete" => Change::Delete(object()?),
        "synced" => Change::Synced,
        "resync" => Change::Resync,
        "error" => {
            let status = http::StatusCode::INTERNAL_SERVER_ERROR;
            let error = super::problem::error(status, event.data.as_bytes());
            return Err(Error::Answer(error));
        }
        _ => return Ok(None),
    }))
}
