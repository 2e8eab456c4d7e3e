//! The progress of a long action as a person sees it: on a real terminal a tree
//! of steps and machines that is drawn over as it goes, and elsewhere a line
//! for each thing that is new.

use std::process::Stdio;

use crate::common::World;
use crate::pty::{Process, Terminal, collected, command, contains, wait_for};

const CREATE: &str = "strata cluster create new --version 1.34 --workers 1";

/// The first stream ends early: what was drawn is drawn again.
fn world() -> World {
    World::with(|state| state.objects.watches = 2)
}

/// What is on a terminal after all of this was written to it, from the line
/// that begins with `first` on.
fn screen(written: &str, first: &str) -> String {
    let (mut rows, mut row, mut column) = (vec![Vec::new()], 0usize, 0usize);
    let mut text = written.chars();
    while let Some(c) = text.next() {
        match c {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' => {
                assert_eq!(text.next(), Some('['), "only what every terminal knows");
                let mut number = String::new();
                let verb = loop {
                    match text.next() {
                        Some(digit @ '0'..='9') => number.push(digit),
                        other => break other,
                    }
                };
                match verb {
                    Some('A') => row -= number.parse::<usize>().unwrap(),
                    Some('K') => rows[row].truncate(column),
                    Some('J') => {
                        rows[row].truncate(column);
                        rows.truncate(row + 1);
                    }
                    other => panic!("{number}{other:?} is neither a way nor a place"),
                }
            }
            c => {
                let line = &mut rows[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
        rows.resize(rows.len().max(row + 1), Vec::new());
    }
    let lines = rows.into_iter().map(String::from_iter);
    let lines = lines.skip_while(|line: &String| !line.starts_with(first));
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

fn written(bytes: &std::sync::Mutex<Vec<u8>>) -> String {
    String::from_utf8(bytes.lock().unwrap().clone()).unwrap()
}

/// What a terminal has seen when the command has ended well.
fn seen_by(terminal: &Terminal, mut process: Process) -> String {
    assert_eq!(process.exit(), Some(0));
    wait_for("the end", || {
        contains(
            &terminal.seen,
            "get credentials with `strata cluster kubeconfig new --merge`",
        )
    });
    written(&terminal.seen)
}

#[test]
fn a_tree_of_steps_and_machines_is_drawn_over_as_it_goes() {
    let (world, terminal) = (world(), Terminal::open());
    let all = seen_by(&terminal, terminal.run(&world, CREATE));
    // Drawn, then over itself: once as it was, and once as it ended.
    let draws: Vec<_> = all.match_indices("cluster-create of cluster/new").collect();
    assert_eq!(draws.len(), 3, "{all:?}");
    assert_eq!(all.matches("\u{1b}[5A").count(), 2, "{all:?}");
    let first = screen(&all[..draws[1].0], "creating");
    insta::assert_snapshot!(first, @r"
    creating the cluster new; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    cluster-create of cluster/new
      boot: done
      join: running
        m1: installs v1.34.4
        m2: waits for m1
    ");
    insta::assert_snapshot!(screen(&all, "creating"), @r"
    creating the cluster new; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    cluster-create of cluster/new
      boot: done
      join: done
    created the cluster new; get credentials with `strata cluster kubeconfig new --merge`
    ");
}

#[test]
fn failure_is_printed_once_below_the_progress() {
    let world = World::with(|state| state.objects.operations_fail = true);
    let terminal = Terminal::open();
    let mut process = terminal.run(&world, CREATE);
    assert_eq!(process.exit(), Some(7));
    wait_for("the hint", || {
        contains(&terminal.seen, "see `strata operation log")
    });
    // The only colours are those of the words before an error and its hint.
    let plain = written(&terminal.seen)
        .replace("\u{1b}[31m", "")
        .replace("\u{1b}[1m", "")
        .replace("\u{1b}[0m", "");
    insta::assert_snapshot!(screen(&plain, "creating"), @r"
    creating the cluster new; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    cluster-create of cluster/new
      boot: done
      join: running
        m1: installs v1.34.4
        m2: waits for m1
    error: cluster-create of cluster/new failed
      cancelled by ann
      not rolled back: close: the store does not exist
    hint: see `strata operation log 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70`
    ");
}

/// Where no colours are wanted there are none; a tree is drawn nevertheless.
#[test]
fn a_tree_without_colours_is_a_tree() {
    let (world, terminal) = (world(), Terminal::open());
    let mut line = command(&world, CREATE);
    line.env("NO_COLOR", "1");
    let all = seen_by(&terminal, terminal.start(line));
    let coloured = all.split("\u{1b}[").skip(1).any(|it| {
        let end = it.find(|c: char| c.is_ascii_alphabetic());
        end.is_some_and(|end| it[end..].starts_with('m'))
    });
    assert!(!coloured, "{all:?}");
    assert!(
        screen(&all, "creating")
            .ends_with("get credentials with `strata cluster kubeconfig new --merge`"),
        "{all:?}"
    );
}

#[test]
fn progress_without_a_terminal_is_one_line_per_change() {
    let world = world();
    let mut line = command(&world, CREATE);
    line.stdin(Stdio::null());
    let mut process = Process(line.spawn().unwrap());
    let said = collected(process.0.stderr.take().unwrap());
    assert_eq!(process.exit(), Some(0));
    wait_for("the end", || {
        contains(
            &said,
            "get credentials with `strata cluster kubeconfig new --merge`",
        )
    });
    let said = written(&said);
    assert!(!said.contains('\u{1b}'), "{said:?}");
    insta::assert_snapshot!(said, @r"
    creating the cluster new; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    cluster-create of cluster/new: join: m1: installs v1.34.4
    cluster-create of cluster/new: join: m2: waits for m1
    created the cluster new; get credentials with `strata cluster kubeconfig new --merge`
    ");
}

/// One that cannot go back to a line gets lines too.
#[test]
fn a_terminal_that_cannot_draw_gets_a_line_for_what_is_new() {
    let (world, terminal) = (world(), Terminal::open());
    let mut line = command(&world, CREATE);
    line.env("TERM", "dumb");
    let all = seen_by(&terminal, terminal.start(line));
    assert!(!all.contains("\u{1b}[5A"), "{all:?}");
    let told = "cluster-create of cluster/new: join: m2: waits for m1";
    assert!(all.contains(told), "{all:?}");
}
