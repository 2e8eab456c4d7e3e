//! A pod's own process, from outside: its input or its terminal, and signals
//! to it. What it writes is read from its log like everything else: a terminal
//! is kept by the pod's init, which logs what comes out of it, so that neither
//! needs this daemon.

use std::sync::Arc;

use strata_types::pod::PodState;
use strata_types::{Error, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;

use super::kind::PodKind;
use super::{PodRef, Terminal};
use crate::blocking::blocking;
use crate::cells::{Cell, Executable};
use crate::units::UnitKind as _;

/// A pod's own process.
pub(crate) struct Attached {
    cell: Arc<Cell>,
    pub(crate) main: Arc<Executable>,
    pub(crate) input: Input,
}

/// Where what is typed goes.
pub(crate) enum Input {
    /// The pod was made without one, or it has been ended.
    None,
    Pipe(pipe::Sender),
    Terminal(Arc<Terminal>),
}

/// What a terminal takes for the end, at the beginning of a line.
const END: &[u8] = &[4];

impl Attached {
    /// Sends a signal to it, not to what it started.
    pub(crate) fn signal(&self, signal: i32) -> Result<()> {
        self.cell.signal_process(&self.main, signal)
    }

    pub(crate) async fn type_in(&mut self, bytes: &[u8]) {
        let written = match &mut self.input {
            Input::Pipe(stdin) => stdin.write_all(bytes).await,
            Input::Terminal(terminal) => terminal.write_all(bytes).await,
            Input::None => Ok(()),
        };
        // There is no reader any more.
        if written.is_err() {
            self.input = Input::None;
        }
    }

    /// No client will type anything more.
    pub(crate) async fn end_input(&mut self) {
        if let Input::Terminal(_) = self.input {
            return self.type_in(END).await;
        }
        let was_open = matches!(self.input, Input::Pipe(_));
        self.input = Input::None;
        if was_open
            && let Ok(init) = self.cell.init()
            && let Err(error) = blocking(|| init.end_input(self.main.run))
        {
            let cell = &self.cell.spec.name;
            tracing::warn!(%cell, %error, "standard input of the pod not closed");
        }
    }
}

/// Finds a running pod's process.
pub(crate) fn attach(pod: &PodRef) -> Result<Attached> {
    let record = pod.record();
    let view = pod.view();
    let main = view
        .main
        .filter(|_| view.state == PodState::Running)
        .ok_or_else(|| {
            Error::wrong_state(format!(
                "pod {:?} is {}, not running",
                record.spec.name.as_str(),
                view.state
            ))
        })?;
    let cell = pod
        .kind()?
        .cells
        .find("pod", &PodKind::cell(&record.spec))?;
    let input = match (record.spec.terminal, record.spec.stdin) {
        (true, _) => {
            let init = cell.init()?;
            let ours = blocking(|| init.terminal()).map_err(|error| {
                Error::wrong_state(format!("the pod's terminal cannot be had: {error}"))
            })?;
            Input::Terminal(Arc::new(Terminal::of(ours)?))
        }
        (false, true) => {
            let opened = pipe::OpenOptions::new().open_sender(main.dir.join("stdin"));
            // It has no reader when the process has just ended.
            Input::Pipe(opened.map_err(|error| {
                Error::wrong_state(format!("the pod's input cannot be opened: {error}"))
            })?)
        }
        (false, false) => Input::None,
    };
    Ok(Attached { cell, main, input })
}
