//! The runner, held against test binaries that are shell scripts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conformance_doc;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const SUITES: &str = r#"
slots_per_cpu = 2
[suite.test]
about = "everything else"
target = "make test"
[suite.slow]
about = "slow tests"
target = "make slow"
[group.one]
at_once = 1
[group.two]
at_once = 2
RULES"#;

const RULES: [(&str, &str); 6] = [
    ("demo::slow::", "suites = [\"slow\"]"),
    ("demo::hangs", "timeout_seconds = 1"),
    ("demo::one::", "group = \"one\""),
    ("demo::two::", "group = \"two\""),
    ("demo::lost::", "group = \"none\""),
    ("demo::alone::", "exclusive = true"),
];

/// A workspace with one test binary, whose tests do what the shell says.
struct World(TempDir);

impl World {
    fn new(tests: &[(&str, &str)]) -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        let dir = world.0.path().join("demo");
        fs::create_dir_all(world.0.path().join("tests")).unwrap();
        fs::create_dir_all(&dir).unwrap();
        let rules = RULES.iter().filter(|(prefix, _)| {
            let of = |(name, _): &(&str, &str)| format!("demo::{name}").starts_with(prefix);
            tests.iter().any(of)
        });
        let rule =
            |(tests, rest): &(&str, &str)| format!("[[rule]]\ntests = \"{tests}\"\n{rest}\n");
        let rules: String = rules.map(rule).collect();
        world.write("tests/suites.toml", &SUITES.replace("RULES", &rules));
        world.write("tests/durations.tsv", "");
        let mut script = "#!/bin/sh\ncase \"$1 $4\" in\n".to_owned();
        script += "'--list --ignored') echo 'helper: test'; exit ;;\n";
        let names: Vec<&str> = tests.iter().map(|(name, _)| *name).collect();
        let list = names.join(": test\\n") + ": test\\nhelper: test\\n";
        script += &format!("--list*) printf '{list}'; exit ;;\nesac\ncase \"$2\" in\n");
        for (name, body) in tests {
            script += &format!("'{name}') {body} ;;\n");
        }
        script += "esac\necho 'test result: ok. 1 passed; 0 failed'\n";
        world.write("demo/binary", &script);
        fs::set_permissions(dir.join("binary"), fs::Permissions::from_mode(0o755)).unwrap();
        let artifact = format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"{0}/Cargo.toml","target":{{"name":"demo","kind":["lib"]}},"profile":{{"test":true}},"executable":"{0}/binary"}}"#,
            dir.display()
        );
        let noise = r#"{"reason":"build-finished","success":true}"#;
        world.write("artifacts", &format!("{artifact}\n{noise}\n"));
        world
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.path().join(path), text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let Output { status, stdout, .. } = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["test", "--artifacts", "artifacts"])
            .args(arguments)
            .current_dir(self.path())
            .output()
            .unwrap();
        Run {
            code: status.code(),
            text: String::from_utf8(stdout).unwrap(),
        }
    }
}

#[derive(Debug)]
struct Run {
    code: Option<i32>,
    text: String,
}

impl Run {
    fn last_line(&self) -> &str {
        self.text.lines().last().unwrap_or_default()
    }
}

#[test]
fn tests_of_the_suite_run_once_each_and_the_rest_is_named() {
    let world = World::new(&[
        ("a", "echo a >>../ran"),
        ("b", "echo b >>../ran"),
        ("slow::c", "echo c >>../ran"),
    ]);
    let run = world.run(&[]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.last_line(), "2 passed, 0 failed, 0 skipped");
    let left_out = "left out: 1 of slow tests; `make slow`";
    assert!(run.text.contains(left_out), "{run:?}");
    let mut ran: Vec<_> = world.read("ran").lines().map(str::to_owned).collect();
    ran.sort();
    assert_eq!(ran, ["a", "b"]);
    let run = world.run(&["--suite", "slow"]);
    assert_eq!(run.last_line(), "1 passed, 0 failed, 0 skipped");
}

#[test]
fn failure_fails_the_run_and_its_output_is_shown() {
    let world = World::new(&[("good", ":"), ("bad", "echo because; exit 101")]);
    let run = world.run(&[]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert_eq!(run.last_line(), "1 passed, 1 failed, 0 skipped");
    assert!(run.text.contains("because"), "{run:?}");
    assert!(
        run.text.contains("FAILED   demo::bad (exit code 101)"),
        "{run:?}"
    );
}

#[test]
fn a_crash_a_hang_and_a_test_that_does_not_run_are_failures() {
    let world = World::new(&[
        ("crashes", "kill -SEGV $$"),
        ("hangs", "sleep 1000"),
        ("absent", "echo 'test result: ok. 0 passed'; exit 0"),
    ]);
    let run = world.run(&[]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert_eq!(run.last_line(), "0 passed, 3 failed, 0 skipped");
    assert!(run.text.contains("demo::crashes (ended by signal 11)"));
    assert!(
        run.text
            .contains("demo::hangs (not over after 1 s, killed)")
    );
    assert!(run.text.contains("demo::absent (the test did not run)"));
}

#[test]
fn world_of_a_killed_test_is_removed() {
    let body = "mkdir -p ../data; echo $(realpath ../data) >>$STRATA_TEST_WORLDS; sleep 1000";
    let world = World::new(&[("hangs", body)]);
    // What removes worlds is looked for beside the runner.
    let runner = world.path().join("xtask");
    fs::copy(env!("CARGO_BIN_EXE_xtask"), &runner).unwrap();
    world.write("strata", "#!/bin/sh\necho \"$@\" >>down\n");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(world.path().join("strata"), executable).unwrap();
    let run = Command::new(runner)
        .args(["test", "--artifacts", "artifacts"])
        .current_dir(world.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    let data = world.path().join("data").canonicalize().unwrap();
    let down = format!("down --yes --data-dir {}\n", data.display());
    assert_eq!(world.read("down"), down);
}

#[test]
fn a_skipped_test_is_counted_with_its_reason() {
    let world = World::new(&[("needs", "echo 'skipped, nothing is proven: no QEMU' >&2")]);
    let run = world.run(&[]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.last_line(), "0 passed, 0 failed, 1 skipped");
    assert!(run.text.contains("demo::needs (no QEMU)"), "{run:?}");
}

#[test]
fn tests_of_a_group_run_no_more_at_once_than_it_allows() {
    let body = "mkdir ../held || exit 1; sleep 0.1; rmdir ../held";
    let world = World::new(&[("one::a", body), ("one::b", body), ("one::c", body)]);
    let run = world.run(&["--slots", "8"]);
    assert_eq!(run.last_line(), "3 passed, 0 failed, 0 skipped", "{run:?}");

    // Two at most see each other.
    let body = "mkdir ../x$$; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; \
                n=$(ls -d ../x* | wc -l); test $n -le 2 || exit 1; done; rmdir ../x$$";
    let world = World::new(&[("two::a", body), ("two::b", body), ("two::c", body)]);
    let run = world.run(&["--slots", "8"]);
    assert_eq!(run.last_line(), "3 passed, 0 failed, 0 skipped", "{run:?}");
}

#[test]
fn a_group_that_does_not_exist_is_an_error() {
    let run = World::new(&[("lost::a", ":")]).run(&[]);
    assert_eq!(run.code, Some(2), "{run:?}");
}

#[test]
fn an_exclusive_test_has_the_host_alone() {
    let body = "mkdir ../held || exit 1; sleep 0.1; rmdir ../held";
    let world = World::new(&[("a", body), ("alone::b", body), ("alone::c", body)]);
    let run = world.run(&["--slots", "8"]);
    assert_eq!(run.last_line(), "3 passed, 0 failed, 0 skipped", "{run:?}");
}

#[test]
fn a_rule_without_tests_is_an_error() {
    let world = World::new(&[("a", ":")]);
    let dead = format!(
        "{}[[rule]]\ntests = \"demo::renamed\"\n",
        world.read("tests/suites.toml")
    );
    world.write("tests/suites.toml", &dead);
    assert_eq!(world.run(&[]).code, Some(2));
}

#[test]
fn no_test_outlives_a_run_that_is_ended() {
    let world = World::new(&[("long", "echo $$ >../pid; exec sleep 1000")]);
    let mut run = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["test", "--artifacts", "artifacts"])
        .current_dir(world.path())
        .spawn()
        .unwrap();
    let pid_file = world.path().join("pid");
    while fs::read_to_string(&pid_file).map_or(true, |text| !text.ends_with('\n')) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid: i32 = world.read("pid").trim().parse().unwrap();
    let xtask = i32::try_from(run.id()).unwrap();
    let xtask = rustix::process::Pid::from_raw(xtask).unwrap();
    rustix::process::kill_process(xtask, rustix::process::Signal::TERM).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    // Killed at once, reaped later by its new parent.
    let command = format!("/proc/{pid}/cmdline");
    while fs::read(&command).is_ok_and(|line| line.starts_with(b"sleep")) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn the_longest_recorded_test_starts_first() {
    let world = World::new(&[
        ("a", "echo a >>../ran"),
        ("b", "echo b >>../ran; sleep 2"),
        ("c", "echo c >>../ran"),
    ]);
    world.run(&["--slots", "1", "--record"]);
    let recorded = world.read("tests/durations.tsv");
    assert!(
        recorded.lines().next().unwrap().ends_with("\tdemo::b"),
        "{recorded}"
    );
    world.write("ran", "");
    world.run(&["--slots", "1"]);
    assert_eq!(world.read("ran").lines().next(), Some("b"));
}

#[test]
fn a_filter_selects_and_nothing_selected_is_an_error() {
    let world = World::new(&[("apple", ":"), ("pear", ":")]);
    let run = world.run(&["pea"]);
    assert_eq!(run.last_line(), "1 passed, 0 failed, 0 skipped");
    assert_eq!(world.run(&["plum"]).code, Some(2));
    assert_eq!(world.run(&["--suite", "none"]).code, Some(2));
}
