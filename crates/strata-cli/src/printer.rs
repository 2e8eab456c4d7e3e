//! The one place that writes. Data goes to stdout, everything for people to
//! stderr; a pipe gets neither colour nor cut lines.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::failure::Failure;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Style of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    Good,
    Warn,
    Bad,
    Dim,
    Bold,
}

impl Style {
    /// `text` with the escape codes of this style.
    pub(crate) fn paint(self, text: &str, color: bool) -> String {
        let code = match self {
            _ if !color => return text.to_owned(),
            Self::Plain => return text.to_owned(),
            Self::Good => "32",
            Self::Warn => "33",
            Self::Bad => "31",
            Self::Dim => "2",
            Self::Bold => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Poll interval for a closed stdout.
const READER_POLL_INTERVAL: Duration = Duration::from_secs(1);

type Sink = Box<dyn Write + Send>;

/// Output streams and their formatting.
pub struct Printer {
    out: Sink,
    err: Sink,
    /// Colour on stdout.
    pub(crate) color: bool,
    color_err: bool,
    /// Maximum line width; `None` if stdout is not a terminal.
    pub(crate) width: Option<usize>,
    terminal: bool,
    quiet: bool,
    of_process: bool,
}

impl Printer {
    /// The streams of this process.
    pub fn of_process(color: Color, quiet: bool) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let colored = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                terminal
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        };
        Self {
            color: colored(out.is_terminal()),
            color_err: colored(err.is_terminal()),
            width: out.is_terminal().then(terminal_width),
            terminal: out.is_terminal(),
            quiet,
            of_process: true,
            out: Box::new(out),
            err: Box::new(err),
        }
    }

    /// Writes to `out` and `err`, plainly, as into two pipes.
    pub fn plain(out: impl Write + Send + 'static, err: impl Write + Send + 'static) -> Self {
        Self {
            out: Box::new(out),
            err: Box::new(err),
            color: false,
            color_err: false,
            width: None,
            terminal: false,
            quiet: false,
            of_process: false,
        }
    }

    /// Suppresses messages except errors.
    #[must_use]
    pub fn quiet(mut self, quiet: bool) -> Self {
        self.quiet = quiet;
        self
    }

    /// Cuts tables to so many columns.
    #[must_use]
    pub fn columns(mut self, width: Option<usize>) -> Self {
        self.width = width;
        self
    }

    /// Whether stdout is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Data, as it is.
    pub(crate) fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }

    /// Bytes of another program's stderr, as they are.
    pub(crate) fn data_err(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.err.write_all(bytes)?;
        self.err.flush()
    }

    /// Waits for `next`, unless the reader of our stdout leaves first: a quiet
    /// log must not keep `| head` waiting for one more line.
    pub(crate) async fn unless_gone<T>(&self, next: impl Future<Output = T>) -> io::Result<T> {
        let gone = async {
            let mut looks = tokio::time::interval(READER_POLL_INTERVAL);
            loop {
                looks.tick().await;
                if self.of_process && reader_is_gone() {
                    return io::Error::from(io::ErrorKind::BrokenPipe);
                }
            }
        };
        tokio::select! {
            biased;
            next = next => Ok(next),
            error = gone => Err(error),
        }
    }

    /// Prints a message to stderr.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.quiet {
            self.write_line(&printable(text));
        }
    }

    /// Lines for people, over the last `before` ones: where stderr is a
    /// terminal, and only there.
    pub(crate) fn redraw(&mut self, before: usize, lines: &[String]) {
        if self.quiet {
            return;
        }
        let up = match before {
            0 => String::new(),
            before => format!("\x1b[{before}A"),
        };
        // Each line is cleared to its end, then all that is below.
        let text: String = lines.iter().map(|line| format!("{line}\x1b[K\n")).collect();
        let _ = write!(self.err, "{up}{text}\x1b[J");
        let _ = self.err.flush();
    }

    /// Prints a warning to stderr.
    pub(crate) fn warn(&mut self, text: &str) {
        if !self.quiet {
            let prefix = Style::Warn.paint("warning:", self.color_err);
            self.write_line(&format!("{prefix} {}", printable(text)));
        }
    }

    /// A question, without the end of its line.
    pub(crate) fn ask(&mut self, text: &str) {
        let _ = write!(self.err, "{text}");
        let _ = self.err.flush();
    }

    /// Why the command failed.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        if failure.what.is_empty() {
            return;
        }
        let prefix = Style::Bad.paint("error:", self.color_err);
        self.write_line(&format!("{prefix} {}", printable(&failure.what)));
        for why in &failure.why {
            self.write_line(&format!("  {}", printable(why)));
        }
        if let Some(hint) = &failure.hint {
            let prefix = Style::Bold.paint("hint:", self.color_err);
            self.write_line(&format!("{prefix} {}", printable(hint)));
        }
    }

    /// Write errors are ignored: there is no other channel if stderr is closed.
    fn write_line(&mut self, text: &str) {
        let _ = writeln!(self.err, "{text}");
        let _ = self.err.flush();
    }
}

/// A text without what a terminal would take for a command. Messages carry what
/// a node, a registry or another caller said: that colours nothing, moves no
/// cursor and writes to no clipboard.
fn printable(text: &str) -> String {
    let plain = |c: char| match c {
        '\n' | '\t' => c,
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars().map(plain).collect()
}

fn reader_is_gone() -> bool {
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut watched, Some(&Timespec::default())).is_ok()
        && watched[0].revents().contains(PollFlags::ERR)
}

/// How wide the terminal on stdout is.
pub(crate) fn terminal_width() -> usize {
    terminal_size().0
}

/// Columns and rows of the terminal on stdout.
pub(crate) fn terminal_size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        }
        _ => (80, 24),
    }
}
