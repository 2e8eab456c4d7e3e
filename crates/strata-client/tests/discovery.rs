//! Where a client connects to, for everything that can be said and found.
#![allow(clippy::unwrap_used)]

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use strata_client::{Context, Contexts, Discovery, Endpoints, Error, Places, Target};
use strata_identity::{Ca, CertificateSpec};
use strata_types::Role;

/// A machine with a default data directory, a default socket and a home, none
/// of which is there yet.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn discovery(&self) -> Discovery {
        Discovery::new(Places {
            node_socket: self.path("default.sock"),
            data_dir: self.path("default"),
            logins: Some(self.path("home/config.toml")),
        })
    }

    fn daemon(&self, data_dir: &str, endpoints: &Endpoints) -> PathBuf {
        let data_dir = self.path(data_dir);
        let client = data_dir.join("client");
        credentials(&self.path("ca"), &client);
        endpoints.write(&client).unwrap();
        data_dir
    }

    fn socket(&self, name: &str) -> (PathBuf, UnixListener) {
        let path = self.path(name);
        let listener = UnixListener::bind(&path).unwrap();
        (path, listener)
    }
}

fn credentials(ca: &Path, directory: &Path) {
    let authority = Ca::open(ca).unwrap();
    let spec = CertificateSpec::caller("test".parse().unwrap(), Role::Admin);
    authority.issue(&spec).unwrap().write(directory).unwrap();
}

fn both(socket: Option<PathBuf>) -> Endpoints {
    Endpoints {
        server: Some("https://127.0.0.1:7700".into()),
        node: Some("https://127.0.0.1:7710".into()),
        node_socket: socket,
    }
}

fn shown(target: Result<Target, Error>) -> String {
    match target {
        Ok(target) => format!("{target:?}"),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn a_named_directory_leads_to_its_socket_and_its_server() {
    let machine = Machine::new();
    let (socket, _listener) = machine.socket("mine.sock");
    let mut discovery = machine.discovery();
    discovery.data_dir = Some(machine.daemon("data", &both(Some(socket.clone()))));
    let node = format!("unix:{} with a socket", socket.display());
    assert_eq!(shown(discovery.node()), node);
    let server = "https://127.0.0.1:7700 with a certificate";
    assert_eq!(shown(discovery.server()), server);
}

#[test]
fn a_socket_that_is_not_there_gives_way_to_the_port() {
    let machine = Machine::new();
    let mut discovery = machine.discovery();
    let gone = machine.path("gone.sock");
    discovery.data_dir = Some(machine.daemon("data", &both(Some(gone.clone()))));
    let port = "https://127.0.0.1:7710 with a certificate";
    assert_eq!(shown(discovery.node()), port);
    let alone = Endpoints {
        node_socket: Some(gone.clone()),
        ..Default::default()
    };
    discovery.data_dir = Some(machine.daemon("alone", &alone));
    let socket = format!("unix:{} with a socket", gone.display());
    assert_eq!(shown(discovery.node()), socket);
}

#[test]
fn a_node_alone_is_its_own_server() {
    let machine = Machine::new();
    let mut discovery = machine.discovery();
    let alone = Endpoints {
        node: Some("https://127.0.0.1:7710".into()),
        ..Default::default()
    };
    discovery.data_dir = Some(machine.daemon("data", &alone));
    let port = "https://127.0.0.1:7710 with a certificate";
    assert_eq!(shown(discovery.server()), port);
}

#[test]
fn a_named_directory_never_leads_elsewhere() {
    let machine = Machine::new();
    let (_, _listener) = machine.socket("default.sock");
    machine.daemon("default", &both(None));
    let mut discovery = machine.discovery();
    discovery.data_dir = Some(machine.path("other"));
    assert!(matches!(discovery.node(), Err(Error::Nowhere { .. })));
    assert!(matches!(discovery.server(), Err(Error::Nowhere { .. })));
}

#[test]
fn defaults_apply_without_configuration() {
    let machine = Machine::new();
    let discovery = machine.discovery();
    let socket = format!(
        "unix:{} with a socket",
        machine.path("default.sock").display()
    );
    assert_eq!(shown(discovery.node()), socket);
    assert!(matches!(discovery.server(), Err(Error::Nowhere { .. })));

    let (_, _listener) = machine.socket("default.sock");
    assert_eq!(shown(discovery.server()), socket);

    machine.daemon("default", &both(None));
    assert_eq!(
        shown(discovery.node()),
        "https://127.0.0.1:7710 with a certificate"
    );
    assert_eq!(
        shown(discovery.server()),
        "https://127.0.0.1:7700 with a certificate"
    );
}

#[test]
fn a_saved_login_comes_before_the_default_directory() {
    let machine = Machine::new();
    machine.daemon("default", &both(None));
    let mut contexts = Contexts::default();
    contexts.use_context(
        "far",
        Context {
            server: "https://far:7700".into(),
            credentials: None,
            token: Some("secret".into()),
            ca_pem: Some("pem".into()),
        },
    );
    contexts.write(&machine.path("home/config.toml")).unwrap();
    let mut discovery = machine.discovery();
    assert_eq!(shown(discovery.server()), "https://far:7700 with a token");
    // Said outright, the same address takes its saved proof along.
    discovery.server = Some("https://far:7700".parse().unwrap());
    assert_eq!(shown(discovery.server()), "https://far:7700 with a token");
}

#[test]
fn an_address_needs_a_proof_and_takes_the_one_that_was_said() {
    let machine = Machine::new();
    let mut discovery = machine.discovery();
    discovery.server = Some("https://far:7700".parse().unwrap());
    assert!(matches!(discovery.server(), Err(Error::NoProof { .. })));
    discovery.token = Some("secret".into());
    assert!(
        matches!(discovery.server(), Err(Error::NoProof { .. })),
        "no CA"
    );
    std::fs::write(machine.path("ca.crt"), "pem").unwrap();
    discovery.ca = Some(machine.path("ca.crt"));
    assert_eq!(shown(discovery.server()), "https://far:7700 with a token");
    credentials(&machine.path("ca"), &machine.path("me"));
    discovery.credentials = Some(machine.path("me"));
    assert_eq!(
        shown(discovery.server()),
        "https://far:7700 with a certificate"
    );
}

#[test]
fn a_named_node_is_the_server_when_no_other_is_named() {
    let machine = Machine::new();
    machine.daemon("default", &both(None));
    let mut discovery = machine.discovery();
    discovery.node = Some("unix:/x.sock".parse().unwrap());
    assert_eq!(shown(discovery.server()), "unix:/x.sock with a socket");
}

#[test]
fn credentials_that_others_could_read_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let machine = Machine::new();
    let mut discovery = machine.discovery();
    discovery.data_dir = Some(machine.daemon("data", &both(None)));
    let key = machine.path("data/client/client.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = shown(discovery.server());
    assert!(error.contains("client.key is open to others"), "{error}");
}
