//! Help and scripts: every command explains itself with examples, and tables
//! fit the terminal.

use clap::CommandFactory;

use crate::common::{Cli, World};

#[test]
fn the_parser_is_sound() {
    <Cli as CommandFactory>::command().debug_assert();
}

#[test]
fn every_command_has_examples_that_parse() {
    fn leaves(command: &clap::Command, path: &str) {
        let path = format!("{path} {}", command.get_name());
        if command.has_subcommands() {
            for sub in command.get_subcommands() {
                leaves(sub, &path);
            }
            return;
        }
        let help = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let (_, examples) = help.split_once("Examples:\n").expect(&path);
        let own = format!("  {}", path.trim());
        assert!(examples.contains(&own), "{path}: {examples}");
        assert!(examples.lines().count() <= 6, "{path}");
        for line in examples.lines() {
            assert!(line.len() <= 80, "{path}: {line}");
            check(line, &own);
        }
    }
    fn check(line: &str, own: &str) {
        if !line.starts_with(own) || line.ends_with('\\') {
            return;
        }
        let typed = line
            .split(" | ")
            .next()
            .unwrap()
            .split(" > ")
            .next()
            .unwrap();
        let typed = typed.split("   ").next().unwrap();
        let words = shlex_words(typed.trim());
        if let Err(error) = Cli::try_parse_from(words) {
            panic!("{line}: {error}");
        }
    }
    fn shlex_words(line: &str) -> Vec<String> {
        let command = strata_types::CommandLine::from_field("line", line).unwrap();
        command.into()
    }
    use clap::Parser as _;
    for command in <Cli as CommandFactory>::command().get_subcommands() {
        leaves(command, "strata");
    }
}

#[tokio::test]
async fn tables_fit_eighty_columns() {
    for line in [
        "strata cell list",
        "strata cell show web",
        "strata token list",
        "strata top --once",
        "strata machine list",
        "strata hypervisor list",
        "strata hypervisor autoscale plan",
        "strata cluster list",
        "strata cluster nodes prod",
        "strata cluster create x --version 1.34 --dry-run",
        "strata cluster snapshot list dev",
        "strata pool list dev",
        "strata storage show",
        "strata storage volume list",
        "strata backup list",
        "strata backup schedule list",
    ] {
        let world = World::new();
        assert_eq!(world.exit(line).await, 0);
        for row in world.stdout.take().lines() {
            assert!(row.chars().count() <= 80, "{line}: {row}");
        }
    }
}

#[tokio::test]
async fn completion_scripts_ask_the_binary() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        assert_eq!(world.exit(&format!("strata completion {shell}")).await, 0);
        let script = world.stdout.take();
        assert!(script.contains("STRATA_COMPLETE"), "{shell}: {script}");
    }
    assert_eq!(world.exit("strata completion tcsh").await, 2);
}

#[tokio::test]
async fn version_and_doctor_ask_nobody() {
    let world = World::new();
    world.node.vanish();
    assert_eq!(world.exit("strata version -o json").await, 0);
    assert!(world.stdout.take().contains("\"version\""));
    // Whether it can run depends on the machine; that it answers does not.
    assert!([0, 6].contains(&world.exit("strata doctor -o name").await));
    assert!(world.stdout.take().contains("check/cgroups\n"));
}
