//! What is typed or piped in, as it comes. A read cannot be called off, so a
//! thread of its own does it; it ends with the input or with the process.

use std::io::{self, BufRead, Read as _};

use tokio::sync::mpsc;

/// The bytes that come in; ends where the input ends.
pub(crate) type Keyboard = mpsc::Receiver<Vec<u8>>;

/// What a pipe holds, so that one read can empty it.
const CHUNK: usize = 64 << 10;
/// How many of them may wait: whoever types faster than the other side reads
/// is made to wait.
const CHANNEL_CAPACITY: usize = 4;

/// Reads `input` from now on.
pub(crate) fn keyboard(mut input: Box<dyn BufRead + Send>) -> Keyboard {
    let (sender, keyboard) = mpsc::channel(CHANNEL_CAPACITY);
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = match input.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => read,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                // A terminal that hung up: nothing more will come.
                Err(_) => return,
            };
            if sender.blocking_send(buffer[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    keyboard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn merged_logs_are_in_order() {
        let bytes: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
        let mut keys = keyboard(Box::new(io::Cursor::new(bytes.clone())));
        let mut got = Vec::new();
        while let Some(chunk) = keys.recv().await {
            assert!(chunk.len() <= CHUNK);
            got.extend(chunk);
        }
        assert_eq!(got, bytes);
    }
}
