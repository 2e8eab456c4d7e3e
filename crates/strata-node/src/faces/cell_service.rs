//! `runtime.CellService`: the published API for cells.

use strata_api::grace_from_field;
use strata_api::runtime::cell_service_server::CellService;
use strata_api::runtime::{
    AllocateCellRequest, AllocateCellResponse, FreeCellRequest, FreeCellResponse, StartCellRequest,
    StartCellResponse, StopCellRequest, StopCellResponse,
};
use strata_types::{CellName, CellSpec, Error, ExecutableName, ExecutableSpec, Result};
use tonic::{Request, Response, Status};

use super::status;
use crate::blocking::detached;
use crate::{Cells, Node};

pub(super) struct Face {
    cells: Cells,
}

impl Face {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            cells: node.cells.clone(),
        }
    }

    async fn allocate(&self, request: AllocateCellRequest) -> Result<AllocateCellResponse> {
        let cell = request
            .cell
            .ok_or_else(|| Error::invalid("cell", "must be given"))?;
        let spec = CellSpec::try_from(cell)?;
        let cell_name = spec.name.to_string();
        let cells = self.cells.clone();
        detached(async move { cells.allocate(spec).await }).await?;
        Ok(AllocateCellResponse {
            cell_name,
            cgroup_v2: self.cells.is_cgroup_v2(),
        })
    }

    async fn free(&self, request: FreeCellRequest) -> Result<FreeCellResponse> {
        let name = CellName::from_field("cell_name", &request.cell_name)?;
        let grace = request
            .grace_ms
            .map(|ms| grace_from_field("grace_ms", ms))
            .transpose()?;
        let cells = self.cells.clone();
        detached(async move { cells.free(&name, grace).await }).await?;
        Ok(FreeCellResponse {})
    }

    async fn start(&self, request: StartCellRequest) -> Result<StartCellResponse> {
        let executable = request
            .executable
            .ok_or_else(|| Error::invalid("executable", "must be given"))?;
        let spec = ExecutableSpec::try_from(executable)?;
        let cells = self.cells.clone();
        let pid = detached(async move { cells.start(spec).await }).await?;
        Ok(StartCellResponse {
            process_id: Some(pid),
        })
    }

    async fn stop(&self, request: StopCellRequest) -> Result<StopCellResponse> {
        let cell = CellName::from_field("cell_name", &request.cell_name)?;
        let name = ExecutableName::from_field("executable_name", &request.executable_name)?;
        let grace = request
            .grace_ms
            .map(|ms| grace_from_field("grace_ms", ms))
            .transpose()?;
        let cells = self.cells.clone();
        detached(async move { cells.stop(&cell, &name, grace).await }).await?;
        Ok(StopCellResponse {})
    }
}

#[tonic::async_trait]
impl CellService for Face {
    async fn allocate(
        &self,
        request: Request<AllocateCellRequest>,
    ) -> Result<Response<AllocateCellResponse>, Status> {
        self.allocate(request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn free(
        &self,
        request: Request<FreeCellRequest>,
    ) -> Result<Response<FreeCellResponse>, Status> {
        self.free(request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn start(
        &self,
        request: Request<StartCellRequest>,
    ) -> Result<Response<StartCellResponse>, Status> {
        self.start(request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn stop(
        &self,
        request: Request<StopCellRequest>,
    ) -> Result<Response<StopCellResponse>, Status> {
        self.stop(request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }
}
