//! What a kind of units is made of.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use strata_network::Endpoint;
use strata_types::pod::RestartPolicy;
use strata_types::{CellName, Label, Result};

use super::Record;
use crate::cells::{Cells, Executable};
use crate::host_path::Pins;
use crate::units::Unit;

/// How a kind of units is made, started, stopped and removed. Every call may
/// come again after it failed or was cut short by the death of the daemon.
pub(crate) trait UnitKind: Send + Sync + Sized + 'static {
    /// The specification of a unit.
    type Spec: Clone + PartialEq + fmt::Debug + Serialize + DeserializeOwned + Send + Sync;
    /// What was decided when it was made, and is kept.
    type Allocated: Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync;

    /// What it is called.
    const NOUN: &'static str;
    /// The name of its main process in its cell.
    const MAIN: &'static str;

    /// The cells of units of this kind.
    fn cells(&self) -> &Cells;
    /// A unit as the network knows it; none when it is not connected.
    fn endpoint(record: &Record<Self>) -> Option<Endpoint>;
    /// These records were found after a restart: takes note of what they hold,
    /// and adds what records of earlier versions lack. Answers which changed.
    fn adopt(&self, _records: &mut [Record<Self>]) -> Vec<usize> {
        Vec::new()
    }
    /// Takes away whatever was made for units other than those with these ids.
    fn clear_all_but(&self, known: &HashSet<&str>);

    /// The cell of a unit.
    fn cell(spec: &Self::Spec) -> CellName {
        Self::name(spec).clone().into()
    }

    fn name(spec: &Self::Spec) -> &Label;
    fn restart(spec: &Self::Spec) -> RestartPolicy;

    /// Makes all that a unit has before it is started. Whole or nothing.
    fn prepare(
        &self,
        id: &str,
        spec: &Self::Spec,
    ) -> impl Future<Output = Result<Self::Allocated>> + Send;

    /// Paths of the host that a unit uses whenever it is started.
    fn pins(&self, _spec: &Self::Spec) -> Pins {
        Pins::default()
    }

    /// What `prepare` made has its record, and is known by its name.
    fn on_known(&self, _id: &str) {}

    /// Takes away all that `prepare` made.
    fn release(&self, record: &Record<Self>) -> impl Future<Output = Result<()>> + Send;

    /// Starts it, and answers its main process. What is half done when this
    /// fails, `teardown` takes away.
    fn start(&self, record: &Record<Self>) -> impl Future<Output = Result<Arc<Executable>>> + Send;

    /// Its main process, as far as one is remembered, alive or not.
    fn main(&self, record: &Record<Self>) -> Option<Arc<Executable>> {
        let name = Self::MAIN.parse().ok()?;
        self.cells()
            .executable(&Self::cell(&record.spec), &name)
            .ok()
    }

    /// Sends the main process the request to end, and kills it after the grace
    /// period. Returns how it ended, where its exit status does not show it.
    fn stop(
        &self,
        record: &Record<Self>,
        main: &Arc<Executable>,
        grace: Option<Duration>,
    ) -> impl Future<Output = Result<Option<String>>> + Send;

    /// Takes away all that `start` made, and whatever still runs in it.
    fn teardown(&self, record: &Record<Self>) -> impl Future<Output = Result<()>> + Send;

    /// Watches over a unit that has just been started, for as long as its main
    /// process lives.
    fn monitor(&self, unit: Arc<Unit<Self>>, main: Arc<Executable>);
}
