//! `strata.v1.Identity`: what it issues, to which callers, and what it refuses.

use std::time::Duration;

use strata_api::error_from_status;
use strata_api::strata::v1::identity_client::IdentityClient;
use strata_api::strata::v1::{
    self, CreateTokenRequest, IssueCertificateRequest, IssuedCertificate, JoinRequest,
    ListTokensRequest, RenewCertificateRequest, RevokeTokenRequest, WhoAmIRequest,
};
use strata_identity::{
    CertificateRequest, CertificateSpec, Clock, Credentials, JoinToken, PrivateKeyPem,
    joining_client_config,
};
use strata_types::{ErrorKind, Role};
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};

use crate::world::World;

fn credentials(issued: IssuedCertificate, key_pem: PrivateKeyPem) -> Credentials {
    Credentials {
        ca_pem: issued.ca_pem,
        certificate_pem: issued.certificate_pem,
        key_pem,
    }
}

fn refused(status: &Status) -> (ErrorKind, Option<String>) {
    let error = error_from_status(status);
    (error.kind(), error.field().map(str::to_owned))
}

fn invalid(field: &str) -> (ErrorKind, Option<String>) {
    (ErrorKind::Invalid, Some(field.to_owned()))
}

async fn principal(world: &World, credentials: &Credentials) -> v1::Caller {
    let channel = world.channel(world.config(Some(credentials))).await;
    let answer = IdentityClient::new(channel)
        .who_am_i(WhoAmIRequest {})
        .await;
    answer.unwrap().into_inner()
}

#[tokio::test]
async fn admin_issues_working_certificates() {
    let world = World::new().await;
    let mut admin = world.caller(Role::Admin).await;
    let (key, csr_pem) = CertificateRequest::generate().unwrap();
    let request = IssueCertificateRequest {
        name: "carol".to_owned(),
        role: v1::Role::Viewer.into(),
        csr_pem,
        ttl_seconds: 3600,
    };
    let issued = admin.issue_certificate(request).await.unwrap().into_inner();
    assert_eq!(
        (issued.name.as_str(), issued.role()),
        ("carol", v1::Role::Viewer)
    );
    let expires_at = issued.expires_at;
    let caller = principal(&world, &credentials(issued, key)).await;
    assert_eq!(
        (caller.name.as_str(), caller.role()),
        ("carol", v1::Role::Viewer)
    );
    assert_eq!(
        (caller.proof.as_str(), caller.expires_at),
        ("certificate", expires_at)
    );
}

#[tokio::test]
async fn only_admins_manage_identities() {
    let world = World::new().await;
    for role in [Role::Operator, Role::Viewer, Role::Node] {
        let mut client = world.caller(role).await;
        let issue = client
            .issue_certificate(IssueCertificateRequest::default())
            .await;
        let create = client.create_token(CreateTokenRequest::default()).await;
        let list = client.list_tokens(ListTokensRequest {}).await;
        let revoke = client.revoke_token(RevokeTokenRequest::default()).await;
        let codes = [
            issue.unwrap_err().code(),
            create.unwrap_err().code(),
            list.unwrap_err().code(),
            revoke.unwrap_err().code(),
        ];
        assert_eq!(codes, [Code::PermissionDenied; 4], "{role}");
    }
}

#[tokio::test]
async fn invalid_identity_input_names_its_field() {
    let world = World::new().await;
    let mut admin = world.caller(Role::Admin).await;
    let good = || IssueCertificateRequest {
        name: "carol".to_owned(),
        role: v1::Role::Viewer.into(),
        csr_pem: CertificateRequest::generate().unwrap().1,
        ttl_seconds: 0,
    };
    let cases = [
        (
            "name",
            IssueCertificateRequest {
                name: "a b".to_owned(),
                ..good()
            },
        ),
        ("role", IssueCertificateRequest { role: 0, ..good() }),
        ("role", IssueCertificateRequest { role: 99, ..good() }),
        (
            "csr_pem",
            IssueCertificateRequest {
                csr_pem: String::new(),
                ..good()
            },
        ),
        (
            "csr_pem",
            IssueCertificateRequest {
                csr_pem: "x".repeat(9000),
                ..good()
            },
        ),
        (
            "ttl_seconds",
            IssueCertificateRequest {
                ttl_seconds: 1,
                ..good()
            },
        ),
        (
            "ttl_seconds",
            IssueCertificateRequest {
                ttl_seconds: u64::MAX,
                ..good()
            },
        ),
    ];
    for (field, request) in cases {
        let status = admin.issue_certificate(request).await.unwrap_err();
        assert_eq!(refused(&status), invalid(field));
    }
    let huge = IssueCertificateRequest {
        csr_pem: "x".repeat(100_000),
        ..good()
    };
    let status = admin.issue_certificate(huge).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn node_joins_with_its_token_alone() {
    let world = World::new().await;
    let mut admin = world.caller(Role::Admin).await;
    let request = CreateTokenRequest {
        name: "n1".to_owned(),
        kind: v1::TokenKind::Join.into(),
        ..Default::default()
    };
    let created = admin.create_token(request).await.unwrap().into_inner();
    let token = JoinToken::parse(&created.token).unwrap();
    let config = joining_client_config(token.ca_fingerprint(), Clock::system()).unwrap();
    let mut anonymous = IdentityClient::new(world.channel(config).await);
    let (key, csr_pem) = CertificateRequest::generate().unwrap();
    let join = |node_name: &str, csr_pem: &str| JoinRequest {
        token: created.token.clone(),
        node_name: node_name.to_owned(),
        csr_pem: csr_pem.to_owned(),
    };

    // A mistake does not cost the token.
    let status = anonymous.join(join("a/b", &csr_pem)).await.unwrap_err();
    assert_eq!(refused(&status), invalid("node_name"));
    let status = anonymous.join(join("n1", "nonsense")).await.unwrap_err();
    assert_eq!(refused(&status), invalid("csr_pem"));
    // Nor does the name of another node.
    let status = anonymous.join(join("there", &csr_pem)).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");

    let issued = anonymous
        .join(join("n1", &csr_pem))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(issued.ca_pem, world.ca.ca_pem());
    let caller = principal(&world, &credentials(issued, key)).await;
    assert_eq!(
        (caller.name.as_str(), caller.role()),
        ("n1", v1::Role::Node)
    );

    let again = anonymous.join(join("n1", &csr_pem)).await.unwrap_err();
    assert_eq!(again.code(), Code::Unauthenticated);
    assert!(again.message().contains("already used"), "{again}");
}

#[tokio::test]
async fn wrong_join_token_reveals_nothing_else() {
    let world = World::new().await;
    let mut anonymous = IdentityClient::new(world.channel(world.config(None)).await);
    let request = JoinRequest {
        token: "strata_join_nonsense".to_owned(),
        node_name: "a/b".to_owned(),
        csr_pem: String::new(),
    };
    let status = anonymous.join(request).await.unwrap_err();
    assert_eq!(refused(&status), (ErrorKind::Unauthenticated, None));
}

#[tokio::test]
async fn unnamed_node_gets_the_name_of_its_token() {
    let world = World::new().await;
    let name = "rack-1".parse().unwrap();
    let fingerprint = world.ca.fingerprint();
    let (_, token) = world.tokens.create_join(&name, fingerprint, None).unwrap();
    let mut anonymous = IdentityClient::new(world.channel(world.config(None)).await);
    let request = JoinRequest {
        token: token.expose().to_owned(),
        node_name: String::new(),
        csr_pem: CertificateRequest::generate().unwrap().1,
    };
    let issued = anonymous.join(request).await.unwrap().into_inner();
    assert_eq!(issued.name, "rack-1");
}

#[tokio::test]
async fn certificate_renews_only_itself() {
    let world = World::new().await;
    let hour = Duration::from_secs(3600);
    let spec = CertificateSpec::caller("n1".parse().unwrap(), Role::Node);
    let old = world.ca.issue(&spec.lasting(hour).unwrap()).unwrap();
    let channel = world.channel(world.config(Some(&old))).await;
    let mut node = IdentityClient::new(channel);
    let (key, csr_pem) = CertificateRequest::generate().unwrap();
    let renew = || RenewCertificateRequest {
        csr_pem: csr_pem.clone(),
    };
    let issued = node.renew_certificate(renew()).await.unwrap().into_inner();
    let new = credentials(issued, key);
    let lifetime = |credentials: &Credentials| {
        let validity = credentials.validity().unwrap();
        validity.not_after.duration_since(validity.not_before)
    };
    assert_eq!(lifetime(&old), lifetime(&new));
    assert_eq!(principal(&world, &new).await.name, "n1");

    // A token beside the certificate is of another caller.
    let (_, token) = world
        .tokens
        .create_api(&"ci".parse().unwrap(), Role::Admin, None)
        .unwrap();
    let bearer = MetadataValue::try_from(format!("Bearer {}", token.expose())).unwrap();
    let mut request = Request::new(renew());
    request.metadata_mut().insert("authorization", bearer);
    let status = node.renew_certificate(request).await.unwrap_err();
    assert_eq!(refused(&status), (ErrorKind::WrongState, None));
}

#[tokio::test]
async fn tokens_are_created_used_listed_and_revoked() {
    let world = World::new().await;
    let mut admin = world.caller(Role::Admin).await;
    let request = CreateTokenRequest {
        name: "ci".to_owned(),
        kind: v1::TokenKind::Api.into(),
        role: v1::Role::Operator.into(),
        ttl_seconds: 0,
        ..CreateTokenRequest::default()
    };
    let created = admin.create_token(request).await.unwrap().into_inner();
    let info = created.info.unwrap();
    assert_eq!(info.expires_at - info.created_at, 90 * 86_400);
    let listed = admin
        .list_tokens(ListTokensRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(listed.tokens, std::slice::from_ref(&info));

    let mut holder = IdentityClient::new(world.channel(world.config(None)).await);
    let ask = || {
        let bearer = MetadataValue::try_from(format!("Bearer {}", created.token)).unwrap();
        let mut request = Request::new(WhoAmIRequest {});
        request.metadata_mut().insert("authorization", bearer);
        request
    };
    let caller = holder.who_am_i(ask()).await.unwrap().into_inner();
    assert_eq!(
        (caller.name.as_str(), caller.proof.as_str()),
        ("ci", "token")
    );

    for _ in 0..2 {
        let id = info.id.clone();
        admin.revoke_token(RevokeTokenRequest { id }).await.unwrap();
    }
    assert_eq!(
        holder.who_am_i(ask()).await.unwrap_err().code(),
        Code::Unauthenticated
    );
    let id = "never-known".to_owned();
    let unknown = admin
        .revoke_token(RevokeTokenRequest { id })
        .await
        .unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}

#[tokio::test]
async fn tokens_that_make_no_sense_are_refused_by_field() {
    let world = World::new().await;
    let mut admin = world.caller(Role::Admin).await;
    let api = || CreateTokenRequest {
        name: "ci".to_owned(),
        kind: v1::TokenKind::Api.into(),
        role: v1::Role::Viewer.into(),
        ttl_seconds: 0,
        ..CreateTokenRequest::default()
    };
    let join = v1::TokenKind::Join.into();
    let cases = [
        (
            "name",
            CreateTokenRequest {
                name: String::new(),
                ..api()
            },
        ),
        ("kind", CreateTokenRequest { kind: 0, ..api() }),
        ("role", CreateTokenRequest { role: 0, ..api() }),
        (
            "labels",
            CreateTokenRequest {
                labels: [("zone".to_owned(), "a".to_owned())].into(),
                ..api()
            },
        ),
        (
            "labels",
            CreateTokenRequest {
                accept_labels: true,
                ..api()
            },
        ),
        (
            "role",
            CreateTokenRequest {
                role: v1::Role::Node.into(),
                ..api()
            },
        ),
        (
            "role",
            CreateTokenRequest {
                kind: join,
                ..api()
            },
        ),
        (
            "ttl_seconds",
            CreateTokenRequest {
                ttl_seconds: 1,
                ..api()
            },
        ),
        (
            "replace",
            CreateTokenRequest {
                replace: true,
                ..api()
            },
        ),
    ];
    for (field, request) in cases {
        let status = admin.create_token(request).await.unwrap_err();
        assert_eq!(refused(&status), invalid(field));
    }
    assert!(world.tokens.list().is_empty());
}
