//! One machine, by its remote exec: scripts that are run on it, and files that
//! are put there.

use std::time::Duration;

use super::RemoteExec;
use super::archive::Archive;
use super::remote_exec::ExecRequest;
use crate::DriverError;

/// Everything of ours that outlives a reboot of the machine.
pub(super) const HERE: &str = "/var/lib/strata-kubernetes";
/// For what does next to nothing.
pub(super) const SHORT_TIMEOUT: Duration = Duration::from_secs(30);
/// What is shown of a long output: the end says why.
const MAX_SHOWN: usize = 1500;

#[derive(Clone, Copy)]
pub(super) struct Machine<'a> {
    pub(super) remote_exec: &'a dyn RemoteExec,
    pub(super) name: &'a str,
}

/// One of our scripts to be run.
pub(super) struct Script<'a> {
    /// The script and its words, which are ours and need no quotes.
    pub(super) line: &'a str,
    /// As a person would call it.
    pub(super) what: &'a str,
    pub(super) input: Option<Vec<u8>>,
    pub(super) timeout: Duration,
    /// Whether, having failed, it may work the next time.
    pub(super) passing: bool,
}

impl<'a> Machine<'a> {
    /// Runs a script to its end and gives what it wrote.
    pub(super) async fn script(self, script: Script<'_>) -> Result<String, DriverError> {
        let (name, _) = script.line.split_once(' ').unwrap_or((script.line, ""));
        let run = ExecRequest {
            name: name.to_owned(),
            command: format!("/bin/sh {HERE}/{}", script.line),
            input: script.input,
            timeout: script.timeout,
        };
        self.run(run, script.what, script.passing).await
    }

    /// The same for what takes no time and no input.
    pub(super) async fn short(self, line: &str, what: &str) -> Result<String, DriverError> {
        let script = Script {
            line,
            what,
            input: None,
            timeout: SHORT_TIMEOUT,
            passing: true,
        };
        self.script(script).await
    }

    /// Runs some words of the shell.
    pub(super) async fn shell(
        self,
        name: &str,
        text: &str,
        input: Option<Vec<u8>>,
    ) -> Result<String, DriverError> {
        self.message(name, text, input, SHORT_TIMEOUT).await
    }

    /// The same for what takes no input, and this long at most.
    pub(super) async fn shell_within(
        self,
        name: &str,
        text: &str,
        timeout: Duration,
    ) -> Result<String, DriverError> {
        self.message(name, text, None, timeout).await
    }

    async fn message(
        self,
        name: &str,
        text: &str,
        input: Option<Vec<u8>>,
        timeout: Duration,
    ) -> Result<String, DriverError> {
        let quoted = shlex::try_quote(text).unwrap_or_default();
        let run = ExecRequest {
            name: name.to_owned(),
            command: format!("/bin/sh -c {quoted}"),
            input,
            timeout,
        };
        self.run(run, name, true).await
    }

    /// Puts files in place. Other users can read them only where their mode
    /// allows it, also while they are written.
    pub(super) async fn put(self, name: &str, files: Archive) -> Result<(), DriverError> {
        let text = format!("umask 077; mkdir -p {HERE} && exec tar -x -p -C /");
        let put = self.shell(name, &text, Some(files.finish())).await;
        put.map(drop)
    }

    /// Puts one file in place, whole or not at all.
    pub(super) async fn replace(
        self,
        name: &str,
        path: &str,
        content: Vec<u8>,
    ) -> Result<(), DriverError> {
        let text = format!("umask 077; cat >{path}.new && mv {path}.new {path}");
        self.shell(name, &text, Some(content)).await.map(drop)
    }

    pub(super) async fn supervise(self, name: &str, command: &str) -> Result<(), DriverError> {
        self.remote_exec.supervise(self.name, name, command).await
    }

    pub(super) async fn stop(self, name: &str) -> Result<(), DriverError> {
        self.remote_exec.stop(self.name, name).await
    }

    async fn run(self, run: ExecRequest, what: &str, passing: bool) -> Result<String, DriverError> {
        let ran = self.remote_exec.run(self.name, run).await?;
        match ran.code {
            Some(0) => Ok(ran.output),
            code => Err(DriverError::Failed {
                what: what.to_owned(),
                machine: self.name.to_owned(),
                why: why(code, &ran.output),
                passing,
            }),
        }
    }
}

/// How it ended, and the end of what it wrote.
fn why(code: Option<i32>, output: &str) -> String {
    let how = code.map_or("it was ended".to_owned(), |code| {
        format!("exit code {code}")
    });
    let output = output.trim_end();
    let skipped = output.chars().count().saturating_sub(MAX_SHOWN);
    let end: String = output.chars().skip(skipped).collect();
    match end.is_empty() {
        true => how,
        false => format!("{how}: {end}"),
    }
}
