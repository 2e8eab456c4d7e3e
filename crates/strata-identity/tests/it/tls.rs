//! TLS handshakes, in memory: which clients are accepted, and which servers a
//! client trusts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rustls::{ClientConfig, ClientConnection, Error, ServerConfig, ServerConnection};
use strata_identity::{
    Ca, CertificateSpec, Clock, Credentials, Expect, Fingerprint, LiveIdentity,
    caller_from_certificate, client_config, install_crypto_provider, joining_client_config,
    server_config_optional_client, server_config_required_client,
};
use strata_types::Role;
use tempfile::TempDir;

struct World {
    _directory: TempDir,
    ca: Ca,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ca = Ca::open(directory.path()).unwrap();
        Self {
            _directory: directory,
            ca,
        }
    }

    fn server(&self) -> Arc<LiveIdentity> {
        live(&self.issue(&CertificateSpec::server("server".parse().unwrap())))
    }

    fn caller(&self, role: Role) -> Arc<LiveIdentity> {
        live(&self.issue(&CertificateSpec::caller("somebody".parse().unwrap(), role)))
    }

    fn issue(&self, spec: &CertificateSpec) -> Credentials {
        self.ca.issue(spec).unwrap()
    }

    fn required(&self, identity: Arc<LiveIdentity>) -> Arc<ServerConfig> {
        server_config_required_client(&self.ca.ca_pem(), identity, Clock::system()).unwrap()
    }

    fn optional(&self, identity: Arc<LiveIdentity>) -> Arc<ServerConfig> {
        server_config_optional_client(&self.ca.ca_pem(), identity, Clock::system()).unwrap()
    }

    fn client(&self, identity: Option<Arc<LiveIdentity>>, expect: Expect) -> ClientConfig {
        client_config(&self.ca.ca_pem(), identity, expect, Clock::system()).unwrap()
    }
}

fn live(credentials: &Credentials) -> Arc<LiveIdentity> {
    Arc::new(LiveIdentity::new(credentials).unwrap())
}

/// Carries bytes to and fro until both are content or one is not.
fn handshake(client: ClientConfig, server: Arc<ServerConfig>) -> Result<ServerConnection, Error> {
    handshake_with("localhost", client, server)
}

fn handshake_with(
    host: &str,
    client: ClientConfig,
    server: Arc<ServerConfig>,
) -> Result<ServerConnection, Error> {
    let name = host.to_owned().try_into().unwrap();
    let mut client = ClientConnection::new(client.into(), name)?;
    let mut server = ServerConnection::new(server)?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets()?;
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        client.read_tls(&mut wire.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(server)
}

#[test]
fn a_caller_is_known_by_its_certificate_over_tls_1_3_and_http_2() {
    install_crypto_provider();
    install_crypto_provider();
    let world = World::new();
    let client = world.client(Some(world.caller(Role::Operator)), Expect::Server);
    let server = handshake(client, world.required(world.server())).unwrap();
    let der = &server.peer_certificates().unwrap()[0];
    assert_eq!(caller_from_certificate(der).unwrap().role, Role::Operator);
    assert_eq!(
        server.protocol_version(),
        Some(rustls::ProtocolVersion::TLSv1_3)
    );
    assert_eq!(server.alpn_protocol(), Some(b"h2".as_slice()));
}

#[test]
fn token_port_accepts_clients_without_certificate() {
    let world = World::new();
    let client = || world.client(None, Expect::Server);
    assert!(handshake(client(), world.required(world.server())).is_err());
    let server = handshake(client(), world.optional(world.server())).unwrap();
    assert!(server.peer_certificates().is_none());
}

#[test]
fn caller_of_another_ca_is_rejected_on_both_ports() {
    let (world, other) = (World::new(), World::new());
    for server in [
        world.required(world.server()),
        world.optional(world.server()),
    ] {
        let client = world.client(Some(other.caller(Role::Admin)), Expect::Server);
        assert!(handshake(client, server).is_err());
    }
}

#[test]
fn a_server_certificate_cannot_call() {
    let world = World::new();
    let client = world.client(Some(world.server()), Expect::Server);
    assert!(handshake(client, world.optional(world.server())).is_err());
}

#[test]
fn a_certificate_that_ended_is_refused_by_either_side() {
    let world = World::new();
    let ca = &world.ca.ca_pem();
    let later = |hours| {
        let at = Timestamp::now() + SignedDuration::from_hours(hours);
        Clock::from_fn(move || at)
    };
    // The caller's year is over; the server's certificate is not checked by the
    // same clock.
    let server = server_config_optional_client(ca, world.server(), later(366 * 24)).unwrap();
    let client = world.client(Some(world.caller(Role::Admin)), Expect::Server);
    assert!(handshake(client, server).is_err());
    // The server's month is over.
    let client = client_config(ca, None, Expect::Server, later(31 * 24)).unwrap();
    let refused = handshake(client, world.optional(world.server())).map(|_| ());
    assert!(
        matches!(refused, Err(Error::InvalidCertificate(_))),
        "{refused:?}"
    );
}

#[test]
fn a_node_cannot_pose_as_the_control_plane_nor_the_other_way_round() {
    let world = World::new();
    let reach =
        |expect, identity| handshake(world.client(None, expect), world.optional(identity)).is_ok();
    assert!(reach(Expect::Server, world.server()));
    assert!(!reach(Expect::Server, world.caller(Role::Node)));
    assert!(reach(Expect::Node, world.caller(Role::Node)));
    assert!(!reach(Expect::Node, world.server()));
    assert!(reach(Expect::Any, world.server()) && reach(Expect::Any, world.caller(Role::Node)));
    // Nor does a caller serve at all.
    assert!(!reach(Expect::Any, world.caller(Role::Admin)));
}

#[test]
fn a_server_is_known_by_the_names_of_its_certificate_alone() {
    let world = World::new();
    let spec = CertificateSpec::server("server".parse().unwrap());
    let identity = live(&world.issue(&spec.with_hosts(["10.9.8.7".parse().unwrap()])));
    for (host, good) in [
        ("10.9.8.7", true),
        ("127.0.0.1", true),
        ("::1", true),
        ("10.9.8.6", false),
        ("server", false),
    ] {
        let client = world.client(None, Expect::Server);
        let reached = handshake_with(host, client, world.optional(identity.clone()));
        assert_eq!(reached.is_ok(), good, "{host}");
    }
}

#[test]
fn joining_node_trusts_only_the_ca_of_its_token() {
    let (world, other) = (World::new(), World::new());
    let join = |fingerprint| joining_client_config(fingerprint, Clock::system()).unwrap();
    let ours = world.ca.fingerprint();
    assert!(handshake(join(ours), world.optional(world.server())).is_ok());
    assert!(handshake(join(ours), other.optional(other.server())).is_err());
    // A node holds a certificate of the right ca, and still is not it.
    assert!(handshake(join(ours), world.optional(world.caller(Role::Node))).is_err());
    // The fingerprint must be the CA's, not the server's own.
    let credentials = world.issue(&CertificateSpec::server("server".parse().unwrap()));
    let leaf =
        rustls_pki_types::pem::PemObject::from_pem_slice(credentials.certificate_pem.as_bytes());
    let leaf: rustls_pki_types::CertificateDer<'_> = leaf.unwrap();
    let pinned = handshake(
        join(Fingerprint::of(&leaf)),
        world.optional(live(&credentials)),
    );
    assert!(pinned.is_err());
    // A chain that only carries the CA along is not signed by it.
    let mut posing = other.issue(&CertificateSpec::server("server".parse().unwrap()));
    posing.ca_pem = world.ca.ca_pem();
    assert!(handshake(join(ours), other.optional(live(&posing))).is_err());
}

#[test]
fn an_exchanged_certificate_is_shown_by_the_next_handshake() {
    let world = World::new();
    let identity = world.caller(Role::Viewer);
    let config = world.client(Some(identity.clone()), Expect::Server);
    let server = world.required(world.server());
    let role = |client: ClientConfig| {
        let connection = handshake(client, server.clone()).unwrap();
        caller_from_certificate(&connection.peer_certificates().unwrap()[0])
            .unwrap()
            .role
    };
    assert_eq!(role(config.clone()), Role::Viewer);
    let spec = CertificateSpec::caller("somebody".parse().unwrap(), Role::Operator);
    identity.swap(&world.issue(&spec)).unwrap();
    assert_eq!(role(config), Role::Operator);
}
