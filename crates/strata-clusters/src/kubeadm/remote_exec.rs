//! What is done on a machine, and nothing of how it is reached.

use std::time::Duration;

use crate::Done;

/// One thing that is run to its end on a machine.
pub struct ExecRequest {
    /// The name of the executable: one of a name runs at a time.
    pub name: String,
    /// Shell words. Every user on the machine can read them: secrets go by
    /// `input`.
    pub command: String,
    /// Its standard input, at most 1 MiB.
    pub input: Option<Vec<u8>>,
    /// How long it may take. What takes longer is ended.
    pub timeout: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// Its exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// The end of what it wrote, at most 64 KiB.
    pub output: String,
}

/// Runs things on machines, in the cell `kubernetes` of each.
///
/// All that fails is [`crate::DriverError::Unreachable`]: a program that ends
/// badly is an answer.
pub trait RemoteExec: Send + Sync + 'static {
    /// Runs something to its end. The same name again replaces one that
    /// ended.
    fn run<'a>(&'a self, machine: &'a str, run: ExecRequest) -> Done<'a, ExecOutput>;

    /// Keeps something running: it is started again when it ends, also after a
    /// reboot. The same again is fine; another command takes its place.
    fn supervise<'a>(&'a self, machine: &'a str, name: &'a str, command: &'a str) -> Done<'a>;

    /// Ends what is kept running. One that is not there is fine.
    fn stop<'a>(&'a self, machine: &'a str, name: &'a str) -> Done<'a>;

    /// Where this product's own program is on the machine.
    fn program<'a>(&'a self, machine: &'a str) -> Done<'a, String>;
}
