//! `xtask words`: fails on words that `docs/glossary.md` has replaced, so that
//! they do not come back.
//!
//! The list is `xtask/words.toml`. Three kinds of text are held to it:
//! identifiers, by each of their words (`OldWord`, `old_word` and `OLD_WORD` all
//! have `old`); sentences, which are string literals with a space in them, and
//! so what a person reads in logs, errors and help; and prose, which is comments
//! and Markdown. Comments of `proto/strata` are prose too and have further rules:
//! they are the reference of the API. Names on the wire and in records are string
//! literals without a space: they are fixed, and not looked at.

pub(crate) mod lexer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Deserialize;

use self::lexer::Kind;

/// Where the list is.
const LIST: &str = "xtask/words.toml";

/// Hold identifiers, sentences and prose against the list of replaced words.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The repository.
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// Count the hits of each word instead of listing them.
    #[arg(long)]
    count: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read {path}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{LIST}: {0}")]
    List(#[from] toml::de::Error),
    #[error("git ls-files failed: {0}")]
    Git(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Paths that begin with one of these are not looked at.
    skip: Vec<String>,
    word: Vec<Rule>,
}

/// Words of one meaning and what to write instead.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    old: Vec<String>,
    new: String,
    #[serde(rename = "in")]
    scopes: Vec<Scope>,
    /// Paths in which the words mean something else.
    #[serde(default)]
    allow: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scope {
    Identifiers,
    Sentences,
    Prose,
    Protos,
}

#[derive(Debug)]
struct Hit {
    path: String,
    line: usize,
    word: String,
    new: String,
    text: String,
}

pub(crate) fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let list: List = toml::from_str(&read(&arguments.root.join(LIST))?)?;
    let mut hits = Vec::new();
    for path in tracked(&arguments.root)? {
        if list
            .skip
            .iter()
            .any(|prefix| path.starts_with(prefix.as_str()))
        {
            continue;
        }
        // A file that is deleted and not committed yet is still tracked.
        if let Ok(text) = read(&arguments.root.join(&path)) {
            hits.extend(check(&list, &path, &text));
        }
    }
    if arguments.count {
        print_counts(&hits);
    } else {
        for hit in &hits {
            eprintln!(
                "{}:{}: `{}` is now {}: {}",
                hit.path, hit.line, hit.word, hit.new, hit.text
            );
        }
    }
    if hits.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "words: {} uses of replaced words; docs/glossary.md has the new ones, {LIST} the list",
        hits.len()
    );
    Ok(ExitCode::FAILURE)
}

fn print_counts(hits: &[Hit]) {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for hit in hits {
        *counts.entry(hit.word.as_str()).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(word, count)| (std::cmp::Reverse(*count), *word));
    for (word, count) in counts {
        println!("{count:6} {word}");
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

/// The Rust, Markdown and protocol files that git knows. The published protocols
/// are as their documents have them.
fn tracked(root: &Path) -> Result<Vec<String>, Error> {
    let output = std::process::Command::new("git")
        .arg("-C")
        .arg(root)
        .args([
            "ls-files",
            "-z",
            "--",
            "*.rs",
            "*.md",
            "proto/strata/*.proto",
        ])
        .output()
        .map_err(|error| Error::Git(error.to_string()))?;
    if !output.status.success() {
        return Err(Error::Git(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect())
}

fn check(list: &List, path: &str, text: &str) -> Vec<Hit> {
    let rules: Vec<&Rule> = list
        .word
        .iter()
        .filter(|rule| {
            !rule
                .allow
                .iter()
                .any(|prefix| path.starts_with(prefix.as_str()))
        })
        .collect();
    let mut hits = Vec::new();
    let mut find = |scope, text: &str, line| {
        for (at, content) in text.lines().enumerate() {
            hits.extend(matches(&rules, scope, content).map(|(rule, word)| Hit {
                path: path.to_owned(),
                line: line + at,
                word: word.to_owned(),
                new: rule.new.clone(),
                text: content.trim().chars().take(100).collect(),
            }));
        }
    };
    if path.ends_with(".md") {
        find(Scope::Prose, text, 1);
        return hits;
    }
    let is_proto = path.ends_with(".proto");
    for token in lexer::tokens(text) {
        match token.kind {
            Kind::Comment if is_proto => {
                find(Scope::Prose, token.text, token.line);
                find(Scope::Protos, token.text, token.line);
            }
            // Fields and messages are names on the wire.
            _ if is_proto => {}
            Kind::Identifier => find(Scope::Identifiers, token.text, token.line),
            Kind::Comment => find(Scope::Prose, token.text, token.line),
            Kind::String if token.text.contains(' ') && !is_test(path) => {
                find(Scope::Sentences, token.text, token.line);
            }
            Kind::String => {}
        }
    }
    hits
}

/// Whether a file is of tests, whose assertions users do not see.
fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("tests.rs")
}

/// The rules that a piece of text breaks, with the word that breaks each.
fn matches<'a>(
    rules: &'a [&'a Rule],
    scope: Scope,
    text: &str,
) -> impl Iterator<Item = (&'a Rule, &'a str)> {
    let words = words(text);
    rules
        .iter()
        .filter(move |rule| rule.scopes.contains(&scope))
        .flat_map(|rule| rule.old.iter().map(move |old| (*rule, old.as_str())))
        .filter(move |(_, old)| {
            let old: Vec<&str> = old.split(' ').collect();
            words.windows(old.len()).any(|window| window == old)
        })
}

/// The words of a text in lower case: runs of letters, cut where a capital
/// follows a small letter.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for c in text.chars() {
        let boundary = !c.is_alphabetic() || (small && c.is_uppercase());
        if boundary && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        small = c.is_lowercase();
        if c.is_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(path: &str, text: &str) -> Vec<(usize, String)> {
        let list: List = toml::from_str(
            r#"
            skip = []
            [[word]]
            old = ["patience"]
            new = "timeout"
            in = ["identifiers", "sentences"]
            [[word]]
            old = ["unless told"]
            new = "Default: X"
            in = ["sentences", "prose"]
            allow = ["allowed/"]
            [[word]]
            old = ["moment"]
            new = "time"
            in = ["protos"]
            "#,
        )
        .unwrap_or_else(|error| panic!("{error}"));
        check(&list, path, text)
            .into_iter()
            .map(|hit| (hit.line, hit.word))
            .collect()
    }

    #[test]
    fn words_of_identifiers_are_found_in_every_case() {
        for name in [
            "PATIENCE",
            "SHORT_PATIENCE",
            "my_patience",
            "MyPatience",
            "patienceLeft",
        ] {
            assert_eq!(hits("a.rs", name), [(1, "patience".to_owned())], "{name}");
        }
        assert_eq!(hits("a.rs", "impatience patiences"), []);
    }

    #[test]
    fn wire_names_are_not_sentences() {
        assert_eq!(hits("a.rs", r#"x("patience")"#), []);
        assert_eq!(
            hits("a.rs", r#"x("no patience")"#),
            [(1, "patience".to_owned())]
        );
        assert_eq!(hits("tests/a.rs", r#"x("no patience")"#), []);
    }

    #[test]
    fn comments_of_protocols_are_prose_and_their_names_are_not_looked_at() {
        assert_eq!(
            hits(
                "a.proto",
                "bool patience = 1;\n// Ten, unless told; at a moment."
            ),
            [(2, "unless told".to_owned()), (2, "moment".to_owned())]
        );
        assert_eq!(hits("a.rs", "// At a moment."), []);
    }

    #[test]
    fn prose_is_comments_and_markdown() {
        assert_eq!(
            hits("a.rs", "\n/// Ten, unless told."),
            [(2, "unless told".to_owned())]
        );
        assert_eq!(
            hits("a.md", "a\nb\nunless  told"),
            [(3, "unless told".to_owned())]
        );
        assert_eq!(hits("allowed/a.md", "unless told"), []);
    }
}
