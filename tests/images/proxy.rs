//! Registries behind the proxy of the environment: it connects, and sees
//! nothing but the name of the registry.

use std::sync::{Arc, Mutex};

use strata_testkit::images::{Image, Registry};
use strata_testkit::{Code, Daemon};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::images::{STRATA, pull};

/// The registry as it is known on the internet that only the proxy reaches.
const HOST: &str = "registry.example";

/// A proxy with that registry behind it; the first lines of what it was sent.
struct Proxy {
    address: String,
    ca_pem: String,
    requests: Arc<Mutex<Vec<String>>>,
}

async fn proxy(registry: &str) -> Proxy {
    let made = rcgen::generate_simple_self_signed([HOST.to_owned()]);
    let made = made.expect("a certificate can be made");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key);
    let tls = TlsAcceptor::from(Arc::new(config.expect("it has its key")));
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port is free");
    let address = listener
        .local_addr()
        .expect("it has an address")
        .to_string();
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let (seen, registry) = (Arc::clone(&requests), registry.to_owned());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (seen, registry, tls) = (Arc::clone(&seen), registry.clone(), tls.clone());
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if stream.read_line(&mut head).await? == 0 {
                        break;
                    }
                }
                let first = head.lines().next().unwrap_or_default().to_owned();
                let is_known = first.starts_with(&format!("CONNECT {HOST}:443 "));
                seen.lock().expect("no holder panicked").push(first);
                if !is_known {
                    return stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await;
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                let mut inside = tls.accept(stream).await?;
                let mut outside = TcpStream::connect(registry).await?;
                copy_bidirectional(&mut inside, &mut outside).await?;
                Ok(())
            });
        }
    });
    Proxy {
        address,
        ca_pem: made.cert.pem(),
        requests,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_is_reached_through_the_proxy_of_the_environment() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::start(world.path()) else {
        return;
    };
    let direct = registry.push(&Image::empty(), "app:v1");
    let proxy = proxy(registry.address()).await;
    let ca_file = world.path().join("ca.pem");
    std::fs::write(&ca_file, &proxy.ca_pem).unwrap();
    let config = format!(
        "[images]\nplain_http = [{:?}]\ncertificate_authorities = [{ca_file:?}]\n",
        registry.address()
    );
    let mut daemon = Daemon::build(STRATA).config(&config).stopped();
    let url = format!("http://me:hunter2@{}", proxy.address);
    daemon.set_environment("HTTPS_PROXY", &url);
    daemon.set_environment("HTTP_PROXY", &url);
    daemon.restart().await;
    let node = daemon.node().await;

    let pulled = pull(&node, &format!("{HOST}/app:v1")).await.unwrap();
    assert_eq!(pulled.digest, Image::empty().digest());
    let seen = std::mem::take(&mut *proxy.requests.lock().unwrap());
    let connect = format!("CONNECT {HOST}:443 HTTP/1.1");
    assert!(
        !seen.is_empty() && seen.iter().all(|line| *line == connect),
        "{seen:?}"
    );

    let refused = pull(&node, "unknown.example/app:v1").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    let message = refused.message();
    assert!(message.contains(&proxy.address), "{message}");
    assert!(!message.contains("hunter2"), "{message}");
    assert!(!daemon.log().contains("hunter2"));

    // The host itself and registries without TLS are contacted directly.
    proxy.requests.lock().unwrap().clear();
    pull(&node, &direct).await.unwrap();
    assert!(proxy.requests.lock().unwrap().is_empty());
}
