//! Chores of the repository that outgrew a shell script. `make` calls them;
//! `xtask --help` lists them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool prints"
)]

mod test;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(about = "Chores of the repository")]
enum Command {
    Test(test::Arguments),
}

fn main() -> ExitCode {
    let Command::Test(arguments) = Command::parse();
    match test::main(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}
