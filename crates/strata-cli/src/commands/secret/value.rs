//! Where the value of a secret comes from: never from the command line, which
//! others on the host can read.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::{Args, ValueHint};

use crate::failure::{Failure, Result};
use crate::session::Session;

/// The server takes no more; one byte more tells it.
const READ_LIMIT: u64 = 64 * 1024 + 1;

/// Value flags, flattened into the commands that set a value.
#[derive(Args, Debug)]
pub(super) struct ValueArgs {
    /// File with the value; - is stdin
    #[arg(long, value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    from_file: PathBuf,

    /// Keep a trailing newline of the value [default: removed]
    #[arg(long)]
    keep_newline: bool,
}

impl ValueArgs {
    /// The value in base64.
    pub(super) fn read(&self, session: &mut Session) -> Result<String> {
        let mut value = Vec::new();
        let read = match self.from_file.as_path() {
            path if path == Path::new("-") => {
                if session.interactive {
                    session
                        .printer
                        .note("reading the value from stdin; end it with Ctrl-D");
                }
                (&mut session.input)
                    .take(READ_LIMIT)
                    .read_to_end(&mut value)
            }
            path => {
                std::fs::File::open(path).and_then(|it| it.take(READ_LIMIT).read_to_end(&mut value))
            }
        };
        read.map_err(|why| Failure::file("read", &self.from_file, &why))?;
        if !self.keep_newline && value.last() == Some(&b'\n') {
            value.pop();
        }
        Ok(BASE64_STANDARD.encode(value))
    }
}
