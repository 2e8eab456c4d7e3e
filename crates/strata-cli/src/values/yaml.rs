//! Things written down in a file, YAML or JSON, several when divided by
//! `---`. JSON is YAML too, so one reader does for both.

use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::failure::{Exit, Failure, Result};

/// A larger file describes something else.
const MAX_FILE: u64 = 4 << 20;

/// The `things` of a file; `-` is stdin.
pub(crate) fn documents<T: DeserializeOwned>(
    file: &Path,
    mut input: &mut dyn Read,
    things: &str,
) -> Result<Vec<T>> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        Read::by_ref(&mut input)
            .take(MAX_FILE)
            .read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text))
    };
    read.map_err(|why| Failure::file("read", file, &why))?;
    let shown = file.display();
    let found: Vec<T> = serde_saphyr::from_multiple(&text).map_err(|why| {
        Failure::new(Exit::Usage, format!("{shown} does not describe {things}"))
            .because(first_line(&why.to_string()))
    })?;
    if found.is_empty() {
        return Err(Failure::new(
            Exit::Usage,
            format!("{shown} describes no {things}"),
        ));
    }
    Ok(found)
}

/// The reader draws the place under its message; the message is enough.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}
