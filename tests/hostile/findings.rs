//! The table of `SECURITY.md` that says which tests run which attack: every
//! finding has a row, and every test that is named there exists.

use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const FINDINGS: usize = 22;

#[test]
fn every_finding_has_tests_that_exist() {
    let text = fs::read_to_string(Path::new(ROOT).join("SECURITY.md")).unwrap();
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| S"))
        .collect();
    for number in 1..=FINDINGS {
        let begin = format!("| S{number} ");
        let row = rows.iter().find(|row| row.starts_with(&begin));
        let row = row.unwrap_or_else(|| panic!("no row for S{number}"));
        let (_, tests) = row[2..].split_once('|').unwrap();
        let words: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        let mut source = String::new();
        let mut named = 0;
        for word in words {
            if word.ends_with(".rs") {
                let file = Path::new(ROOT).join(word);
                source = fs::read_to_string(file).unwrap_or_else(|error| panic!("{word}: {error}"));
                continue;
            }
            let function = format!("fn {word}()");
            assert!(source.contains(&function), "S{number}: no test {word}");
            named += 1;
        }
        assert!(named > 0, "S{number} names no test");
    }
}
