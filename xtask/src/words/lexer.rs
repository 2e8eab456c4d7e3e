//! Cuts Rust source into what the words gate checks: identifiers, string
//! literals and comments, each with its line.
//!
//! This is not a Rust lexer: numbers, punctuation and keywords are skipped or
//! taken for identifiers, which does no harm, because no keyword is on the list.
//! What has to be exact is where strings, characters and comments begin and
//! end, or everything after them would be misread.

/// What kind of text a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Identifier,
    String,
    Comment,
}

/// A piece of source text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// The line the token begins on, from 1.
    pub(crate) line: usize,
}

/// All tokens of a source file, in order.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer {
        source,
        at: 0,
        line: 1,
        tokens: Vec::new(),
    };
    while lexer.at < source.len() {
        lexer.step();
    }
    lexer.tokens
}

/// The source without comments and strings, line by line as it was.
pub(crate) fn code(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    for token in tokens(source) {
        if token.kind == Kind::Identifier {
            continue;
        }
        // A token is a part of the source, and they come in order.
        let begin = token.text.as_ptr() as usize - rest.as_ptr() as usize;
        code.push_str(&rest[..begin]);
        code.extend(token.text.chars().filter(|c| *c == '\n'));
        rest = &rest[begin + token.text.len()..];
    }
    code.push_str(rest);
    code
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    tokens: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn step(&mut self) {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return;
        };
        if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            self.take(Kind::Comment, 0, length, 0);
        } else if rest.starts_with("/*") {
            self.take(Kind::Comment, 0, block_comment(rest), 0);
        } else if let Some((prefix, hashes)) = raw_string(rest) {
            let closing = format!("\"{}", "#".repeat(hashes));
            let length = rest[prefix..].find(&closing).unwrap_or(rest.len() - prefix);
            self.take(Kind::String, prefix, length, closing.len());
        } else if first == '"' {
            self.take(Kind::String, 1, quoted(&rest[1..], '"'), 1);
        } else if first == '\'' {
            self.skip(1 + character(&rest[1..]));
        } else if first == '_' || first.is_alphabetic() {
            let length = rest
                .find(|c: char| c != '_' && !c.is_alphanumeric())
                .unwrap_or(rest.len());
            self.take(Kind::Identifier, 0, length, 0);
        } else if first.is_ascii_digit() {
            // A suffix such as the one of `1u64` is no identifier.
            let length = rest
                .find(|c: char| c != '_' && !c.is_alphanumeric())
                .unwrap_or(rest.len());
            self.skip(length);
        } else {
            self.skip(first.len_utf8());
        }
    }

    /// Takes `length` bytes after `before`, and skips `after` more.
    fn take(&mut self, kind: Kind, before: usize, length: usize, after: usize) {
        let rest = self.rest();
        let end = (before + length).min(rest.len());
        self.tokens.push(Token {
            kind,
            text: &rest[before.min(end)..end],
            line: self.line,
        });
        self.skip((end + after).min(rest.len()));
    }

    fn skip(&mut self, length: usize) {
        let skipped = &self.rest()[..length];
        self.line += skipped.matches('\n').count();
        self.at += length;
    }
}

/// The length of a block comment, which may hold others.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Where the content of a raw string begins, and how many hashes close it.
fn raw_string(text: &str) -> Option<(usize, usize)> {
    let after = ["r", "br", "cr"].iter().find_map(|prefix| {
        text.strip_prefix(prefix)
            .filter(|rest| rest.starts_with(['"', '#']))
    })?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..]
        .starts_with('"')
        .then(|| (text.len() - after.len() + hashes + 1, hashes))
}

/// The length up to the closing quote, which a backslash escapes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal after its opening quote, with the closing
/// one; nothing for a lifetime.
fn character(text: &str) -> usize {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some('\\'), _) => (quoted(text, '\'') + 1).min(text.len()),
        (Some(c), Some('\'')) => c.len_utf8() + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Vec<(Kind, &str, usize)> {
        tokens(source)
            .into_iter()
            .map(|token| (token.kind, token.text, token.line))
            .collect()
    }

    #[test]
    fn identifiers_strings_and_comments_are_told_apart_by_line() {
        assert_eq!(
            read("fn a() { // why\n  b(\"c \\\" d\", 'e', '\\'', 1u64); /* f /* g */\n */ h }"),
            [
                (Kind::Identifier, "fn", 1),
                (Kind::Identifier, "a", 1),
                (Kind::Comment, "// why", 1),
                (Kind::Identifier, "b", 2),
                (Kind::String, "c \\\" d", 2),
                (Kind::Comment, "/* f /* g */\n */", 2),
                (Kind::Identifier, "h", 3),
            ]
        );
    }

    #[test]
    fn raw_strings_and_lifetimes_do_not_swallow_what_follows() {
        assert_eq!(
            read("x::<'a>(r#\"b \" c\"#, br\"d\", e)"),
            [
                (Kind::Identifier, "x", 1),
                (Kind::Identifier, "a", 1),
                (Kind::String, "b \" c", 1),
                (Kind::String, "d", 1),
                (Kind::Identifier, "e", 1),
            ]
        );
    }

    #[test]
    fn code_has_no_comments_and_no_strings() {
        assert_eq!(
            code("a(\"b \\\" c\"); // d\ne /* f\ng */ h(r#\"i\"#)"),
            "a(\"\"); \ne \n h(r#\"\"#)"
        );
    }

    #[test]
    fn files_cut_anywhere_are_read_to_their_end() {
        let source = include_str!("lexer.rs");
        for (at, _) in source.char_indices().rev().take(1500) {
            tokens(&source[..at]);
        }
    }
}
