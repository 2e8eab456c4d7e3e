//! `docs/conformance.md` names a test for every row of the published documents:
//! each of them exists, and every case of the conformance suite is named.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(repository().join(path)).ok()
}

/// Every `FILE::NAME` in backticks, with the number of its line.
fn named(text: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let quoted = line.split('`').skip(1).step_by(2);
        for (file, name) in quoted.filter_map(|one| one.split_once("::")) {
            let file = match file.starts_with("seed_") {
                true => format!("tests/conformance/{file}"),
                false => file.to_owned(),
            };
            found.push((number + 1, file, name.to_owned()));
        }
    }
    found
}

/// Whether a file defines a test of this name.
fn defines(text: &str, name: &str) -> bool {
    let starts = ["def ", "fn "].map(|word| format!("{word}{name}("));
    starts.iter().any(|start| text.contains(start.as_str()))
}

#[test]
fn tests_that_are_named_exist() {
    let doc = read("docs/conformance.md").unwrap();
    let all = named(&doc);
    assert!(all.len() > 100, "only {} tests are named", all.len());
    let missing: Vec<String> = all
        .iter()
        .filter(|(_, file, name)| !read(file).is_some_and(|text| defines(&text, name)))
        .map(|(line, file, name)| format!("docs/conformance.md:{line}: {file}::{name}"))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_row_names_a_test() {
    let doc = read("docs/conformance.md").unwrap();
    let rows = doc.lines().enumerate().filter(|(_, line)| {
        line.starts_with("| ") && !line.starts_with("| row |") && !line.starts_with("|---")
    });
    let bare: Vec<usize> = rows
        .filter(|(_, line)| named(line).is_empty())
        .map(|(number, _)| number + 1)
        .collect();
    assert!(bare.is_empty(), "no test in lines {bare:?}");
}

#[test]
fn every_case_of_the_suite_is_named() {
    let doc = read("docs/conformance.md").unwrap();
    let named: BTreeSet<(String, String)> = named(&doc)
        .into_iter()
        .map(|(_, file, name)| (file, name))
        .collect();
    let mut missing = Vec::new();
    for number in 0..5 {
        let file = format!("tests/conformance/seed_{number:03}.py");
        let text = read(&file).unwrap();
        let cases = text.split("\n@case(").skip(1);
        for case in cases {
            let name = case.split("\ndef ").nth(1).unwrap();
            let name = name.split('(').next().unwrap().to_owned();
            if !named.contains(&(file.clone(), name.clone())) {
                missing.push(format!("{file}::{name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
