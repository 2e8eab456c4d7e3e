//! Chores of the repository that outgrew a shell script. `make` calls them;
//! `xtask --help` lists them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool prints"
)]

mod modules;
mod test;
mod words;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(about = "Chores of the repository")]
enum Command {
    Modules(modules::Arguments),
    Test(test::Arguments),
    Words(words::Arguments),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Modules(arguments) => modules::main(&arguments).map_err(|error| error.to_string()),
        Command::Test(arguments) => test::main(&arguments).map_err(|error| error.to_string()),
        Command::Words(arguments) => words::main(&arguments).map_err(|error| error.to_string()),
    };
    result.unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::from(2)
    })
}
