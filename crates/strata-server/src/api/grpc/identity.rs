//! `strata.v1.Identity`: certificates, API tokens, join tokens. Thin over
//! `strata-identity`; a caller that gets here has passed the auth layer.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use strata_api::status_from_error;
use strata_api::strata::v1::identity_server::{Identity, IdentityServer};
use strata_api::strata::v1::{
    self, CreateTokenRequest, CreatedToken, IssueCertificateRequest, IssuedCertificate,
    JoinRequest, ListTokensRequest, ListTokensResponse, NodeRegistries, RenewCertificateRequest,
    RevokeTokenRequest, RevokeTokenResponse, WhoAmIRequest,
};
use strata_identity::{
    Ca, Caller, CertificateError, CertificateId, CertificateRequest, CertificateSpec, Host,
    JoinBinding, Name, TokenInfo, TokenKind, Tokens,
};
use strata_transport::Peer;
use strata_types::{Error, ErrorKind, Label, Role};
use tonic::{Request, Response, Status};

use crate::core::{Core, check_binding};

/// The longest message: a certificate request and a few names.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// The identity service of an installation.
#[derive(Clone)]
pub struct IdentityApi {
    ca: Arc<Ca>,
    tokens: Arc<Tokens>,
    core: Option<Core>,
    server_hosts: Arc<[Host]>,
    registries: Option<Arc<NodeRegistries>>,
}

impl IdentityApi {
    /// Over this CA and these tokens; of a node that runs alone.
    pub fn new(ca: Arc<Ca>, tokens: Arc<Tokens>) -> Self {
        Self {
            ca,
            tokens,
            core: None,
            server_hosts: Arc::default(),
            registries: None,
        }
    }

    /// With the records of a server: certificates are recorded, and nodes join
    /// by the rules of nodes.
    #[must_use]
    pub fn with_core(mut self, core: Core) -> Self {
        self.core = Some(core);
        self
    }

    /// Where the server itself is reached: no node is certified for that, even
    /// when it comes from the same machine.
    #[must_use]
    pub fn with_server_hosts(mut self, hosts: &[Host]) -> Self {
        self.server_hosts = hosts.into();
        self
    }

    /// With the registries that machines are given which the server brings up.
    #[must_use]
    pub fn with_registries(mut self, registries: Option<NodeRegistries>) -> Self {
        self.registries = registries.map(Arc::new);
        self
    }

    /// The gRPC service, for any port: the control plane's, or that of a node
    /// that runs alone.
    pub fn service(self) -> IdentityServer<Self> {
        IdentityServer::new(self).max_decoding_message_size(MAX_REQUEST_BYTES)
    }

    /// Signs; what it made is not handed out before it is recorded.
    fn sign(
        &self,
        csr: &CertificateRequest,
        spec: &CertificateSpec,
    ) -> Result<(IssuedCertificate, CertificateId), Error> {
        let issued = self.ca.sign(csr, spec)?;
        let unknown = || Error::internal("a certificate was signed that names no caller");
        let id = issued.id().ok_or_else(unknown)?;
        tracing::info!(name = %id.name, role = %id.role, serial = id.serial, until = %id.expires_at, "certificate issued");
        let answer = IssuedCertificate {
            name: id.name.to_string(),
            role: v1::Role::from(id.role).into(),
            certificate_pem: issued.certificate_pem,
            ca_pem: self.ca.ca_pem(),
            expires_at: id.expires_at.as_second(),
            registries: None,
        };
        Ok((answer, id))
    }

    /// Until when certificates of a name are refused: a new one is none of
    /// them.
    fn refused_until(&self, role: Role, name: &Name) -> Option<Timestamp> {
        let core = self.core.as_ref()?;
        core.certificates().revocations().refused_until(role, name)
    }

    async fn issue(
        &self,
        caller: &Caller,
        request: &IssueCertificateRequest,
    ) -> Result<IssuedCertificate, Error> {
        let name: Name = request.name.parse()?;
        let role = Role::try_from(request.role())?;
        let csr = CertificateRequest::from_pem(&request.csr_pem)?;
        let until = self.refused_until(role, &name);
        let mut spec = CertificateSpec::caller(name, role).issued_after(until);
        if let Some(ttl) = ttl(request.ttl_seconds) {
            spec = spec.lasting(ttl)?;
        }
        let (answer, id) = self.sign(&csr, &spec)?;
        if let Some(core) = &self.core {
            core.certificates()
                .record(&id, caller.name.as_str())
                .await?;
        }
        Ok(answer)
    }

    async fn renew(
        &self,
        request: &Request<RenewCertificateRequest>,
    ) -> Result<IssuedCertificate, Error> {
        let caller = caller(request)?;
        let peer = request.extensions().get::<Arc<Peer>>();
        let certificate = peer.and_then(|peer| peer.certificate.as_ref());
        let present = certificate.map(|der| {
            let spec = CertificateSpec::renewal_of(der)?;
            Ok::<_, CertificateError>((spec, CertificateId::of(der)?))
        });
        // A token beside the certificate may be of another caller.
        let Some(Ok((spec, parent))) =
            present.filter(|_| caller.proof == strata_identity::Proof::Certificate)
        else {
            return Err(
                Error::wrong_state("only a certificate can be renewed").with_hint(
                    "call with the certificate that shall be renewed, and without a token",
                ),
            );
        };
        let csr = CertificateRequest::from_pem(&request.get_ref().csr_pem)?;
        let until = self.refused_until(parent.role, &parent.name);
        let spec = spec
            .with_hosts(self.remote_host(request))
            .issued_after(until);
        let (answer, child) = self.sign(&csr, &spec)?;
        if let Some(core) = &self.core {
            core.certificates().renew(&parent, &child).await?;
        }
        Ok(answer)
    }

    /// The token is checked first, so that unauthenticated clients learn
    /// nothing; used up last, so that a mistake in the rest does not cost it.
    async fn join(
        &self,
        request: JoinRequest,
        remote: Option<Host>,
    ) -> Result<IssuedCertificate, Error> {
        let token = self.tokens.verify_join(&request.token)?;
        let binding = token.join.as_ref();
        let name: Name = match (request.node_name.as_str(), binding) {
            ("", Some(binding)) => binding.node.clone(),
            ("", None) => format!("node-{}", uuid::Uuid::now_v7()).parse()?,
            (name, _) => name.parse().map_err(|error: strata_identity::NameError| {
                Error::from(error).in_field("node_name")
            })?,
        };
        check_binding(binding, &name)?;
        let until = match &self.core {
            Some(core) => core.check_join(&name, binding)?,
            None => None,
        };
        let csr = CertificateRequest::from_pem(&request.csr_pem)?;
        let spec = CertificateSpec::caller(name, Role::Node)
            .with_hosts(remote)
            .issued_after(until);
        let (tokens, text) = (self.tokens.clone(), request.token);
        // What waits for the disk does not hold up other requests.
        let used = tokio::task::spawn_blocking(move || tokens.consume_join(&text)).await;
        used.map_err(|error| Error::internal(error.to_string()))??;
        let (mut answer, id) = self.sign(&csr, &spec)?;
        // A node that people set up has a configuration of its own.
        let is_brought_up = binding.is_some_and(|binding| binding.operation.is_some());
        answer.registries = self
            .registries
            .as_deref()
            .cloned()
            .filter(|_| is_brought_up);
        if let Some(core) = &self.core {
            let by = format!("join token {}", token.id);
            core.node_joined(&id, binding, until, &by).await?;
        }
        tracing::info!(token = token.id, node = %id.name, key = id.key, "node joins");
        Ok(answer)
    }

    fn create_token(&self, request: &CreateTokenRequest) -> Result<CreatedToken, Error> {
        let name: Name = request.name.parse()?;
        let ttl = ttl(request.ttl_seconds);
        if request.replace && request.kind() != v1::TokenKind::Join {
            return Err(Error::invalid(
                "replace",
                "is for join tokens: another has no place to take",
            ));
        }
        let labels = request.accept_labels || !request.labels.is_empty();
        if labels && request.kind() != v1::TokenKind::Join {
            return Err(Error::invalid(
                "labels",
                "are for join tokens: a node has them",
            ));
        }
        let (info, token) = match (request.kind(), request.role()) {
            (v1::TokenKind::Api, role) => {
                let projects = request.projects.iter();
                let projects: Vec<Label> = projects
                    .map(|project| Label::from_field("projects", project))
                    .collect::<Result<_, _>>()?;
                let role = Role::try_from(role)?;
                self.tokens.create_api_in(&name, role, &projects, ttl)?
            }
            (v1::TokenKind::Join, v1::Role::Unspecified | v1::Role::Node) => {
                crate::core::check_labels(&request.labels)?;
                let binding = JoinBinding {
                    replaces: request.replace,
                    labels: request.labels.clone().into_iter().collect(),
                    accepts_labels: request.accept_labels,
                    ..JoinBinding::to(name)
                };
                let fingerprint = self.ca.fingerprint();
                self.tokens.create_bound_join(binding, fingerprint, ttl)?
            }
            (v1::TokenKind::Join, _) => {
                return Err(Error::invalid(
                    "role",
                    "a join token makes a node; leave the role out",
                ));
            }
            (v1::TokenKind::Unspecified, _) => {
                return Err(Error::invalid("kind", "must be one of api, join"));
            }
        };
        tracing::info!(token = info.id, name = %info.name, role = %info.role, "token created");
        Ok(CreatedToken {
            info: Some(token_to_wire(info)),
            token: token.expose().to_owned(),
        })
    }
}

#[tonic::async_trait]
impl Identity for IdentityApi {
    async fn who_am_i(
        &self,
        request: Request<WhoAmIRequest>,
    ) -> Result<Response<v1::Caller>, Status> {
        let caller = caller(&request).map_err(|error| status_from_error(&error))?;
        Ok(Response::new(v1::Caller {
            name: caller.name.to_string(),
            role: v1::Role::from(caller.role).into(),
            proof: caller.proof.to_string(),
            expires_at: caller.expires_at.map_or(0, Timestamp::as_second),
            ca_pem: self.ca.ca_pem(),
        }))
    }

    async fn issue_certificate(
        &self,
        request: Request<IssueCertificateRequest>,
    ) -> Result<Response<IssuedCertificate>, Status> {
        let done = match caller(&request) {
            Ok(caller) => self.issue(caller, request.get_ref()).await,
            Err(error) => Err(error),
        };
        answer(done)
    }

    async fn renew_certificate(
        &self,
        request: Request<RenewCertificateRequest>,
    ) -> Result<Response<IssuedCertificate>, Status> {
        answer(self.renew(&request).await)
    }

    async fn join(
        &self,
        request: Request<JoinRequest>,
    ) -> Result<Response<IssuedCertificate>, Status> {
        let remote = self.remote_host(&request);
        answer(self.join(request.into_inner(), remote).await)
    }

    async fn create_token(
        &self,
        request: Request<CreateTokenRequest>,
    ) -> Result<Response<CreatedToken>, Status> {
        self.off_the_loop(move |api| api.create_token(request.get_ref()))
            .await
    }

    async fn list_tokens(
        &self,
        _: Request<ListTokensRequest>,
    ) -> Result<Response<ListTokensResponse>, Status> {
        let tokens = self.tokens.list().into_iter().map(token_to_wire).collect();
        Ok(Response::new(ListTokensResponse { tokens }))
    }

    async fn revoke_token(
        &self,
        request: Request<RevokeTokenRequest>,
    ) -> Result<Response<RevokeTokenResponse>, Status> {
        let id = request.into_inner().id;
        self.off_the_loop(move |api| {
            api.tokens.revoke(&id)?;
            tracing::info!(token = id, "token revoked");
            Ok(RevokeTokenResponse {})
        })
        .await
    }
}

impl IdentityApi {
    /// Where the request comes from: a node can be reached there, unless that
    /// is where the server itself is.
    fn remote_host<T>(&self, request: &Request<T>) -> Option<Host> {
        let remote = request.extensions().get::<Arc<Peer>>()?.remote?;
        let host = Host::from(remote.ip().to_canonical());
        (!self.server_hosts.contains(&host)).then_some(host)
    }

    /// What waits for the disk does not hold up other requests.
    async fn off_the_loop<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let api = self.clone();
        match tokio::task::spawn_blocking(move || work(&api)).await {
            Ok(result) => answer(result),
            Err(error) => Err(Status::internal(error.to_string())),
        }
    }
}

fn answer<T>(result: Result<T, Error>) -> Result<Response<T>, Status> {
    result
        .map(Response::new)
        .map_err(|error| status_from_error(&error))
}

fn caller<T>(request: &Request<T>) -> Result<&Caller, Error> {
    let nobody = || Error::new(ErrorKind::Unauthenticated, "no credentials presented");
    request.extensions().get::<Caller>().ok_or_else(nobody)
}

fn ttl(seconds: u64) -> Option<Duration> {
    (seconds != 0).then(|| Duration::from_secs(seconds))
}

fn token_to_wire(info: TokenInfo) -> v1::TokenInfo {
    v1::TokenInfo {
        id: info.id,
        name: info.name.into(),
        kind: match info.kind {
            TokenKind::Api => v1::TokenKind::Api,
            TokenKind::Join => v1::TokenKind::Join,
        }
        .into(),
        role: v1::Role::from(info.role).into(),
        created_at: info.created_at.as_second(),
        expires_at: info.expires_at.as_second(),
        projects: info.projects.into_iter().map(String::from).collect(),
    }
}
