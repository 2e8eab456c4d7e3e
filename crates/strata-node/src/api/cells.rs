//! `strata.v1.Cells`: listing, figures, and waiting for an end.

use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use strata_api::strata::v1;
use strata_tasks::spawn_detached;
use strata_types::{CellName, Error, ExecutableName, Result};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::sampling::sample;
use super::{status, views};
use crate::blocking::blocking;
use crate::clock::now_ms;
use crate::{Cells, Node};

pub(super) struct CellsApi {
    cells: Cells,
}

impl CellsApi {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            cells: node.cells.clone(),
        }
    }

    fn under(text: &str) -> Result<Option<CellName>> {
        match text {
            "" => Ok(None),
            text => CellName::from_field("under", text).map(Some),
        }
    }
}

/// Whether the caller of this request sees the values of variables.
fn secrets<T>(request: &Request<T>) -> bool {
    views::sees_secrets(request.extensions().get())
}

fn snapshot(cells: &Cells, under: Option<&CellName>, secrets: bool) -> v1::ListCellsResponse {
    let cgroup_v2 = cells.is_cgroup_v2();
    let found = cells.list(under);
    blocking(|| v1::ListCellsResponse {
        cells: found
            .iter()
            .map(|cell| views::cell(cell, cgroup_v2, secrets))
            .collect(),
        observed_at_ms: now_ms(),
    })
}

async fn wait(
    cells: &Cells,
    request: &v1::WaitExecutableRequest,
    secrets: bool,
) -> Result<v1::ExecutableInfo> {
    let cell = CellName::from_field("cell_name", &request.cell_name)?;
    let name = ExecutableName::from_field("executable_name", &request.executable_name)?;
    loop {
        let run = cells.executable(&cell, &name)?;
        if !run.at_rest().await.followed {
            return Ok(views::executable(&run, secrets));
        }
    }
}

#[tonic::async_trait]
impl v1::cells_server::Cells for CellsApi {
    async fn list(
        &self,
        request: Request<v1::ListCellsRequest>,
    ) -> Result<Response<v1::ListCellsResponse>, Status> {
        let under = Self::under(&request.get_ref().under).map_err(status)?;
        let secrets = secrets(&request);
        Ok(Response::new(snapshot(
            &self.cells,
            under.as_ref(),
            secrets,
        )))
    }

    async fn get(
        &self,
        request: Request<v1::GetCellRequest>,
    ) -> Result<Response<v1::CellInfo>, Status> {
        let name = CellName::from_field("cell_name", &request.get_ref().cell_name);
        let cell = name
            .and_then(|name| self.cells.find("cell_name", &name))
            .map_err(status)?;
        let (cgroup_v2, secrets) = (self.cells.is_cgroup_v2(), secrets(&request));
        let view = blocking(|| views::cell(&cell, cgroup_v2, secrets));
        Ok(Response::new(view))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::ListCellsResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<v1::WatchCellsRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let secrets = secrets(&request);
        let request = request.into_inner();
        let under = Self::under(&request.under).map_err(status)?;
        let interval = request.interval_ms.unwrap_or(1000);
        if !(100..=60_000).contains(&interval) {
            let why = format!("is {interval}; 100 to 60000 are allowed");
            return Err(status(Error::invalid("interval_ms", why)));
        }
        let (sender, stream) = mpsc::channel(1);
        let cells = self.cells.clone();
        spawn_detached("cell-watch", async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(interval.into()));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = ticks.tick() => {}
                    () = sender.closed() => return,
                }
                let view = sample(|| snapshot(&cells, under.as_ref(), secrets)).await;
                if sender.send(Ok(view)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn wait(
        &self,
        request: Request<v1::WaitExecutableRequest>,
    ) -> Result<Response<v1::ExecutableInfo>, Status> {
        wait(&self.cells, request.get_ref(), secrets(&request))
            .await
            .map(Response::new)
            .map_err(status)
    }
}
