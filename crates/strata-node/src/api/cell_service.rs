//! `runtime.CellService`: the published API for cells.

use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use strata_api::runtime::cell_service_server::CellService;
use strata_api::runtime::{
    AllocateCellRequest, AllocateCellResponse, FreeCellRequest, FreeCellResponse, StartCellRequest,
    StartCellResponse, StopCellRequest, StopCellResponse,
};
use strata_api::{grace_from_field, take_input};
use strata_audit::{Session, SessionKind, SessionRecorder};
use strata_identity::Caller;
use strata_tasks::spawn_detached;
use strata_types::{CellName, CellSpec, Error, ExecutableName, ExecutableSpec, Result};
use tonic::{Request, Response, Status};

use super::cell_rights::{may_allocate, may_start, may_use};
use super::{audit, status};
use crate::blocking::detached;
use crate::cells::Cell;
use crate::{Cells, Node};

pub(super) struct CellServiceApi {
    cells: Cells,
}

impl CellServiceApi {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            cells: node.cells.clone(),
        }
    }

    async fn allocate(
        &self,
        caller: Option<&Caller>,
        request: AllocateCellRequest,
    ) -> Result<AllocateCellResponse> {
        let cell = request
            .cell
            .ok_or_else(|| Error::invalid("cell", "must be given"))?;
        let mut spec = CellSpec::try_from(cell)?;
        may_allocate(caller, &mut spec)?;
        let around = self.around(&spec.name);
        may_use(caller, around.iter().map(|cell| &cell.spec))?;
        let cell_name = spec.name.to_string();
        let cells = self.cells.clone();
        detached(async move { cells.allocate(spec).await }).await?;
        Ok(AllocateCellResponse {
            cell_name,
            cgroup_v2: self.cells.is_cgroup_v2(),
        })
    }

    /// The cells around one, as far as they are there.
    fn around(&self, name: &CellName) -> Vec<Arc<Cell>> {
        let names = std::iter::successors(name.parent(), CellName::parent);
        names
            .filter_map(|name| self.cells.find("cell", &name).ok())
            .collect()
    }

    async fn free(
        &self,
        caller: Option<&Caller>,
        request: FreeCellRequest,
    ) -> Result<FreeCellResponse> {
        let name = CellName::from_field("cell_name", &request.cell_name)?;
        let within = self.cells.list(Some(&name));
        may_use(caller, within.iter().map(|cell| &cell.spec))?;
        // What runs in a cell ends with it.
        for cell in &within {
            for run in cell.runs().iter().filter(|run| !run.view().is_at_rest()) {
                may_start(caller, &cell.spec, &run.spec)?;
            }
        }
        let grace = request
            .grace_ms
            .map(|ms| grace_from_field("grace_ms", ms))
            .transpose()?;
        let cells = self.cells.clone();
        detached(async move { cells.free(&name, grace).await }).await?;
        Ok(FreeCellResponse {})
    }

    async fn start(
        &self,
        caller: Option<&Caller>,
        recorder: &SessionRecorder,
        request: StartCellRequest,
    ) -> Result<StartCellResponse> {
        let mut executable = request
            .executable
            .ok_or_else(|| Error::invalid("executable", "must be given"))?;
        let input = take_input(&mut executable)?;
        let spec = ExecutableSpec::try_from(executable)?;
        let cell = self.cells.find("executable.cell_name", &spec.cell)?;
        may_start(caller, &cell.spec, &spec)?;
        let input_bytes = input.as_ref().map_or(0, Vec::len);
        let input = input.map(|bytes| in_memory(&bytes)).transpose();
        let input = input
            .map_err(|error| Error::internal(format!("cannot hand over the input: {error}")))?;
        let object = format!("cell/{}/{}", spec.cell, spec.name);
        let session = recorder.start(SessionKind::Executable, object, None, spec.command.words());
        session.meter().sent(input_bytes);
        let cells = self.cells.clone();
        let pid = detached(async move {
            let name = spec.name.clone();
            let started = cells.start(&cell, spec, input).await;
            match &started {
                Ok(_) => record_end(&cell, &name, session),
                Err(error) => session.end(audit::not_started(error)),
            }
            started
        })
        .await?;
        Ok(StartCellResponse {
            process_id: Some(pid),
        })
    }

    async fn stop(
        &self,
        caller: Option<&Caller>,
        request: StopCellRequest,
    ) -> Result<StopCellResponse> {
        let cell = CellName::from_field("cell_name", &request.cell_name)?;
        let name = ExecutableName::from_field("executable_name", &request.executable_name)?;
        // What is not there is refused below.
        if let Ok(found) = self.cells.find("cell_name", &cell)
            && let Ok(executable) = found.executable(&name)
        {
            may_start(caller, &found.spec, &executable.spec)?;
        }
        let grace = request
            .grace_ms
            .map(|ms| grace_from_field("grace_ms", ms))
            .transpose()?;
        let cells = self.cells.clone();
        detached(async move { cells.stop(&cell, &name, grace).await }).await?;
        Ok(StopCellResponse {})
    }
}

/// Writes how the run that was just started ends, when it does. The process
/// outlives the daemon: then the log has its start alone.
fn record_end(cell: &Cell, name: &ExecutableName, session: Session) {
    match cell.executable(name) {
        Ok(run) => {
            spawn_detached("session-audit", async move {
                session.end(audit::ended(&run.ended().await, false));
            });
        }
        Err(error) => session.end(audit::not_started(&error)),
    }
}

/// A file that is in no directory and cannot be changed: no task has to stay
/// and write it to a process, and it goes with the process.
fn in_memory(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = std::fs::File::from(memfd_create("input", flags)?);
    file.write_all(bytes)?;
    file.rewind()?;
    let unchangeable = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, unchangeable)?;
    Ok(file.into())
}

#[tonic::async_trait]
impl CellService for CellServiceApi {
    async fn allocate(
        &self,
        request: Request<AllocateCellRequest>,
    ) -> Result<Response<AllocateCellResponse>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        self.allocate(caller.as_ref(), request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn free(
        &self,
        request: Request<FreeCellRequest>,
    ) -> Result<Response<FreeCellResponse>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        self.free(caller.as_ref(), request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn start(
        &self,
        request: Request<StartCellRequest>,
    ) -> Result<Response<StartCellResponse>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let recorder = audit::recorder(&request);
        self.start(caller.as_ref(), &recorder, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn stop(
        &self,
        request: Request<StopCellRequest>,
    ) -> Result<Response<StopCellResponse>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        self.stop(caller.as_ref(), request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }
}
