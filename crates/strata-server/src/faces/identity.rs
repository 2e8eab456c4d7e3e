//! `strata.v1.Identity`: certificates, API tokens, join tokens. Thin over
//! `strata-identity`; whoever gets here has passed the gate.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use strata_api::status_from_error;
use strata_api::strata::v1::identity_server::{Identity, IdentityServer};
use strata_api::strata::v1::{
    self, CreateTokenRequest, CreatedToken, IssueCertificateRequest, IssuedCertificate,
    JoinRequest, ListTokensRequest, ListTokensResponse, RenewCertificateRequest,
    RevokeTokenRequest, RevokeTokenResponse, WhoAmIRequest,
};
use strata_identity::{
    Authority, Caller, CertificateRequest, CertificateSpec, Host, Name, TokenInfo, TokenKind,
    Tokens,
};
use strata_transport::Peer;
use strata_types::{Error, ErrorKind, Label, Role};
use tonic::{Request, Response, Status};

/// The longest message: a certificate request and a few names.
const LARGEST: usize = 64 * 1024;

/// The identity service of an installation.
#[derive(Clone)]
pub struct IdentityFace {
    authority: Arc<Authority>,
    tokens: Arc<Tokens>,
    is_taken: Option<IsTaken>,
}

/// Whether a node of this name is there, so that no other may come under it.
type IsTaken = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl IdentityFace {
    /// Over this CA and these tokens.
    pub fn new(authority: Arc<Authority>, tokens: Arc<Tokens>) -> Self {
        Self {
            authority,
            tokens,
            is_taken: None,
        }
    }

    /// With a look at the nodes there are: none may join under the name of
    /// one that is there.
    #[must_use]
    pub fn with_nodes(mut self, is_taken: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.is_taken = Some(Arc::new(is_taken));
        self
    }

    /// The gRPC service, for any port: the control plane's, or that of a node
    /// that runs alone.
    pub fn service(self) -> IdentityServer<Self> {
        IdentityServer::new(self).max_decoding_message_size(LARGEST)
    }

    fn sign(
        &self,
        csr: &CertificateRequest,
        spec: &CertificateSpec,
        role: Role,
    ) -> Result<IssuedCertificate, Error> {
        let issued = self.authority.sign(csr, spec)?;
        tracing::info!(name = %spec.name(), %role, until = %issued.validity.not_after, "certificate issued");
        Ok(IssuedCertificate {
            name: spec.name().to_string(),
            role: v1::Role::from(role).into(),
            certificate_pem: issued.certificate_pem,
            ca_pem: self.authority.ca_pem().to_owned(),
            expires_at: issued.validity.not_after.as_second(),
        })
    }

    fn issue(&self, request: &IssueCertificateRequest) -> Result<IssuedCertificate, Error> {
        let name: Name = request.name.parse()?;
        let role = Role::try_from(request.role())?;
        let csr = CertificateRequest::from_pem(&request.csr_pem)?;
        let mut spec = CertificateSpec::caller(name, role);
        if let Some(ttl) = ttl(request.ttl_seconds) {
            spec = spec.lasting(ttl)?;
        }
        self.sign(&csr, &spec, role)
    }

    fn renew(
        &self,
        request: &Request<RenewCertificateRequest>,
    ) -> Result<IssuedCertificate, Error> {
        let caller = caller(request)?;
        let peer = request.extensions().get::<Arc<Peer>>();
        let certificate = peer.and_then(|peer| peer.certificate.as_ref());
        let present = certificate.map(|der| CertificateSpec::renewal_of(der));
        // A token beside the certificate may speak for somebody else.
        let Some(Ok(spec)) =
            present.filter(|_| caller.proof == strata_identity::Proof::Certificate)
        else {
            return Err(
                Error::wrong_state("only a certificate can be renewed").with_hint(
                    "call with the certificate that shall be renewed, and without a token",
                ),
            );
        };
        let csr = CertificateRequest::from_pem(&request.get_ref().csr_pem)?;
        self.sign(&csr, &spec.with_hosts(remote_host(request)), caller.role)
    }

    /// The token is looked at first, so that strangers learn nothing; used up
    /// last, so that a mistake in the rest does not cost it.
    fn join(
        &self,
        request: &JoinRequest,
        remote: Option<Host>,
    ) -> Result<IssuedCertificate, Error> {
        self.tokens.verify_join(&request.token)?;
        let name: Name = match request.node_name.as_str() {
            "" => format!("node-{}", uuid::Uuid::now_v7()).parse()?,
            name => name.parse().map_err(|error: strata_identity::NameError| {
                Error::from(error).in_field("node_name")
            })?,
        };
        if let Some(is_taken) = &self.is_taken
            && is_taken(name.as_str())
        {
            let why = format!("a node {name} is there already");
            return Err(Error::already_exists(why)
                .in_field("node_name")
                .with_hint("join under another name, or remove that node first"));
        }
        let csr = CertificateRequest::from_pem(&request.csr_pem)?;
        let spec = CertificateSpec::caller(name, Role::Node).with_hosts(remote);
        let token = self.tokens.consume_join(&request.token)?;
        tracing::info!(token = token.id, node = %spec.name(), "node joins");
        self.sign(&csr, &spec, Role::Node)
    }

    fn create_token(&self, request: &CreateTokenRequest) -> Result<CreatedToken, Error> {
        let name: Name = request.name.parse()?;
        let ttl = ttl(request.ttl_seconds);
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
                let fingerprint = self.authority.fingerprint();
                self.tokens.create_join(&name, fingerprint, ttl)?
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
impl Identity for IdentityFace {
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
        }))
    }

    async fn issue_certificate(
        &self,
        request: Request<IssueCertificateRequest>,
    ) -> Result<Response<IssuedCertificate>, Status> {
        answer(self.issue(request.get_ref()))
    }

    async fn renew_certificate(
        &self,
        request: Request<RenewCertificateRequest>,
    ) -> Result<Response<IssuedCertificate>, Status> {
        answer(self.renew(&request))
    }

    async fn join(
        &self,
        request: Request<JoinRequest>,
    ) -> Result<Response<IssuedCertificate>, Status> {
        let remote = remote_host(&request);
        self.off_the_loop(move |face| face.join(request.get_ref(), remote))
            .await
    }

    async fn create_token(
        &self,
        request: Request<CreateTokenRequest>,
    ) -> Result<Response<CreatedToken>, Status> {
        self.off_the_loop(move |face| face.create_token(request.get_ref()))
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
        self.off_the_loop(move |face| {
            face.tokens.revoke(&id)?;
            tracing::info!(token = id, "token revoked");
            Ok(RevokeTokenResponse {})
        })
        .await
    }
}

impl IdentityFace {
    /// What waits for the disk does not hold up other requests.
    async fn off_the_loop<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let face = self.clone();
        match tokio::task::spawn_blocking(move || work(&face)).await {
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
    let nobody = || Error::new(ErrorKind::Unauthenticated, "nobody has said who calls");
    request.extensions().get::<Caller>().ok_or_else(nobody)
}

/// Where the request comes from: a node can be reached there.
fn remote_host<T>(request: &Request<T>) -> Option<Host> {
    let remote = request.extensions().get::<Arc<Peer>>()?.remote?;
    Some(Host::from(remote.ip().to_canonical()))
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
