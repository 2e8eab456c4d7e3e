//! Commands, split into words as a POSIX shell would split them. No shell
//! runs: `$HOME`, `*`, `|` and `>` are ordinary characters here.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The words of a command; at least one, none with a NUL in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct CommandLine(Vec<String>);

impl CommandLine {
    /// The longest command: what one message to a cell's init can carry.
    pub const MAX_BYTES: usize = 64 * 1024;

    /// Splits the text of the field `field` into words.
    pub fn from_field(field: &str, text: &str) -> Result<Self, Error> {
        if text.len() > Self::MAX_BYTES {
            return Err(Error::invalid(
                field,
                format!(
                    "is {} bytes long; {} is the most",
                    text.len(),
                    Self::MAX_BYTES
                ),
            ));
        }
        let words = shlex::split(text)
            .ok_or_else(|| Error::invalid(field, "has a quote that is not closed"))?;
        Self::try_from(words).map_err(|why| why.in_field(field))
    }

    /// The program, as it was written.
    pub fn program(&self) -> &str {
        &self.0[0]
    }

    /// All words, the program first.
    pub fn words(&self) -> &[String] {
        &self.0
    }
}

impl TryFrom<Vec<String>> for CommandLine {
    type Error = Error;

    fn try_from(words: Vec<String>) -> Result<Self, Error> {
        match words.first() {
            None => Err(Error::invalid("command", "must not be empty")),
            Some(program) if program.is_empty() => Err(Error::invalid(
                "command",
                "its first word, the program, is empty",
            )),
            Some(_) if words.iter().any(|word| word.contains('\0')) => {
                Err(Error::invalid("command", "has a NUL character in it"))
            }
            Some(_) => Ok(Self(words)),
        }
    }
}

impl From<CommandLine> for Vec<String> {
    fn from(command: CommandLine) -> Self {
        command.0
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = shlex::try_join(self.0.iter().map(String::as_str)).unwrap_or_default();
        f.write_str(&joined)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        CommandLine::from_field("command", text).unwrap().into()
    }

    #[test]
    fn splits_as_a_shell_does() {
        assert_eq!(words("sleep 10"), ["sleep", "10"]);
        assert_eq!(
            words(r#"sh -c "echo 'a b' >&2""#),
            ["sh", "-c", "echo 'a b' >&2"]
        );
        assert_eq!(words(r"a\ b 'c d' e''f"), ["a b", "c d", "ef"]);
        assert_eq!(
            words("echo $HOME * | cat"),
            ["echo", "$HOME", "*", "|", "cat"]
        );
    }

    #[test]
    fn refuses_what_has_no_program() {
        for bad in ["", "   ", "'", "\"a", "'' x", "a\0b", "# only a comment"] {
            let error = CommandLine::from_field("executable.command", bad).unwrap_err();
            assert_eq!(error.field(), Some("executable.command"), "{bad:?}");
        }
        let huge = "x".repeat(CommandLine::MAX_BYTES + 1);
        assert!(CommandLine::from_field("command", &huge).is_err());
    }

    proptest! {
        #[test]
        fn quoting_and_splitting_are_inverse(
            words in proptest::collection::vec("[^\0]{0,20}", 1..8)
        ) {
            prop_assume!(!words[0].is_empty());
            let command = CommandLine::try_from(words.clone()).unwrap();
            let text = command.to_string();
            prop_assert_eq!(CommandLine::from_field("f", &text).unwrap(), command);
        }

        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = CommandLine::from_field("f", &text);
        }
    }
}
