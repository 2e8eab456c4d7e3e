//! A node is its key: another node with its name, an old certificate of it or a
//! token for another is not it. Over real TLS, through the auth layer; the
//! hostile side has keys of its own and sends what it likes.

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
    Ca, CertificateRequest, CertificateSpec, Credentials, JoinBinding, LiveIdentity, Tokens,
};
use strata_server::core::{NodeFacts, NodeReport, Precondition, Principal, Registration, Revoke};
use strata_types::Role;
use strata_types::instance::InstanceState;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::world::World;

/// Longer than anything here takes.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

fn admin() -> Principal {
    Principal {
        name: "ann".into(),
        role: Role::Admin,
        projects: None,
    }
}

/// What a node reports of itself at first.
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
    pub(crate) welcome: v1::Welcome,
}

impl Link {
    pub(crate) async fn say(&self, message: node_message::Message) -> bool {
        let message = Some(message);
        self.to_server.send(NodeMessage { message }).await.is_ok()
    }

    /// Waits until it ends, and returns how.
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
        tokio::time::timeout(WAIT_TIMEOUT, ending)
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
    let first = tokio::time::timeout(WAIT_TIMEOUT, from_server.message()).await;
    match first.expect("an answer comes")? {
        Some(ServerMessage {
            message: Some(server_message::Message::Welcome(welcome)),
        }) => Ok(Link {
            to_server,
            from_server,
            welcome,
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
    let mut anonymous = IdentityClient::new(world.channel(world.config(None)).await);
    let request = JoinRequest {
        token: token.to_owned(),
        node_name: name.to_owned(),
        csr_pem,
    };
    let issued = anonymous.join(request).await?.into_inner();
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

/// Marks a node as one that was silent for too long.
pub(crate) async fn lose(world: &World, name: &str) {
    let reported = NodeReport::of(InstanceState::Failed, "its plug was pulled");
    let facts = NodeFacts {
        reported: Some(reported),
        ..NodeFacts::default()
    };
    world.core.update_node_facts(name, &facts).await.unwrap();
}

/// Every call that a node makes, tried with these credentials.
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
async fn join_token_is_bound_to_one_node_name() {
    let world = World::new().await;
    let made = token(&world, "rack1-7", false).await;
    let refused = join(&world, "payments-pci-1", &made).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    assert!(refused.message().contains("for node rack1-7"), "{refused}");
    // It is not used up, and works for the node that it is for.
    join(&world, "rack1-7", &made).await.unwrap();
}

#[tokio::test]
async fn unbound_join_token_joins_only_a_new_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens.json");
    let made = {
        let ca = Ca::open(&dir.path().join("ca")).unwrap();
        let tokens = Tokens::open(&file).unwrap();
        let name = "something".parse().unwrap();
        let made = tokens.create_join(&name, ca.fingerprint(), None);
        made.unwrap().1.expose().to_owned()
    };
    // As an earlier version has written it.
    let text = std::fs::read_to_string(&file).unwrap();
    let mut stored: serde_json::Value = serde_json::from_str(&text).unwrap();
    let unbound = stored["tokens"][0].as_object_mut().unwrap().remove("join");
    assert!(unbound.is_some());
    std::fs::write(&file, stored.to_string()).unwrap();
    let world = World::over(dir).await;
    let old = joined(&world, "n1").await;
    follow(&world, &old).await.unwrap();
    lose(&world, "n1").await;
    let refused = join(&world, "n1", &made).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused}");
    join(&world, "n2", &made).await.unwrap();
}

#[tokio::test]
async fn lost_node_is_replaced_only_with_a_replacement_token() {
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
    // The stream of the one before ends at once, and it has no rollback.
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
    // As an admin may issue one, and as a holder of the CA's key could.
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
    tokio::time::timeout(WAIT_TIMEOUT, beat).await.unwrap();
    assert!(!world.core.node("n1").unwrap().leaving);
}

#[tokio::test]
async fn node_record_without_a_key_is_bound_at_first_contact() {
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
async fn expected_machine_connects_only_with_the_token_of_its_operation() {
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
        let fingerprint = world.ca.fingerprint();
        let made = world.tokens.create_bound_join(binding, fingerprint, None);
        made.unwrap().1.expose().to_owned()
    };
    // A certificate of that name is not enough: at first the name belongs to no
    // node.
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
    // The same operation may boot it again; the node that joined before is out.
    let second = join(&world, "m1", &bound("op-1")).await.unwrap();
    follow(&world, &second).await.unwrap();
    assert!(follow(&world, &first).await.is_err());
    // When it is done, its tokens are worthless.
    world.core.expect_join("m1", None).await.unwrap();
    let late = join(&world, "m1", &bound("op-1")).await.unwrap_err();
    assert_eq!(late.code(), Code::AlreadyExists, "{late}");
}

#[tokio::test]
async fn renewed_node_key_is_active_at_first_use() {
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
async fn removed_node_stays_removed_until_it_joins_again() {
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
    // Also certificates that were renewed, and one of which there is no record.
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

/// A node that was taken over would never say that it is empty.
#[tokio::test]
async fn node_that_is_removed_at_once_is_revoked_before_it_is_empty() {
    let world = World::new().await;
    let old = joined(&world, "n1").await;
    let link = follow(&world, &old).await.unwrap();
    let any = Precondition::default();
    let removed = world.core.remove_node_at_once(&admin(), "n1", any).await;
    removed.unwrap();
    let ended = link.end().await;
    assert_eq!(ended.code(), Code::Unauthenticated, "{ended}");
    for (way, code) in every_way(&world, "n1", &old).await {
        assert_eq!(code, Code::Unauthenticated, "{way}");
    }
    world.is_gone("n1").await;
    let new = joined(&world, "n1").await;
    follow(&world, &new).await.unwrap();
    assert!(follow(&world, &old).await.is_err());
}

#[tokio::test]
async fn node_that_left_may_return() {
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
async fn revocation_covers_the_renewal_lineage() {
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
    let count = world.core.certificates().revoke(&admin, &what, "stolen");
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
    let revoked = world.core.certificates().revoke(&admin, &what, "");
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
async fn concurrent_renewal_and_revocation_leave_no_valid_certificate() {
    let world = World::new().await;
    for _ in 0..8 {
        let spec = CertificateSpec::caller("vic".parse().unwrap(), Role::Viewer);
        let first = world.ca.issue(&spec).unwrap();
        let id = first.certificate_id().unwrap();
        world.core.certificates().record(&id, "test").await.unwrap();
        let what = Revoke::Serial(id.serial);
        let admin = admin();
        let (renewals, revoked) = tokio::join!(
            futures_util::future::join_all((0..6).map(|_| renew(&world, &first))),
            world.core.certificates().revoke(&admin, &what, "stolen"),
        );
        revoked.unwrap();
        for child in renewals.into_iter().flatten() {
            assert!(renew(&world, &child).await.is_err());
        }
    }
}

#[tokio::test]
async fn certificate_renewals_are_bounded() {
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

/// The next list of peers.
async fn peers(link: &mut Link) -> v1::Peers {
    let next = async {
        loop {
            let ServerMessage { message } = link.from_server.message().await.unwrap().unwrap();
            if let Some(server_message::Message::Peers(peers)) = message {
                return peers;
            }
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, next).await.unwrap()
}

#[tokio::test]
async fn node_in_the_process_of_the_only_server_has_a_recorded_waiver() {
    let world = World::new().await;
    let hello = || Hello {
        holds_leases: true,
        ..hello()
    };
    let (local, other) = (joined(&world, "n1").await, joined(&world, "n2").await);
    let id = LiveIdentity::new(&local).unwrap().certificate_id().unwrap();
    world.core.trust_local_node(&id.key);
    let mut other = follow_as(&world, &other, hello()).await.unwrap();
    peers(&mut other).await;
    let mut local = follow_as(&world, &local, hello()).await.unwrap();
    assert!(peers(&mut local).await.waived);
    // Recorded, for a server that is started without the node.
    assert!(world.core.node("n1").unwrap().lease_waived);
    let third = joined(&world, "n3").await;
    let mut third = follow_as(&world, &third, hello()).await.unwrap();
    assert!(!peers(&mut third).await.waived);
}

#[tokio::test]
async fn server_that_could_not_renew_its_lead_takes_in_no_node() {
    let world = World::new().await;
    let own = joined(&world, "n1").await;
    follow(&world, &own).await.unwrap();
    // As one that stood still: it has not noticed yet that its lead is over.
    world.core.renew_lead(tokio::time::Instant::now());
    let refused = follow(&world, &own).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    let later = tokio::time::Instant::now() + WAIT_TIMEOUT;
    world.core.renew_lead(later);
    follow(&world, &own).await.unwrap();
}
