//! A node is its key: whoever else has its name, an old certificate of it or a
//! token for another is not it. Over real TLS, through the gate; the hostile
//! side has keys of its own and says what it likes.

use std::time::Duration;

use futures_util::stream;
use strata_api::controller::scheduler_service_client::SchedulerServiceClient;
use strata_api::schedule::assignments_client::AssignmentsClient;
use strata_api::scheduler::node_service_client::NodeServiceClient;
use strata_api::scheduler::{NodeRegisterRequest, NodeUnregisterRequest};
use strata_api::strata::v1::identity_client::IdentityClient;
use strata_api::strata::v1::{
    self, Chunk, CreateTokenRequest, Hello, JoinRequest, NodeMessage, RenewCertificateRequest,
    ServerMessage, node_message, server_message,
};
use strata_api::{controller, scheduler};
use strata_identity::{
    Authority, CertificateRequest, CertificateSpec, Credentials, JoinBinding, Tokens,
};
use strata_server::core::{NodeReport, Registration, Revoke, Seen, Who};
use strata_types::Role;
use strata_types::instance::InstanceState;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::world::World;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn admin() -> Who {
    Who {
        name: "ann".into(),
        role: Role::Admin,
        projects: None,
    }
}

/// What a node says of itself at first.
pub(crate) fn hello() -> Hello {
    Hello {
        version: "1.0".into(),
        capacity: Some(v1::Amounts {
            cpu: 4000,
            memory: 8_000_000_000,
            disk: 100_000_000_000,
        }),
        ..Hello::default()
    }
}

/// A node's stream, held open.
pub(crate) struct Link {
    pub(crate) to_server: mpsc::Sender<NodeMessage>,
    pub(crate) from_server: Streaming<ServerMessage>,
}

impl Link {
    pub(crate) async fn say(&self, message: node_message::Message) -> bool {
        let message = Some(message);
        self.to_server.send(NodeMessage { message }).await.is_ok()
    }

    /// Waits until it ends, and says how.
    async fn end(mut self) -> Status {
        let ending = async {
            loop {
                match self.from_server.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return Status::ok("it ended in order"),
                    Err(status) => return status,
                }
            }
        };
        tokio::time::timeout(PATIENCE, ending)
            .await
            .expect("the stream ends")
    }
}

pub(crate) async fn channel(world: &World, credentials: &Credentials) -> Channel {
    world.channel(world.config(Some(credentials))).await
}

/// Follows, and waits for the first answer.
pub(crate) async fn follow_as(
    world: &World,
    credentials: &Credentials,
    hello: Hello,
) -> Result<Link, Status> {
    let (to_server, messages) = mpsc::channel(16);
    let message = Some(node_message::Message::Hello(hello));
    to_server.send(NodeMessage { message }).await.unwrap();
    let mut client = AssignmentsClient::new(channel(world, credentials).await);
    let followed = client.follow(ReceiverStream::new(messages)).await?;
    let mut from_server = followed.into_inner();
    let first = tokio::time::timeout(PATIENCE, from_server.message()).await;
    match first.expect("an answer comes")? {
        Some(ServerMessage {
            message: Some(server_message::Message::Welcome(_)),
        }) => Ok(Link {
            to_server,
            from_server,
        }),
        other => panic!("not a welcome: {other:?}"),
    }
}

async fn follow(world: &World, credentials: &Credentials) -> Result<Link, Status> {
    follow_as(world, credentials, hello()).await
}

async fn token(world: &World, name: &str, replace: bool) -> String {
    let like = CreateTokenRequest {
        replace,
        ..CreateTokenRequest::default()
    };
    token_like(world, name, like).await
}

async fn token_like(world: &World, name: &str, like: CreateTokenRequest) -> String {
    let mut admin = world.caller(Role::Admin).await;
    let request = CreateTokenRequest {
        name: name.to_owned(),
        kind: v1::TokenKind::Join.into(),
        ..like
    };
    admin
        .create_token(request)
        .await
        .unwrap()
        .into_inner()
        .token
}

async fn join(world: &World, name: &str, token: &str) -> Result<Credentials, Status> {
    let (key_pem, csr_pem) = CertificateRequest::generate().unwrap();
    let mut stranger = IdentityClient::new(world.channel(world.config(None)).await);
    let request = JoinRequest {
        token: token.to_owned(),
        node_name: name.to_owned(),
        csr_pem,
    };
    let issued = stranger.join(request).await?.into_inner();
    Ok(Credentials {
        ca_pem: issued.ca_pem,
        certificate_pem: issued.certificate_pem,
        key_pem,
    })
}

/// A node that has joined under a name.
pub(crate) async fn joined(world: &World, name: &str) -> Credentials {
    let token = token(world, name, false).await;
    join(world, name, &token).await.unwrap()
}

/// The same, with a token like this one.
pub(crate) async fn joined_with(
    world: &World,
    name: &str,
    like: CreateTokenRequest,
) -> Credentials {
    let token = token_like(world, name, like).await;
    join(world, name, &token).await.unwrap()
}

async fn renew(world: &World, credentials: &Credentials) -> Result<Credentials, Status> {
    let (key_pem, csr_pem) = CertificateRequest::generate().unwrap();
    let mut client = IdentityClient::new(channel(world, credentials).await);
    let request = RenewCertificateRequest { csr_pem };
    let issued = client.renew_certificate(request).await?.into_inner();
    Ok(Credentials {
        ca_pem: issued.ca_pem,
        certificate_pem: issued.certificate_pem,
        key_pem,
    })
}

/// Marks a node as one that was not heard of for too long.
pub(crate) async fn lose(world: &World, name: &str) {
    let reported = NodeReport::of(InstanceState::Failed, "its plug was pulled");
    let seen = Seen {
        reported: Some(reported),
        ..Seen::default()
    };
    world.core.see_node(name, &seen).await.unwrap();
}

/// Every way in which a node speaks, tried with these credentials.
async fn every_way(
    world: &World,
    name: &str,
    credentials: &Credentials,
) -> Vec<(&'static str, Code)> {
    let mut ways = Vec::new();
    let code = |answer: Result<(), Status>| answer.err().map_or(Code::Ok, |status| status.code());
    ways.push(("follow", code(follow(world, credentials).await.map(drop))));
    let channel = channel(world, credentials).await;
    let tunnel = AssignmentsClient::new(channel.clone())
        .tunnel(stream::pending::<Chunk>())
        .await;
    ways.push(("tunnel", code(tunnel.map(drop))));
    let mut nodes = NodeServiceClient::new(channel.clone());
    let certificate = credentials.certificate_pem.clone();
    let registered = nodes.register(NodeRegisterRequest { certificate }).await;
    let registered = registered.map(|answer| answer.into_inner().code);
    ways.push((
        "register",
        match registered {
            Ok(0) => Code::Ok,
            Ok(_) => Code::PermissionDenied,
            Err(status) => status.code(),
        },
    ));
    let status = scheduler::NodeStatus {
        id: name.to_owned(),
        ..scheduler::NodeStatus::default()
    };
    let told = nodes.status(stream::iter([status])).await;
    ways.push(("status", code(told.map(drop))));
    let id = name.to_owned();
    let left = nodes.unregister(NodeUnregisterRequest { id }).await;
    ways.push(("unregister", code(left.map(drop))));
    let mut statuses = SchedulerServiceClient::new(channel);
    let status = controller::NodeStatus {
        id: name.to_owned(),
        ..controller::NodeStatus::default()
    };
    let told = statuses.set_node_status(status).await;
    ways.push(("setNodeStatus", code(told.map(drop))));
    let status = controller::InstanceStatus {
        id: "i-00000000000000000000000000".into(),
        ..controller::InstanceStatus::default()
    };
    let told = statuses.set_instance_status(status).await;
    ways.push(("setInstanceStatus", code(told.map(drop))));
    let renewed = renew(world, credentials).await;
    ways.push(("renew", code(renewed.map(drop))));
    ways
}

#[tokio::test]
async fn a_token_for_one_node_is_good_for_no_other_name() {
    let world = World::new().await;
    let made = token(&world, "rack1-7", false).await;
    let refused = join(&world, "payments-pci-1", &made).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    assert!(refused.message().contains("for node rack1-7"), "{refused}");
    // It is not used up, and joins whom it is for.
    join(&world, "rack1-7", &made).await.unwrap();
}

#[tokio::test]
async fn a_token_from_before_names_were_bound_joins_a_new_name_and_takes_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.json");
    let made = {
        let authority = Authority::open(&folder.path().join("ca")).unwrap();
        let tokens = Tokens::open(&file).unwrap();
        let name = "something".parse().unwrap();
        let made = tokens.create_join(&name, authority.fingerprint(), None);
        made.unwrap().1.expose().to_owned()
    };
    // As an earlier version has written it.
    let text = std::fs::read_to_string(&file).unwrap();
    let mut stored: serde_json::Value = serde_json::from_str(&text).unwrap();
    let unbound = stored["tokens"][0].as_object_mut().unwrap().remove("join");
    assert!(unbound.is_some());
    std::fs::write(&file, stored.to_string()).unwrap();
    let world = World::over(folder).await;
    let old = joined(&world, "n1").await;
    follow(&world, &old).await.unwrap();
    lose(&world, "n1").await;
    let refused = join(&world, "n1", &made).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused}");
    join(&world, "n2", &made).await.unwrap();
}

#[tokio::test]
async fn nobody_takes_the_place_of_a_lost_node_unless_the_token_says_so() {
    let world = World::new().await;
    let old = joined(&world, "db").await;
    let link = follow(&world, &old).await.unwrap();
    // While it is there not even then.
    let replacing = token(&world, "db", true).await;
    let refused = join(&world, "db", &replacing).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused}");
    lose(&world, "db").await;
    let plain = token(&world, "db", false).await;
    let refused = join(&world, "db", &plain).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused}");
    let new = join(&world, "db", &replacing).await.unwrap();
    // The stream of the one before ends at once, and it has no way back.
    let ended = link.end().await;
    assert!(
        matches!(ended.code(), Code::Unauthenticated | Code::PermissionDenied),
        "{ended}"
    );
    follow(&world, &new).await.unwrap();
    for (way, code) in every_way(&world, "db", &old).await {
        let refused = [Code::Unauthenticated, Code::PermissionDenied];
        assert!(refused.contains(&code), "{way}: {code:?}");
    }
    follow(&world, &new).await.unwrap();
}

#[tokio::test]
async fn another_certificate_of_the_same_name_is_another_node() {
    let world = World::new().await;
    let own = joined(&world, "n1").await;
    let link = follow(&world, &own).await.unwrap();
    // As an admin may issue one, and as one who has the CA's key could.
    let other = world.issue("n1", Role::Node);
    for (way, code) in every_way(&world, "n1", &other).await {
        assert_eq!(code, Code::PermissionDenied, "{way}");
    }
    // The stream of the node itself was not touched.
    assert!(
        link.say(node_message::Message::Load(v1::NodeLoad::default()))
            .await
    );
    let mut link = link;
    let beat = async {
        loop {
            let message = link.from_server.message().await.unwrap().unwrap().message;
            if matches!(message, Some(server_message::Message::Beat(_))) {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, beat).await.unwrap();
    assert!(!world.core.node("n1").unwrap().leaving);
}

#[tokio::test]
async fn a_record_without_a_key_is_bound_to_the_first_that_comes() {
    let world = World::new().await;
    let registration = Registration {
        name: "n1".into(),
        subnet: None,
    };
    world.core.register_node(&registration).await.unwrap();
    let (first, second) = (world.issue("n1", Role::Node), world.issue("n1", Role::Node));
    follow(&world, &first).await.unwrap();
    let refused = follow(&world, &second).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    follow(&world, &first).await.unwrap();
}

#[tokio::test]
async fn an_expected_machine_comes_with_the_token_of_its_operation_alone() {
    let world = World::new().await;
    let registration = Registration {
        name: "m1".into(),
        subnet: None,
    };
    world.core.register_node(&registration).await.unwrap();
    world.core.expect_join("m1", Some("op-1")).await.unwrap();
    let bound = |operation: &str| {
        let binding = JoinBinding {
            operation: Some(operation.to_owned()),
            ..JoinBinding::to("m1".parse().unwrap())
        };
        let fingerprint = world.authority.fingerprint();
        let made = world.tokens.create_bound_join(binding, fingerprint, None);
        made.unwrap().1.expose().to_owned()
    };
    // A certificate of that name is not enough: it is nobody's first.
    let other = world.issue("m1", Role::Node);
    let refused = follow(&world, &other).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    for token in [
        token(&world, "m1", false).await,
        token(&world, "m1", true).await,
        bound("op-0"),
    ] {
        let refused = join(&world, "m1", &token).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists, "{refused}");
    }
    let first = join(&world, "m1", &bound("op-1")).await.unwrap();
    follow(&world, &first).await.unwrap();
    // The same operation may boot it again; whoever came before is out.
    let second = join(&world, "m1", &bound("op-1")).await.unwrap();
    follow(&world, &second).await.unwrap();
    assert!(follow(&world, &first).await.is_err());
    // When it is done, its tokens are worthless.
    world.core.expect_join("m1", None).await.unwrap();
    let late = join(&world, "m1", &bound("op-1")).await.unwrap_err();
    assert_eq!(late.code(), Code::AlreadyExists, "{late}");
}

#[tokio::test]
async fn a_renewed_key_takes_over_at_its_first_use() {
    let world = World::new().await;
    let first = joined(&world, "n1").await;
    follow(&world, &first).await.unwrap();
    // An answer that is lost costs nothing.
    let lost = renew(&world, &first).await.unwrap();
    let second = renew(&world, &first).await.unwrap();
    follow(&world, &first).await.unwrap();
    follow(&world, &second).await.unwrap();
    for old in [&first, &lost] {
        let refused = follow(&world, old).await.map(drop).unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        let refused = renew(&world, old).await.map(drop).unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    }
    follow(&world, &second).await.unwrap();
}

#[tokio::test]
async fn a_removed_node_stays_removed_until_it_joins_anew() {
    let world = World::new().await;
    let old = joined(&world, "n1").await;
    let renewed = renew(&world, &old).await.unwrap();
    let link = follow(&world, &old).await.unwrap();
    world.core.leave_node("n1", true).await.unwrap();
    world.is_gone("n1").await;
    let ended = link.end().await;
    assert_eq!(ended.code(), Code::Unauthenticated, "{ended}");
    assert!(ended.message().contains("was revoked"), "{ended}");
    assert!(
        ended.message().contains("strata token create --join"),
        "{ended}"
    );
    // Also by what was renewed, and by one that nobody wrote down.
    for gone in [&old, &renewed] {
        for (way, code) in every_way(&world, "n1", gone).await {
            assert_eq!(code, Code::Unauthenticated, "{way}");
        }
    }
    assert!(world.core.node("n1").is_err(), "it was registered again");
    // Within the same second, too.
    let new = joined(&world, "n1").await;
    follow(&world, &new).await.unwrap();
    assert!(follow(&world, &old).await.is_err());
}

#[tokio::test]
async fn a_node_that_leaves_by_itself_may_come_back() {
    let world = World::new().await;
    let own = joined(&world, "n1").await;
    follow(&world, &own).await.unwrap();
    let mut nodes = NodeServiceClient::new(channel(&world, &own).await);
    let request = NodeUnregisterRequest { id: "n1".into() };
    assert_eq!(
        nodes.unregister(request).await.unwrap().into_inner().code,
        0
    );
    world.is_gone("n1").await;
    follow(&world, &own).await.unwrap();
}

#[tokio::test]
async fn a_revoked_certificate_takes_along_what_was_renewed_from_it_and_it_from() {
    let world = World::new().await;
    let mut admin_client = world.caller(Role::Admin).await;
    let (key_pem, csr_pem) = CertificateRequest::generate().unwrap();
    let request = v1::IssueCertificateRequest {
        name: "vic".into(),
        role: v1::Role::Operator.into(),
        csr_pem,
        ttl_seconds: 0,
    };
    let issued = admin_client.issue_certificate(request).await.unwrap();
    let issued = issued.into_inner();
    let first = Credentials {
        ca_pem: issued.ca_pem,
        certificate_pem: issued.certificate_pem,
        key_pem,
    };
    let second = renew(&world, &first).await.unwrap();
    let third = renew(&world, &second).await.unwrap();
    let serial = second.certificate_id().unwrap().serial;
    let what = Revoke::Serial(serial);
    let admin = admin();
    let count = world.core.revoke_certificates(&admin, &what, "stolen");
    assert_eq!(count.await.unwrap(), 3);
    for credentials in [&first, &second, &third] {
        let refused = renew(&world, credentials).await.map(drop).unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    }
    // The name itself is not refused: another of it is good.
    let other = world.issue("vic", Role::Operator);
    renew(&world, &other).await.unwrap();
}

#[tokio::test]
async fn all_certificates_of_a_name_are_revoked_also_those_without_a_record() {
    let world = World::new().await;
    let unrecorded = world.issue("vic", Role::Operator);
    let viewer = world.issue("vic", Role::Viewer);
    let what = Revoke::Name("vic".parse().unwrap(), Role::Operator);
    let admin = admin();
    let revoked = world.core.revoke_certificates(&admin, &what, "");
    revoked.await.unwrap();
    let refused = renew(&world, &unrecorded).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    renew(&world, &viewer).await.unwrap();
    // What is issued then is good, within the same second too.
    let mut client = world.caller(Role::Admin).await;
    let (key_pem, csr_pem) = CertificateRequest::generate().unwrap();
    let request = v1::IssueCertificateRequest {
        name: "vic".into(),
        role: v1::Role::Operator.into(),
        csr_pem,
        ttl_seconds: 0,
    };
    let issued = client
        .issue_certificate(request)
        .await
        .unwrap()
        .into_inner();
    let new = Credentials {
        ca_pem: issued.ca_pem,
        certificate_pem: issued.certificate_pem,
        key_pem,
    };
    renew(&world, &new).await.unwrap();
}

#[tokio::test]
async fn a_renewal_and_a_revocation_at_once_leave_nothing_that_works() {
    let world = World::new().await;
    for _ in 0..8 {
        let spec = CertificateSpec::caller("vic".parse().unwrap(), Role::Viewer);
        let first = world.authority.issue(&spec).unwrap();
        let id = first.certificate_id().unwrap();
        world.core.record_certificate(&id, "test").await.unwrap();
        let what = Revoke::Serial(id.serial);
        let admin = admin();
        let (renewals, revoked) = tokio::join!(
            futures_util::future::join_all((0..6).map(|_| renew(&world, &first))),
            world.core.revoke_certificates(&admin, &what, "stolen"),
        );
        revoked.unwrap();
        for child in renewals.into_iter().flatten() {
            assert!(renew(&world, &child).await.is_err());
        }
    }
}

#[tokio::test]
async fn a_certificate_is_not_renewed_without_end() {
    let world = World::new().await;
    let mut last = world.issue("vic", Role::Viewer);
    let mut count = 0;
    let refused = loop {
        match renew(&world, &last).await {
            Ok(next) => last = next,
            Err(status) => break status,
        }
        count += 1;
        assert!(count < 100, "it goes on and on");
    };
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert_eq!(count, 32);
}
