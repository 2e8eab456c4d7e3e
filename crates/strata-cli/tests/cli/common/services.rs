//! The services of the fake node.

use std::pin::Pin;
use std::time::Duration;

use strata_api::observe::observe_server::Observe;
use strata_api::observe::{GetAuraeDaemonLogStreamRequest, GetSubProcessStreamRequest, LogItem};
use strata_api::runtime::cell_service_server::CellService;
use strata_api::runtime::{
    AllocateCellRequest, AllocateCellResponse, FreeCellRequest, FreeCellResponse, StartCellRequest,
    StartCellResponse, StopCellRequest, StopCellResponse,
};
use strata_api::status_from_error;
use strata_api::strata::v1::cells_server::Cells;
use strata_api::strata::v1::identity_server::Identity;
use strata_api::strata::v1::logs_server::Logs;
use strata_api::strata::v1::{
    Caller, CellInfo, CreateTokenRequest, CreatedToken, ExecutableInfo, ExecutableState,
    GetCellRequest, IssueCertificateRequest, IssuedCertificate, JoinRequest, ListCellsRequest,
    ListCellsResponse, ListTokensRequest, ListTokensResponse, LogLine, ReadLogsRequest,
    RenewCertificateRequest, RevokeTokenRequest, RevokeTokenResponse, Role, TokenInfo,
    WaitExecutableRequest, WatchCellsRequest, WhoAmIRequest,
};
use strata_types::{CellSpec, Error};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

use super::data::{self, NOW_MS};
use super::fake::{Shared, State};

pub type Answer<T> = Result<Response<T>, Status>;
pub type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Shared {
    pub(super) fn open(&self) -> Result<std::sync::MutexGuard<'_, State>, Status> {
        let state = self.lock();
        match &state.refuse {
            Some(error) => Err(status_from_error(error)),
            None => Ok(state),
        }
    }
}

fn find(state: &State, name: &str) -> Result<CellInfo, Status> {
    let found = state.cells.iter().find(|cell| cell.name == name);
    found.cloned().ok_or_else(|| {
        let error = Error::not_found(format!("there is no cell {name}"));
        status_from_error(&error.with_hint("`strata cell list` shows those there are"))
    })
}

fn under(state: &State, name: &str) -> Vec<CellInfo> {
    let inside = |cell: &&CellInfo| {
        name.is_empty() || cell.name == name || cell.name.starts_with(&format!("{name}/"))
    };
    state.cells.iter().filter(inside).cloned().collect()
}

pub fn stream<T: Send + 'static>(items: Vec<T>, endless: bool) -> Answers<T> {
    let items = tokio_stream::iter(items.into_iter().map(Ok));
    if endless {
        Box::pin(items.chain(tokio_stream::pending()))
    } else {
        Box::pin(items)
    }
}

#[tonic::async_trait]
impl CellService for Shared {
    async fn allocate(
        &self,
        request: Request<AllocateCellRequest>,
    ) -> Answer<AllocateCellResponse> {
        let mut state = self.open()?;
        let cell = request.into_inner().cell.unwrap_or_default();
        let spec = CellSpec::try_from(cell.clone()).map_err(|why| status_from_error(&why))?;
        state
            .calls
            .push(format!("allocate {:?}", spec.limits.memory.max));
        state.cells.push(CellInfo {
            name: cell.name.clone(),
            cpu_shares: spec.cpu_shares.get(),
            options: cell.options,
            allocated_at_ms: NOW_MS,
            ..Default::default()
        });
        Ok(Response::new(AllocateCellResponse {
            cell_name: cell.name,
            cgroup_v2: false,
        }))
    }

    async fn free(&self, request: Request<FreeCellRequest>) -> Answer<FreeCellResponse> {
        let mut state = self.open()?;
        let request = request.into_inner();
        find(&state, &request.cell_name)?;
        state.cells.retain(|cell| cell.name != request.cell_name);
        state
            .calls
            .push(format!("free {} {:?}", request.cell_name, request.grace_ms));
        Ok(Response::new(FreeCellResponse {}))
    }

    async fn start(&self, request: Request<StartCellRequest>) -> Answer<StartCellResponse> {
        let mut state = self.open()?;
        let wanted = request.into_inner().executable.unwrap_or_default();
        find(&state, &wanted.cell_name)?;
        state.calls.push(format!("start {}", wanted.command));
        let exit_code = state.exit_code;
        let started = ExecutableInfo {
            state: ExecutableState::Exited.into(),
            exit_code: Some(exit_code),
            options: wanted.options,
            ..data::executable(&wanted.cell_name, &wanted.name, &wanted.command, 4720)
        };
        let cell = state
            .cells
            .iter_mut()
            .find(|cell| cell.name == wanted.cell_name);
        cell.unwrap().executables.push(started);
        Ok(Response::new(StartCellResponse {
            process_id: Some(4720),
        }))
    }

    async fn stop(&self, request: Request<StopCellRequest>) -> Answer<StopCellResponse> {
        let mut state = self.open()?;
        let request = request.into_inner();
        find(&state, &request.cell_name)?;
        state.calls.push(format!(
            "stop {} {:?}",
            request.executable_name, request.grace_ms
        ));
        Ok(Response::new(StopCellResponse {}))
    }
}

#[tonic::async_trait]
impl Cells for Shared {
    type WatchStream = Answers<ListCellsResponse>;

    async fn list(&self, request: Request<ListCellsRequest>) -> Answer<ListCellsResponse> {
        let state = self.open()?;
        Ok(Response::new(ListCellsResponse {
            cells: under(&state, &request.into_inner().under),
            observed_at_ms: NOW_MS,
        }))
    }

    async fn get(&self, request: Request<GetCellRequest>) -> Answer<CellInfo> {
        let state = self.open()?;
        find(&state, &request.into_inner().cell_name).map(Response::new)
    }

    /// Two looks, one second apart, the second with half a cpu's work more.
    async fn watch(&self, request: Request<WatchCellsRequest>) -> Answer<Self::WatchStream> {
        let state = self.open()?;
        let first = ListCellsResponse {
            cells: under(&state, &request.into_inner().under),
            observed_at_ms: NOW_MS - 1000,
        };
        let mut second = first.clone();
        second.observed_at_ms = NOW_MS;
        for usage in second
            .cells
            .iter_mut()
            .filter_map(|cell| cell.usage.as_mut())
        {
            usage.cpu_usec += 500_000;
            usage.io_write_bytes += 10 << 10;
        }
        Ok(Response::new(stream(vec![first, second], state.endless)))
    }

    async fn wait(&self, request: Request<WaitExecutableRequest>) -> Answer<ExecutableInfo> {
        let state = self.open()?;
        let request = request.into_inner();
        let cell = find(&state, &request.cell_name)?;
        let mut executables = cell.executables.into_iter();
        let found = executables.find(|executable| executable.name == request.executable_name);
        let missing = || {
            Status::not_found(format!(
                "there is no executable {}",
                request.executable_name
            ))
        };
        found.map(Response::new).ok_or_else(missing)
    }
}

#[tonic::async_trait]
impl Logs for Shared {
    type ReadStream = Answers<LogLine>;

    async fn read(&self, request: Request<ReadLogsRequest>) -> Answer<Self::ReadStream> {
        let state = self.open()?;
        let request = request.into_inner();
        find(&state, &request.cell_name)?;
        let mut lines: Vec<LogLine> = state
            .logs
            .iter()
            .filter(|(name, _)| *name == request.executable_name)
            .map(|(_, line)| line.clone())
            .filter(|line| line.written_at_ms >= request.since_ms.unwrap_or(0))
            .collect();
        let tail = request.tail.map_or(lines.len(), |tail| tail as usize);
        let lines = lines.split_off(lines.len().saturating_sub(tail));
        Ok(Response::new(stream(
            lines,
            state.endless && request.follow,
        )))
    }
}

#[tonic::async_trait]
impl Observe for Shared {
    type GetAuraeDaemonLogStreamStream = Answers<LogItem>;
    type GetSubProcessStreamStream = Answers<LogItem>;

    async fn get_aurae_daemon_log_stream(
        &self,
        _: Request<GetAuraeDaemonLogStreamRequest>,
    ) -> Answer<Self::GetAuraeDaemonLogStreamStream> {
        let item = |text: &str| LogItem {
            channel: "info".into(),
            line: text.into(),
            timestamp: NOW_MS / 1000,
        };
        let items = vec![item("starting"), item("recovered 3 cells"), item("ready")];
        self.open().map(|_| Response::new(stream(items, true)))
    }

    async fn get_sub_process_stream(
        &self,
        _: Request<GetSubProcessStreamRequest>,
    ) -> Answer<Self::GetSubProcessStreamStream> {
        Err(Status::unimplemented("not in this fake"))
    }
}

#[tonic::async_trait]
impl Identity for Shared {
    async fn who_am_i(&self, request: Request<WhoAmIRequest>) -> Answer<Caller> {
        drop(self.open()?);
        let bearer = request.metadata().get("authorization");
        let (name, proof) = match bearer.map(tonic::metadata::MetadataValue::as_bytes) {
            None => ("uid-0", "socket"),
            Some(b"Bearer the-secret") => ("ci", "token"),
            Some(_) => return Err(Status::unauthenticated("the token is unknown")),
        };
        Ok(Response::new(Caller {
            name: name.into(),
            role: Role::Admin.into(),
            proof: proof.into(),
            expires_at: 0,
            ca_pem: String::new(),
        }))
    }

    async fn issue_certificate(
        &self,
        request: Request<IssueCertificateRequest>,
    ) -> Answer<IssuedCertificate> {
        let mut state = self.open()?;
        let request = request.into_inner();
        strata_identity::CertificateRequest::from_pem(&request.csr_pem)
            .map_err(|why| status_from_error(&why.into()))?;
        state
            .calls
            .push(format!("issue {} {}", request.name, request.ttl_seconds));
        Ok(Response::new(IssuedCertificate {
            registries: None,
            name: request.name,
            role: request.role,
            certificate_pem: "certificate\n".into(),
            ca_pem: "ca\n".into(),
            expires_at: NOW_MS / 1000 + 86_400,
        }))
    }

    async fn renew_certificate(
        &self,
        _: Request<RenewCertificateRequest>,
    ) -> Answer<IssuedCertificate> {
        Err(Status::unimplemented("not in this fake"))
    }

    async fn join(&self, _: Request<JoinRequest>) -> Answer<IssuedCertificate> {
        Err(Status::unimplemented("not in this fake"))
    }

    async fn create_token(&self, request: Request<CreateTokenRequest>) -> Answer<CreatedToken> {
        drop(self.open()?);
        let request = request.into_inner();
        let ttl = match request.ttl_seconds {
            0 => Duration::from_secs(900),
            seconds => Duration::from_secs(seconds),
        };
        Ok(Response::new(CreatedToken {
            info: Some(TokenInfo {
                id: "0192f0c3".into(),
                name: request.name,
                kind: request.kind,
                role: request.role,
                created_at: NOW_MS / 1000,
                expires_at: NOW_MS / 1000 + i64::try_from(ttl.as_secs()).unwrap(),
                projects: Vec::new(),
            }),
            token: "the-secret".into(),
        }))
    }

    async fn list_tokens(&self, _: Request<ListTokensRequest>) -> Answer<ListTokensResponse> {
        let tokens = self.open()?.tokens.clone();
        Ok(Response::new(ListTokensResponse { tokens }))
    }

    async fn revoke_token(
        &self,
        request: Request<RevokeTokenRequest>,
    ) -> Answer<RevokeTokenResponse> {
        let mut state = self.open()?;
        let id = request.into_inner().id;
        let before = state.tokens.len();
        state.tokens.retain(|token| token.id != id);
        if state.tokens.len() == before {
            return Err(status_from_error(&Error::not_found(format!(
                "there is no token {id}"
            ))));
        }
        Ok(Response::new(RevokeTokenResponse {}))
    }
}
