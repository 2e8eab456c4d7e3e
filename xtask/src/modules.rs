//! `xtask modules`: fails if the top-level modules of a crate depend on each
//! other in a cycle.
//!
//! A module depends on what its files name by a path that begins with `crate`,
//! tests included. A name that is no module is followed through the `pub use`
//! of `lib.rs`. Paths that begin with `super` are not followed: they stay within
//! a module, except in files directly under `src`, which use `crate` by
//! convention.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::words::lexer;

/// The crates without cycles.
const CRATES: &[&str] = &[
    "strata-api",
    "strata-backup",
    "strata-balancer",
    "strata-bootimage",
    "strata-cell",
    "strata-cli",
    "strata-cluster-agent",
    "strata-clusters",
    "strata-etcd",
    "strata-http",
    "strata-machines",
    "strata-rootfs",
    "strata-server",
    "strata-storage",
];

/// Fail on cycles among the top-level modules of a crate.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The repository.
    #[arg(long, default_value = ".")]
    root: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}: {source}")]
pub(crate) struct Error {
    path: PathBuf,
    source: std::io::Error,
}

pub(crate) fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let mut has_cycle = false;
    for name in CRATES {
        let src = arguments.root.join("crates").join(name).join("src");
        let Some(cycle) = Graph::of(&files(&src)?).cycle() else {
            continue;
        };
        has_cycle = true;
        eprintln!("modules: {name} has a cycle:");
        for use_ in cycle {
            eprintln!("  {} uses {}: {}", use_.from, use_.to, use_.place);
        }
    }
    if has_cycle {
        eprintln!("modules: move what is needed below into the lower module");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The Rust files under a directory, by their path in it.
fn files(src: &Path) -> Result<BTreeMap<String, String>, Error> {
    let mut files = BTreeMap::new();
    let mut pending = vec![src.to_owned()];
    while let Some(directory) = pending.pop() {
        let fail = |source| Error {
            path: directory.clone(),
            source,
        };
        for entry in std::fs::read_dir(&directory).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).map_err(|source| Error {
                    path: path.clone(),
                    source,
                })?;
                let inside = path.strip_prefix(src).unwrap_or(&path);
                files.insert(inside.display().to_string(), text);
            }
        }
    }
    Ok(files)
}

/// One module names another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Use {
    from: String,
    to: String,
    /// The file and line of the first such path.
    place: String,
}

/// The modules that each module uses.
#[derive(Default)]
struct Graph(BTreeMap<String, BTreeMap<String, Use>>);

impl Graph {
    fn of(files: &BTreeMap<String, String>) -> Self {
        let modules: BTreeSet<&str> = files.keys().filter_map(|path| module(path)).collect();
        let root = files.get("lib.rs").or_else(|| files.get("main.rs"));
        let exports = root.map(|text| exports(text)).unwrap_or_default();
        let mut graph = Self::default();
        for (path, text) in files {
            let Some(from) = module(path) else { continue };
            for (name, line) in used(&lexer::code(text)) {
                let to = exports.get(&name).unwrap_or(&name);
                if to == from || !modules.contains(to.as_str()) {
                    continue;
                }
                let uses = graph.0.entry(from.to_owned()).or_default();
                uses.entry(to.clone()).or_insert_with(|| Use {
                    from: from.to_owned(),
                    to: to.clone(),
                    place: format!("{path}:{line}"),
                });
            }
        }
        graph
    }

    /// A cycle, if there is one: each use leads to the next, the last one to
    /// the first.
    fn cycle(&self) -> Option<Vec<Use>> {
        let mut acyclic = BTreeSet::new();
        self.0
            .keys()
            .find_map(|module| self.search(module, &mut Vec::new(), &mut acyclic))
    }

    /// Depth first. `path` leads to `module`; from those in `acyclic` no cycle
    /// can be reached.
    fn search<'a>(
        &'a self,
        module: &'a str,
        path: &mut Vec<&'a Use>,
        acyclic: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<Use>> {
        if acyclic.contains(module) {
            return None;
        }
        if let Some(begin) = path.iter().position(|one| one.from == module) {
            return Some(path[begin..].iter().map(|one| (*one).clone()).collect());
        }
        for one in self.0.get(module).into_iter().flat_map(BTreeMap::values) {
            path.push(one);
            let found = self.search(&one.to, path, acyclic);
            path.pop();
            if found.is_some() {
                return found;
            }
        }
        acyclic.insert(module);
        None
    }
}

/// The top-level module of a file; none for the root of the crate.
fn module(path: &str) -> Option<&str> {
    let first = path.split('/').next()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!matches!(path, "lib.rs" | "main.rs")).then_some(name)
}

/// The module that each name of the root is exported from.
fn exports(root: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in lexer::code(root).split(';') {
        let words: Vec<&str> = statement
            .split(|c: char| c != '_' && !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let Some(at) = words.iter().position(|word| *word == "use") else {
            continue;
        };
        if let Some((module, names)) = words[at + 1..].split_first() {
            for name in names {
                exports.insert((*name).to_owned(), (*module).to_owned());
            }
        }
    }
    exports
}

/// The first segment after each `crate::`, with its line; of a group, that of
/// each of its members.
fn used(code: &str) -> Vec<(String, usize)> {
    let mut used = Vec::new();
    let mut line = 1;
    let mut rest = code;
    while let Some(at) = rest.find("crate::") {
        let is_word = |c: char| c == '_' || c.is_alphanumeric();
        let before = rest[..at].chars().next_back();
        line += rest[..at].matches('\n').count();
        rest = &rest[at + "crate::".len()..];
        if before.is_some_and(is_word) {
            continue;
        }
        let path = rest.trim_start();
        let Some(group) = path.strip_prefix('{') else {
            let end = path.find(|c| !is_word(c)).unwrap_or(path.len());
            used.push((path[..end].to_owned(), line));
            continue;
        };
        used.extend(members(group).into_iter().map(|name| (name, line)));
    }
    used
}

/// The first segment of each member of a group, which begins after its brace.
fn members(group: &str) -> Vec<String> {
    let mut members = vec![String::new()];
    let (mut depth, mut is_first) = (0, true);
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(String::new());
                is_first = true;
            }
            ':' if depth == 0 => is_first = false,
            c if depth == 0 && is_first && (c == '_' || c.is_alphanumeric()) => {
                if let Some(member) = members.last_mut() {
                    member.push(c);
                }
            }
            // As in `name as other`.
            ' ' if members.last().is_some_and(|member| !member.is_empty()) => is_first = false,
            _ => {}
        }
    }
    members.retain(|member| !member.is_empty());
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(files: &[(&str, &str)]) -> Option<Vec<String>> {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        let cycle = Graph::of(&files).cycle()?;
        let shown = |one: Use| format!("{} -> {} {}", one.from, one.to, one.place);
        Some(cycle.into_iter().map(shown).collect())
    }

    #[test]
    fn modules_that_use_each_other_are_a_cycle() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B;"),
            ("b/mod.rs", "mod deep;"),
            ("b/deep.rs", "\nfn f() { crate::c::g() }"),
            ("c.rs", "use crate::{b::{x, y as z}, d};"),
        ];
        assert_eq!(
            cycle(&files),
            Some(vec!["b -> c b/deep.rs:2".into(), "c -> b c.rs:1".into()])
        );
    }

    #[test]
    fn modules_in_layers_are_no_cycle() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; use a::run;"),
            ("a.rs", "use crate::{b, c}; use crate::a::x;"),
            (
                "b.rs",
                "use crate::c; use other_crate::a; // crate::a\nconst A: &str = \"crate::a\";",
            ),
            ("c.rs", "fn f(b: u8) { super::d::g() }"),
        ];
        assert_eq!(cycle(&files), None);
    }

    #[test]
    fn names_exported_by_the_root_are_followed() {
        let files = [
            ("lib.rs", "mod a; mod b;\npub use a::{A, Other};\n"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::A;"),
        ];
        assert_eq!(
            cycle(&files),
            Some(vec!["a -> b a.rs:1".into(), "b -> a b.rs:1".into()])
        );
    }

    #[test]
    fn groups_are_read_over_several_lines() {
        assert_eq!(
            members(" a::{b, c},\n  d as e, f::g,\n}; h"),
            ["a", "d", "f"]
        );
    }
}
