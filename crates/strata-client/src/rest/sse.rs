//! Server-sent events, read from bytes as they come.

/// The longest event that is read.
const MAX_EVENT_BYTES: usize = 8 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: String,
}

/// An event is longer than any that is sent.
#[derive(Debug, thiserror::Error)]
#[error("an event is longer than {MAX_EVENT_BYTES} bytes")]
pub(super) struct EventTooLong;

/// What was read of the events so far.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    /// A line that has not ended yet.
    rest: Vec<u8>,
    event: Event,
}

impl EventReader {
    /// Takes bytes, and gives the events that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, EventTooLong> {
        let mut complete = Vec::new();
        let mut bytes = bytes;
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.rest);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            complete.extend(self.line(&String::from_utf8_lossy(line)));
        }
        self.rest.extend_from_slice(bytes);
        match self.rest.len() + self.event.data.len() > MAX_EVENT_BYTES {
            true => Err(EventTooLong),
            false => Ok(complete),
        }
    }

    /// An empty line ends an event; one that begins with a colon says only
    /// that the other side is there.
    fn line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return (event != Event::default()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_whole_however_they_come_in() {
        let text =
            ": hello\n\nevent: put\ndata: {\"a\":\ndata: 1}\nid: 7\n\nevent:synced\r\n\r\ndata: x";
        let all = |step: usize| {
            let mut reader = EventReader::default();
            let parts = text.as_bytes().chunks(step);
            parts
                .flat_map(|part| reader.push(part).unwrap())
                .collect::<Vec<_>>()
        };
        let whole = all(text.len());
        assert_eq!(whole.len(), 2);
        assert_eq!(whole[0].name, "put");
        assert_eq!(whole[0].data, "{\"a\":\n1}");
        assert_eq!(whole[1].name, "synced");
        for step in 1..20 {
            assert_eq!(all(step), whole, "{step}");
        }
    }

    #[test]
    fn oversized_event_is_rejected() {
        let mut reader = EventReader::default();
        let line = [b'x'; 1 << 20];
        let mut fed = (0..20).map(|_| reader.push(&line));
        assert!(fed.any(|fed| fed.is_err()));
    }
}
