//! Things written down in a file, YAML or JSON, several when divided by
//! `---`. JSON is YAML too, so one reader does for both.

use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::{Exit, Failure, Result};

/// A larger file describes something else.
const MAX_FILE: u64 = 4 << 20;

/// The `things` of a file; `-` is stdin.
pub(crate) fn documents<T: DeserializeOwned>(
    file: &Path,
    input: &mut dyn Read,
    things: &str,
) -> Result<Vec<T>> {
    let text = text(file, input)?;
    some(file, serde_saphyr::from_multiple(&text), things)
}

/// The documents of a file as they stand there. Nobody says yet which of them
/// are texts, so only `true` and `false` are truths: `ssd: yes` is a label.
pub(crate) fn plain_documents(file: &Path, input: &mut dyn Read) -> Result<Vec<Value>> {
    let text = text(file, input)?;
    let options = serde_saphyr::options! { strict_booleans: true };
    let found = serde_saphyr::from_multiple_with_options(&text, options);
    some(file, found, "anything")
}

/// What is in a file; `-` is stdin.
pub(crate) fn text(file: &Path, mut input: &mut dyn Read) -> Result<String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        Read::by_ref(&mut input)
            .take(MAX_FILE)
            .read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text))
    };
    read.map_err(|why| Failure::file("read", file, &why))?;
    Ok(text)
}

fn some<T>(
    file: &Path,
    found: std::result::Result<Vec<T>, serde_saphyr::Error>,
    things: &str,
) -> Result<Vec<T>> {
    let shown = file.display();
    let found = found.map_err(|why| {
        Failure::new(Exit::Usage, format!("{shown} does not describe {things}"))
            .because(first_line(&why.to_string()))
    })?;
    if found.is_empty() {
        return Err(Failure::new(
            Exit::Usage,
            format!("{shown} contains no {things}"),
        ));
    }
    Ok(found)
}

/// The reader draws the place under its message; the message is enough.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}
