//! The wire is the published documents', to the letter. `published.txt` is
//! written from those documents; these tests hold the compiled `proto/`
//! against it, line by line, in both directions.

mod changed_contracts;
mod clients;
mod table;

use prost::Message as _;
use prost_types::FileDescriptorSet;

use table::{Line, differences, packages, parse, render};

const PUBLISHED: &str = include_str!("published.txt");
const ADDITIONS: &str = include_str!("additions.txt");

fn descriptors() -> FileDescriptorSet {
    FileDescriptorSet::decode(strata_api::DESCRIPTORS).expect("the descriptors decode")
}

fn published() -> Vec<Line> {
    parse(PUBLISHED).expect("published.txt is well formed")
}

fn additions() -> Vec<Line> {
    parse(ADDITIONS).expect("additions.txt is well formed")
}

/// How `set` differs from the contract; empty when it keeps it.
fn violations(set: &FileDescriptorSet) -> Vec<String> {
    let published = published();
    let ours = render(set, &packages(&published));
    differences(&published, &additions(), &ours)
}

#[test]
fn proto_keeps_the_published_contract() {
    let differences = violations(&descriptors());
    assert!(
        differences.is_empty(),
        "proto/ and the published contract differ in {} lines (- published, + ours):\n{}\n",
        differences.len(),
        differences.join("\n"),
    );
}

/// Guards the table itself: a line lost from it would be a promise lost.
#[test]
fn the_table_holds_all_of_the_five_documents() {
    let published = published();
    let count = |kind: &str| published.iter().filter(|line| line.kind() == kind).count();
    assert_eq!(
        [
            "package", "message", "field", "enum", "value", "service", "rpc"
        ]
        .map(count),
        [7, 72, 158, 9, 42, 10, 32],
    );
    assert_eq!(
        packages(&published),
        [
            "scheduler",
            "controller",
            "cnct.kaas.api",
            "observe",
            "runtime",
            "schedule",
            "operations.v1"
        ],
    );
}

#[test]
fn additions_leave_published_messages_alone() {
    let published = published();
    for addition in additions() {
        let touched = published.iter().find(|line| {
            line.kind() == "message"
                && addition.kind() == "field"
                && addition.parent() == Some(line.name())
        });
        assert!(
            touched.is_none(),
            "{addition}: number it from 100 and make it optional or repeated instead",
        );
    }
}
