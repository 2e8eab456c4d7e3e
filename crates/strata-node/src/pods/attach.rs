//! A pod's own process, from outside: its input, and signals to it. What it
//! writes is read from its log like everything else.

use std::sync::Arc;

use strata_types::pod::PodState;
use strata_types::{Error, Result};
use tokio::net::unix::pipe;

use super::PodRef;
use super::kind::PodKind;
use crate::cells::{Cell, Executable};
use crate::units::Kind as _;

/// A pod's own process.
pub(crate) struct Attached {
    cell: Arc<Cell>,
    pub(crate) main: Arc<Executable>,
    /// None when the pod was made without an input.
    pub(crate) stdin: Option<pipe::Sender>,
}

impl Attached {
    /// Sends a signal to its process group.
    pub(crate) fn signal(&self, signal: i32) -> Result<()> {
        self.cell.signal(&self.main, signal)
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
    let stdin = match record.spec.stdin {
        true => {
            let opened = pipe::OpenOptions::new().open_sender(main.folder.join("stdin"));
            // Nobody reads it when the process has just ended.
            Some(opened.map_err(|error| {
                Error::wrong_state(format!("the pod's input cannot be opened: {error}"))
            })?)
        }
        false => None,
    };
    let cell = pod
        .kind()?
        .cells
        .find("pod", &PodKind::cell(&record.spec))?;
    Ok(Attached { cell, main, stdin })
}
