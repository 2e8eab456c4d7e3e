//! A node that was taken over: it has its own key and sends what it likes. It
//! reads nothing of others, and gets no name, label, room or address that is
//! not its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use strata_api::controller::scheduler_service_client::SchedulerServiceClient;
use strata_api::rest::NodeLimits;
use strata_api::scheduler::NodeUnregisterRequest;
use strata_api::scheduler::node_service_client::NodeServiceClient;
use strata_api::strata::v1::{self, Hello, node_message, server_message};
use strata_api::{controller, strata::v1::identity_client::IdentityClient};
use strata_identity::Credentials;
use strata_server::core::{
    Instance, NewInstance, NodeChange, NodeFacts, NodeReport, Precondition, Principal, Versioned,
};
use strata_server::placement;
use strata_types::instance::{InstanceSpec, InstanceState, PlacementRules};
use strata_types::{ErrorKind, Role};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request};

use crate::nodes::{Link, channel, follow_as, hello, joined, joined_with, lose};
use crate::world::World;

const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

fn principal(role: Role) -> Principal {
    Principal {
        name: "ann".into(),
        role,
        projects: None,
    }
}

/// An instance with a secret.
async fn create_instance(world: &World) -> Arc<Versioned<Instance>> {
    create_instance_by(world, &[]).await
}

/// The same, for nodes that meet these tests.
async fn create_instance_by(world: &World, constraints: &[&str]) -> Arc<Versioned<Instance>> {
    let new = NewInstance {
        id: None,
        name: Some("web".parse().unwrap()),
        project: "default".parse().unwrap(),
        workload: None,
        spec: InstanceSpec {
            uri: "registry.example/web:1".into(),
            environment: vec!["VAULT_TOKEN=top-secret".into()],
            placement: PlacementRules {
                constraints: constraints.iter().map(|&one| one.into()).collect(),
                ..PlacementRules::default()
            },
            ..InstanceSpec::default()
        },
        fresh_id: None,
        desired_state: None,
    };
    let admin = principal(Role::Admin);
    let (made, _) = world.core.create_instance(&admin, new).await.unwrap();
    made
}

#[tokio::test]
async fn hostile_node_gets_and_reports_only_its_own_assignments() {
    let world = World::new().await;
    let shutdown = CancellationToken::new();
    let _placement = placement::start(world.core.clone(), shutdown.clone());
    let honest = joined(&world, "honest").await;
    let _honest = follow_as(&world, &honest, hello()).await.unwrap();
    let web = create_instance(&world).await;
    let placed = async {
        let mut changes = world.core.watch_all();
        loop {
            let now = world
                .core
                .instance(&principal(Role::Admin), None, "web")
                .unwrap();
            if now.node.is_some() {
                return now;
            }
            let _ = changes.recv().await;
        }
    };
    let web_now = tokio::time::timeout(WAIT_TIMEOUT, placed).await.unwrap();
    assert_eq!(web_now.node.as_deref(), Some("honest"));

    let evil = joined(&world, "evil").await;
    let mut link = follow_as(&world, &evil, hello()).await.unwrap();
    let told = all_until_complete(&mut link).await;
    assert!(
        !told
            .iter()
            .any(|said| matches!(said, server_message::Message::Assignment(_))),
        "{told:?}"
    );
    // It reports that the other's instance has ended, is elsewhere, is refused.
    for message in [
        node_message::Message::Report(v1::InstanceReport {
            id: web.id.to_string(),
            generation: web_now.generation,
            state: v1::PodState::Exited.into(),
            address: "203.0.113.9".into(),
            ..v1::InstanceReport::default()
        }),
        node_message::Message::Refusal(v1::Refusal {
            id: web.id.to_string(),
            generation: web_now.generation,
            reason: "mine".into(),
            epoch: 0,
        }),
    ] {
        assert!(link.say(message).await);
    }
    settled(&mut link).await;
    let mut statuses = SchedulerServiceClient::new(channel(&world, &evil).await);
    let status = controller::InstanceStatus {
        id: web.id.to_string(),
        status: controller::Status::Failed.into(),
        description: String::new(),
    };
    assert!(statuses.set_instance_status(status).await.is_err());
    let now = world
        .core
        .instance(&principal(Role::Admin), None, "web")
        .unwrap();
    assert_eq!(now.record, web_now.record);
    shutdown.cancel();
}

async fn all_until_complete(link: &mut Link) -> Vec<server_message::Message> {
    let mut told = Vec::new();
    let all = async {
        loop {
            let message = link.from_server.message().await.unwrap().unwrap().message;
            match message {
                Some(server_message::Message::Complete(_)) => break,
                Some(message) => told.push(message),
                None => {}
            }
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, all).await.unwrap();
    told
}

/// Waits until all messages sent before were handled.
async fn settled(link: &mut Link) {
    let load = node_message::Message::Load(v1::NodeLoad::default());
    assert!(link.say(load).await);
    let beat = async {
        loop {
            let message = link.from_server.message().await.unwrap().unwrap().message;
            if matches!(message, Some(server_message::Message::Beat(_))) {
                break;
            }
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, beat).await.unwrap();
}

#[tokio::test]
async fn hostile_node_gets_no_other_name_or_role() {
    let world = World::new().await;
    let evil = joined(&world, "evil").await;
    follow_as(&world, &evil, hello()).await.unwrap();
    let mut identity = IdentityClient::new(channel(&world, &evil).await);
    // For itself it may have another certificate; what it requests besides is
    // not read.
    let (_, csr_pem) = strata_identity::CertificateRequest::generate().unwrap();
    let issue = v1::IssueCertificateRequest {
        name: "honest".into(),
        role: v1::Role::Node.into(),
        csr_pem: csr_pem.clone(),
        ttl_seconds: 0,
    };
    let refused = identity.issue_certificate(issue).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let renew = Request::new(v1::RenewCertificateRequest { csr_pem });
    let renewed = identity
        .renew_certificate(renew)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (renewed.name.as_str(), renewed.role()),
        ("evil", v1::Role::Node)
    );
    let token = v1::CreateTokenRequest {
        name: "honest".into(),
        kind: v1::TokenKind::Join.into(),
        ..v1::CreateTokenRequest::default()
    };
    let refused = identity.create_token(token).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
}

/// What is known of the node after it sent this.
async fn after(
    world: &World,
    credentials: &Credentials,
    hello: Hello,
) -> strata_server::core::Node {
    let name = credentials.caller().unwrap().name.to_string();
    follow_as(world, credentials, hello).await.unwrap();
    world.core.node(&name).unwrap().record.clone()
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs.map(|(k, v)| ((*k).into(), (*v).into())).collect()
}

fn saying(pairs: &[(&str, &str)]) -> Hello {
    Hello {
        labels: labels(pairs).into_iter().collect(),
        ..hello()
    }
}

#[tokio::test]
async fn its_labels_are_requests_and_what_people_say_wins() {
    let world = World::new().await;
    let evil = joined(&world, "evil").await;
    let said = [
        ("strata.dev/arch", "amd64"),
        ("zone", "pci"),
        ("disk", "ssd"),
        ("node-restriction.strata.dev/pci", "yes"),
        ("strata.dev/attested", "yes"),
    ];
    let node = after(&world, &evil, saying(&said)).await;
    assert_eq!(node.all_labels(), labels(&[("strata.dev/arch", "amd64")]));
    let requested = labels(&[("disk", "ssd"), ("zone", "pci")]);
    assert_eq!(node.requested_labels, Some(requested));
    let change = |pairs: &[(&str, &str)]| NodeChange {
        labels: labels(pairs),
        ..NodeChange::default()
    };
    let (admin, operator) = (principal(Role::Admin), principal(Role::Operator));
    let any = Precondition::default;
    let people = change(&[("zone", "dmz"), ("disk", "ssd")]);
    let changed = world.core.update_node(&operator, "evil", &people, any());
    let changed = changed.await.unwrap();
    assert_eq!(changed.requested_labels, Some(labels(&[("zone", "pci")])));
    // Nor does an operator set what only admins may.
    let trusted = change(&[("node-restriction.strata.dev/pci", "yes")]);
    let refused = world.core.update_node(&operator, "evil", &trusted, any());
    let refused = refused.await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    let changed = world.core.update_node(&admin, "evil", &trusted, any());
    changed.await.unwrap();
    // It reports the same again, and then nothing: what people set stays.
    for said in [&said[..], &[]] {
        let all = after(&world, &evil, saying(said)).await.all_labels();
        assert_eq!(all.get("zone").map(String::as_str), Some("dmz"));
        assert_eq!(all.get("disk").map(String::as_str), Some("ssd"));
        assert!(all.contains_key("node-restriction.strata.dev/pci"));
        assert!(!all.contains_key("strata.dev/attested"));
    }
}

/// Whether the instance is on a node once placement has decided.
async fn placed(world: &World) -> Option<String> {
    let mut changes = world.core.watch_all();
    let decided = async {
        loop {
            let now = world
                .core
                .instance(&principal(Role::Admin), None, "web")
                .unwrap();
            if now.node.is_some() || now.state == InstanceState::Failed {
                return now.node.clone();
            }
            let _ = changes.recv().await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, decided).await.unwrap()
}

/// It would be given what is for that zone, with all its secrets.
#[tokio::test]
async fn hostile_node_attracts_no_instances_by_label() {
    let rules = [
        "zone=pci",
        "zone in (pci, dmz)",
        "zone",
        "!untrusted",
        "strata.dev/hostname=vault",
        "node=vault",
    ];
    for rule in rules {
        let world = World::new().await;
        let shutdown = CancellationToken::new();
        let _placement = placement::start(world.core.clone(), shutdown.clone());
        // The node that is meant is away.
        let vault = joined(&world, "vault").await;
        after(&world, &vault, saying(&[("strata.dev/hostname", "vault")])).await;
        lose(&world, "vault").await;
        let evil = joined(&world, "evil").await;
        let known = NodeChange {
            labels: labels(&[("untrusted", "yes")]),
            ..NodeChange::default()
        };
        let said = [
            ("zone", "pci"),
            ("untrusted", ""),
            ("strata.dev/hostname", "vault"),
            ("node", "vault"),
        ];
        after(&world, &evil, saying(&[])).await;
        let admin = principal(Role::Admin);
        let any = Precondition::default();
        let known = world.core.update_node(&admin, "evil", &known, any);
        known.await.unwrap();
        let _link = follow_as(&world, &evil, saying(&said)).await.unwrap();
        create_instance_by(&world, &[rule]).await;
        assert_eq!(placed(&world).await, None, "{rule}");
        shutdown.cancel();
    }
}

#[tokio::test]
async fn join_token_grants_only_its_labels() {
    let world = World::new().await;
    let with = |labels: &[(&str, &str)], accept_labels: bool| v1::CreateTokenRequest {
        labels: self::labels(labels).into_iter().collect(),
        accept_labels,
        ..v1::CreateTokenRequest::default()
    };
    let said = [("zone", "pci"), ("disk", "ssd")];
    let given = joined_with(&world, "given", with(&[("zone", "dmz")], false)).await;
    let node = after(&world, &given, saying(&said)).await;
    assert_eq!(node.all_labels(), labels(&[("zone", "dmz")]));
    let accepted = joined_with(&world, "accepted", with(&[("zone", "dmz")], true)).await;
    let both = labels(&[("zone", "dmz"), ("disk", "ssd")]);
    let node = after(&world, &accepted, saying(&said)).await;
    assert_eq!(node.all_labels(), both);
    // Once: what was taken over later changes nothing.
    let node = after(&world, &accepted, saying(&[("pci", "yes")])).await;
    assert_eq!(node.all_labels(), both);
    assert_eq!(node.requested_labels, Some(labels(&[("pci", "yes")])));
    // Another that takes its place by a token without any labels of its own.
    lose(&world, "accepted").await;
    let replace = v1::CreateTokenRequest {
        replace: true,
        ..with(&[], false)
    };
    let next = joined_with(&world, "accepted", replace).await;
    let node = after(&world, &next, saying(&[("pci", "yes")])).await;
    assert_eq!(node.all_labels(), both, "what the place has stays");
}

/// A node that leaves by itself comes back by the certificate it has. What
/// people have set for it is set again, and its token grants nothing twice.
#[tokio::test]
async fn hostile_node_sheds_nothing_by_leaving_and_coming_back() {
    let world = World::new().await;
    let granted = v1::CreateTokenRequest {
        labels: labels(&[("zone", "pci")]).into_iter().collect(),
        accept_labels: true,
        ..v1::CreateTokenRequest::default()
    };
    let evil = joined_with(&world, "evil", granted).await;
    after(&world, &evil, saying(&[("disk", "ssd")])).await;
    let limits = NodeLimits {
        cpu: Some(1000),
        ..NodeLimits::default()
    };
    let people = NodeChange {
        labels: labels(&[("zone", ""), ("untrusted", "yes")]),
        draining: Some(true),
        limits: Some(limits),
        ..NodeChange::default()
    };
    let (admin, any) = (principal(Role::Admin), Precondition::default);
    let changed = world.core.update_node(&admin, "evil", &people, any());
    changed.await.unwrap();
    let report = async |state| {
        let leaves = NodeFacts {
            reported: Some(NodeReport::of(state, "")),
            ..NodeFacts::default()
        };
        world.core.update_node_facts("evil", &leaves).await.unwrap();
        world.is_gone("evil").await;
    };
    let unregister = async || {
        let mut nodes = NodeServiceClient::new(channel(&world, &evil).await);
        let id = NodeUnregisterRequest { id: "evil".into() };
        assert_eq!(nodes.unregister(id).await.unwrap().into_inner().code, 0);
        world.is_gone("evil").await;
    };
    let said = [("zone", "pci"), ("gpu", "yes")];
    let kept = labels(&[("disk", "ssd"), ("untrusted", "yes")]);
    for way in [
        None,
        Some(InstanceState::Destroying),
        Some(InstanceState::Terminated),
    ] {
        match way {
            Some(state) => report(state).await,
            None => unregister().await,
        }
        let node = after(&world, &evil, saying(&said)).await;
        assert_eq!(node.all_labels(), kept, "{way:?}");
        assert_eq!(node.requested_labels, Some(labels(&said)), "{way:?}");
        assert_eq!((node.limits, node.cpu), (limits, 1000), "{way:?}");
        assert!(node.draining && !node.leaving, "{way:?}");
    }
    // One that is open is open again: it was closed by leaving alone.
    let opened = NodeChange {
        draining: Some(false),
        ..NodeChange::default()
    };
    let changed = world.core.update_node(&admin, "evil", &opened, any());
    changed.await.unwrap();
    unregister().await;
    let node = after(&world, &evil, saying(&said)).await;
    assert!(!node.draining && !node.leaving);
    assert_eq!(node.all_labels(), kept);
}

#[tokio::test]
async fn hostile_node_does_not_take_the_address_of_another() {
    let world = World::new().await;
    let evil = joined(&world, "evil").await;
    let honest = joined(&world, "honest").await;
    let at = |address: &str| Hello {
        address: address.into(),
        ..hello()
    };
    let own = after(&world, &honest, at("192.0.2.7")).await;
    assert_eq!(own.address, "192.0.2.7");
    let node = after(&world, &evil, at("192.0.2.7")).await;
    assert_eq!(node.address, "");
    // Also not while the other is away: it did not prove that it is there.
    let lost = NodeFacts {
        reported: Some(NodeReport::of(InstanceState::Failed, "gone")),
        ..NodeFacts::default()
    };
    world.core.update_node_facts("honest", &lost).await.unwrap();
    let node = after(&world, &evil, at("192.0.2.7")).await;
    assert_eq!(node.address, "");
    // The node that reported it first without a proof loses it to the one that
    // connects from there.
    let node = after(&world, &evil, at("127.0.0.1")).await;
    assert_eq!(
        (node.address.as_str(), node.address_proven),
        ("127.0.0.1", true)
    );
    let node = after(&world, &honest, at("127.0.0.1")).await;
    assert_eq!(
        node.address, "",
        "proven twice: the first one that is there has it"
    );
}

/// Others would encrypt for the one what is for the other, or abandon on both.
/// It is left out of the overlay, rather than reached in the clear.
#[tokio::test]
async fn hostile_node_does_not_take_the_overlay_key_of_another() {
    let world = World::new().await;
    let evil = joined(&world, "evil").await;
    let honest = joined(&world, "honest").await;
    let with = |address: &str, key: &[u8], port: u32| Hello {
        address: address.into(),
        overlay_encryption: Some(v1::OverlayEncryption {
            wireguard_key: key.to_vec(),
            wireguard_port: port,
            unencrypted_reason: String::new(),
        }),
        ..hello()
    };
    let own = after(&world, &honest, with("192.0.2.7", &[7; 32], 51820)).await;
    assert_eq!(own.overlay.describe(), "wireguard");
    let node = after(&world, &evil, with("192.0.2.8", &[7; 32], 51820)).await;
    assert_eq!((node.overlay.key.as_str(), node.address.as_str()), ("", ""));
    assert!(node.overlay.describe().contains("honest"));
    let own = world.core.node("honest").unwrap();
    assert_eq!(
        (own.address.as_str(), own.overlay.port),
        ("192.0.2.7", 51820)
    );
    // What is no key is none; with one of its own it is back.
    for (key, port) in [
        (&[7; 31][..], 1),
        (&[0; 32], 1),
        (&[8; 32], 0),
        (&[8; 32], 70_000),
    ] {
        let node = after(&world, &evil, with("192.0.2.8", key, port)).await;
        assert_eq!(node.overlay.describe(), "none: its key is not valid");
    }
    let node = after(&world, &evil, with("192.0.2.8", &[8; 32], 51821)).await;
    assert_eq!(
        (node.address.as_str(), node.overlay.port),
        ("192.0.2.8", 51821)
    );
    // One of an older release reports nothing of it.
    let node = after(&world, &evil, hello()).await;
    assert_eq!(node.overlay.describe(), "");
}

#[tokio::test]
async fn hostile_node_instance_addresses_stay_within_its_subnet() {
    let world = World::new().await;
    let shutdown = CancellationToken::new();
    let _placement = placement::start(world.core.clone(), shutdown.clone());
    let evil = joined(&world, "evil").await;
    let mut link = follow_as(&world, &evil, hello()).await.unwrap();
    let web = create_instance(&world).await;
    let subnet = world.core.node("evil").unwrap().subnet.clone();
    let inside = subnet.replace(".0/24", ".9");
    let mut generation = None;
    let assigned = async {
        while generation.is_none() {
            let message = link.from_server.message().await.unwrap().unwrap().message;
            if let Some(server_message::Message::Assignment(assignment)) = message {
                generation = Some(assignment.generation);
            }
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, assigned).await.unwrap();
    for (address, taken) in [("203.0.113.9", None), (inside.as_str(), Some(&inside))] {
        let report = node_message::Message::Report(v1::InstanceReport {
            id: web.id.to_string(),
            generation: generation.unwrap(),
            state: v1::PodState::Running.into(),
            address: address.to_owned(),
            ..v1::InstanceReport::default()
        });
        assert!(link.say(report).await);
        settled(&mut link).await;
        let now = world
            .core
            .instance(&principal(Role::Admin), None, "web")
            .unwrap();
        let known = now.address.map(|address| address.to_string());
        assert_eq!(known.as_ref(), taken);
    }
    shutdown.cancel();
}
