//! Commands, split into words as a POSIX shell would split them. No shell
//! runs: `$HOME` and `*` are ordinary characters here, and an operator of the
//! shell that is not quoted is refused: as a word it would run something else
//! than was meant.

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
        if let Some(operator) = unquoted_operator(text) {
            let why = format!(
                "has the shell operator {operator:?}, and no shell runs it; its words are passed \
                 to the program as they are"
            );
            return Err(Error::invalid(field, why).with_hint(
                "start a shell: sh -c 'COMMAND'; or quote the operator to pass it as a word",
            ));
        }
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

/// The operators of a POSIX shell, longest first.
const OPERATORS: [&str; 14] = [
    "&&", "||", ";;", ">>", "<<", ">&", "<&", ">|", "<>", "&", "|", ";", "<", ">",
];

/// The first operator outside of quotes, in a text whose quotes are closed.
fn unquoted_operator(text: &str) -> Option<&'static str> {
    let mut rest = text.char_indices().peekable();
    let mut begins_word = true;
    while let Some((at, c)) = rest.next() {
        let begins = std::mem::replace(&mut begins_word, c.is_ascii_whitespace());
        match c {
            '\\' => drop(rest.next()),
            '\'' => drop(rest.find(|(_, c)| *c == '\'')),
            '"' => {
                while let Some((_, quoted)) = rest.next_if(|(_, c)| *c != '"') {
                    if quoted == '\\' {
                        rest.next();
                    }
                }
                rest.next();
            }
            '#' if begins => drop(rest.find(|(_, c)| *c == '\n')),
            _ => {
                let found = OPERATORS.into_iter().find(|op| text[at..].starts_with(op));
                if found.is_some() {
                    return found;
                }
            }
        }
    }
    None
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
        assert_eq!(words("echo $HOME * '|'"), ["echo", "$HOME", "*", "|"]);
    }

    #[test]
    fn unquoted_operator_is_refused_with_a_hint() {
        for (command, operator) in [
            ("/usr/bin/echo 'hello world' 1>&2", ">&"),
            ("ifconfig && ip a && route", "&&"),
            ("false || true", "||"),
            ("cat x|wc", "|"),
            ("a; b", ";"),
            ("sleep 9 &", "&"),
            ("cat <in >>out", "<"),
            ("echo \"a\\\"b\" >out", ">"),
            ("echo 'a' # c\n; b", ";"),
        ] {
            let error = CommandLine::from_field("executable.command", command).unwrap_err();
            assert_eq!(error.field(), Some("executable.command"), "{command}");
            let quoted = format!("{operator:?}");
            assert!(error.message().contains(&quoted), "{command}: {error}");
            assert!(error.hint().unwrap().contains("sh -c"), "{command}");
        }
    }

    #[test]
    fn quoted_operator_is_a_word() {
        for (command, word) in [
            ("x 'a && b'", "a && b"),
            ("x \"a | b\"", "a | b"),
            ("x \"a\\\"|b\"", "a\"|b"),
            (r"x a\;b", "a;b"),
            ("x a#b # ; c", "a#b"),
            ("x '\"' '>'", "\""),
        ] {
            assert_eq!(words(command)[1], word, "{command}");
        }
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
