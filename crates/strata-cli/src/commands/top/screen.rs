//! A terminal taken over for a while, in plain ANSI, and given back as it
//! was, whichever way we leave.

use std::io::{self, Read as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use crate::printer::terminal_size;
use crate::session::Session;

/// The alternate screen, no cursor, no wrapping of long lines.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &[u8] = b"\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The terminal while it is ours.
pub(crate) struct Screen<'a> {
    session: &'a mut Session,
    saved: Option<Termios>,
}

impl<'a> Screen<'a> {
    /// Takes the terminal. Keys come one by one and unseen; Ctrl-C still is a
    /// signal.
    pub(crate) fn enter(session: &'a mut Session) -> io::Result<Self> {
        let saved = tcgetattr(io::stdin()).ok();
        if let Some(saved) = &saved {
            let mut modes = saved.clone();
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
        }
        // From here on, leaving gives all of it back.
        let screen = Self { session, saved };
        screen.session.printer.data(ENTER)?;
        Ok(screen)
    }

    /// Replaces what is on the screen, without flicker.
    pub(crate) fn draw(&mut self, text: &str) -> io::Result<()> {
        let (_, rows) = terminal_size();
        let mut frame = String::from("\x1b[H");
        for line in text.lines().take(rows.saturating_sub(1)) {
            frame.push_str(line);
            frame.push_str("\x1b[K\n");
        }
        frame.push_str("\x1b[J");
        self.session.printer.data(frame.as_bytes())
    }

    /// The session that the terminal belongs to.
    pub(crate) fn session(&self) -> &Session {
        self.session
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        let _ = self.session.printer.data(LEAVE);
        if let Some(saved) = &self.saved {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, saved);
        }
    }
}

/// The keys that are pressed. The thread ends with the process: a read from
/// a terminal cannot be called off.
pub(crate) fn keys() -> mpsc::Receiver<u8> {
    let (sender, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        for key in io::stdin().lock().bytes() {
            let Ok(key) = key else { return };
            if sender.blocking_send(key).is_err() {
                return;
            }
        }
    });
    keys
}
