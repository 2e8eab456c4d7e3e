//! TLS before the fake node: a port that ends TLS and passes on what is
//! inside, with a CA of its own.

use std::path::PathBuf;
use std::sync::Arc;

use strata_identity::{
    Ca, CertificateSpec, Clock, Host, LiveIdentity, server_config_optional_client,
};
use strata_types::Role;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio_rustls::TlsAcceptor;

use super::World;

impl World {
    /// The CA that signs for the port.
    pub fn authority(&self) -> Ca {
        Ca::open(&self.path("ca")).unwrap()
    }

    /// Opens a port before the node; `{}/admin` gets credentials for it, and
    /// `{}/ca.crt` its CA. Gives `127.0.0.1:PORT`.
    pub async fn tls(&self) -> String {
        let authority = self.authority();
        let admin = CertificateSpec::caller("me".parse().unwrap(), Role::Admin);
        authority
            .issue(&admin)
            .unwrap()
            .write(&self.path("admin"))
            .unwrap();
        std::fs::write(self.path("ca.crt"), authority.ca_pem()).unwrap();

        let hosts = ["127.0.0.1".parse::<Host>().unwrap()];
        let spec = CertificateSpec::server("server".parse().unwrap()).with_hosts(hosts);
        let identity = Arc::new(LiveIdentity::new(&authority.issue(&spec).unwrap()).unwrap());
        let config =
            server_config_optional_client(&authority.ca_pem(), identity, Clock::system()).unwrap();
        let acceptor = TlsAcceptor::from(config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let socket = self.path("node.sock");
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(pass_on(acceptor.clone(), tcp, socket.clone()));
            }
        });
        address
    }
}

async fn pass_on(acceptor: TlsAcceptor, tcp: tokio::net::TcpStream, socket: PathBuf) {
    let Ok(mut tls) = acceptor.accept(tcp).await else {
        return;
    };
    let mut inside = UnixStream::connect(socket).await.unwrap();
    let _ = copy_bidirectional(&mut tls, &mut inside).await;
}
