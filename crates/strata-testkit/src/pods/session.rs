//! A session with a process in a pod.

use std::time::Duration;

use strata_api::strata::v1::exec_input::Input;
use strata_api::strata::v1::exec_output::Output;
use strata_api::strata::v1::{EndOfInput, ExecEnded, ExecInput, ExecOutput, TerminalSize};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::ExecResult;

type Result<T> = std::result::Result<T, Status>;

/// How long a process may keep silent while something is waited for.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(30);

/// A session with a process in a pod. Dropping it ends the session.
pub struct Session {
    input: mpsc::Sender<ExecInput>,
    output: Streaming<ExecOutput>,
    /// What it wrote so far.
    pub stdout: Vec<u8>,
    /// What it wrote about it so far.
    pub stderr: Vec<u8>,
    /// Its number on the machine; 0 until it is received.
    pub pid: i64,
    ended: Option<ExecEnded>,
}

impl Session {
    pub(super) fn new(input: mpsc::Sender<ExecInput>, output: Streaming<ExecOutput>) -> Self {
        Self {
            input,
            output,
            stdout: Vec::new(),
            stderr: Vec::new(),
            pid: 0,
            ended: None,
        }
    }

    /// Sends something.
    pub async fn send(&self, input: Input) {
        // One that has ended takes nothing any more, which its end shows.
        let _ = self.input.send(ExecInput { input: Some(input) }).await;
    }

    /// Types something.
    pub async fn type_in(&self, text: &str) {
        self.send(Input::Stdin(text.to_owned().into())).await;
    }

    /// Ends the input.
    pub async fn end_input(&self) {
        self.send(Input::End(EndOfInput {})).await;
    }

    /// Gives its terminal another size.
    pub async fn resize(&self, rows: u32, columns: u32) {
        self.send(Input::Resize(TerminalSize { rows, columns }))
            .await;
    }

    /// Receives one message; false at the end.
    pub async fn step(&mut self) -> Result<bool> {
        let message = tokio::time::timeout(OUTPUT_TIMEOUT, self.output.message()).await;
        let silent = |_| Status::deadline_exceeded("the process keeps silent");
        match message.map_err(silent)??.and_then(|message| message.output) {
            Some(Output::Started(started)) => self.pid = started.process_id,
            Some(Output::Stdout(bytes)) => self.stdout.extend_from_slice(&bytes),
            Some(Output::Stderr(bytes)) => self.stderr.extend_from_slice(&bytes),
            Some(Output::Ended(ended)) => {
                self.ended = Some(ended);
                return Ok(false);
            }
            None => return Err(Status::internal("its exit was not reported")),
        }
        Ok(true)
    }

    /// Waits until it has written a text.
    ///
    /// # Panics
    /// When it ends or keeps silent before.
    pub async fn until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.stdout).contains(text) {
            let so_far = || String::from_utf8_lossy(&self.stdout).into_owned();
            let so_far = so_far();
            let more = self.step().await;
            assert!(matches!(more, Ok(true)), "{text:?}: {more:?}, {so_far:?}");
        }
    }

    /// Waits until it is known to run; its number on the machine.
    pub async fn started(&mut self) -> Result<i64> {
        while self.pid == 0 && self.step().await? {}
        Ok(self.pid)
    }

    /// All the rest, to the end.
    pub async fn finish(mut self) -> Result<ExecResult> {
        while self.step().await? {}
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(ExecResult {
            stdout: text(&self.stdout),
            stderr: text(&self.stderr),
            ended: self.ended.unwrap_or_default(),
        })
    }
}
