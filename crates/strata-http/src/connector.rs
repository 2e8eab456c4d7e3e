//! Connections to servers: directly, or through the proxy that the environment
//! names. The proxy gets a CONNECT and sees nothing but the name of the server
//! and ciphertext. Requests without TLS go to registries and stores of one's
//! own network, which are contacted directly.

use std::error::Error;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

type BoxError = Box<dyn Error + Send + Sync>;

/// Makes connections.
#[derive(Clone, Debug)]
pub struct Connector {
    tcp: HttpConnector,
    proxies: Option<Proxies>,
}

#[derive(Clone, Debug)]
struct Proxies {
    matcher: Arc<Matcher>,
    /// How long a proxy may take to connect further.
    timeout: Duration,
}

/// Why no connection was made through a proxy.
#[derive(Debug, thiserror::Error)]
enum ProxyError {
    #[error("the proxy {0} of the environment is not supported: only http://HOST:PORT is")]
    Unsupported(String),
    #[error("the proxy {proxy} did not connect: {why}")]
    Refused { proxy: String, why: String },
}

impl Connector {
    pub(crate) fn direct(tcp: HttpConnector) -> Self {
        Self { tcp, proxies: None }
    }

    /// By `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case, as curl
    /// reads them.
    pub(crate) fn from_environment(tcp: HttpConnector, timeout: Duration) -> Self {
        Self::through(tcp, Matcher::from_env(), timeout)
    }

    fn through(tcp: HttpConnector, matcher: Matcher, timeout: Duration) -> Self {
        let matcher = Arc::new(matcher);
        Self {
            tcp,
            proxies: Some(Proxies { matcher, timeout }),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let proxies = self.proxies.as_ref().filter(|_| needs_proxy(&to));
        let found = proxies.and_then(|all| Some((all.matcher.intercept(&to)?, all.timeout)));
        let Some((proxy, timeout)) = found else {
            let direct = self.tcp.call(to);
            return Box::pin(async move { Ok(direct.await?) });
        };
        // The address alone: what stands before the @ is a password.
        let authority = proxy.uri().authority().map_or("", |all| all.as_str());
        let name = authority.rsplit('@').next().unwrap_or_default().to_owned();
        if proxy.uri().scheme_str() != Some("http") {
            return Box::pin(async move { Err(ProxyError::Unsupported(name).into()) });
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.tcp.clone());
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        Box::pin(async move {
            let refused = |why: String| ProxyError::Refused { proxy: name, why };
            match tokio::time::timeout(timeout, tunnel.call(to)).await {
                Ok(Ok(connection)) => Ok(connection),
                Ok(Err(error)) => Err(refused(crate::root_cause(&error).to_string()).into()),
                Err(_) => Err(refused(format!("no answer within {timeout:?}")).into()),
            }
        })
    }
}

/// A host never reaches itself through a proxy, whatever `NO_PROXY` says.
fn needs_proxy(to: &Uri) -> bool {
    let host = to.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    to.scheme_str() == Some("https") && !is_loopback
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    fn connector(proxy: &str, except: &str) -> Connector {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        let matcher = Matcher::builder().https(proxy).http(proxy).no(except);
        Connector::through(tcp, matcher.build(), Duration::from_secs(5))
    }

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    /// A proxy that answers one request so, and then echoes a byte; the head
    /// that it received.
    async fn proxy(answer: &'static str) -> (String, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heard = tokio::spawn(async move {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                stream.read_line(&mut head).await.unwrap();
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            if let Ok(byte) = stream.read_u8().await {
                stream.write_all(&[byte]).await.unwrap();
            }
            head
        });
        (address, heard)
    }

    #[tokio::test]
    async fn proxy_connects_to_the_name_and_receives_its_password_only() {
        let (address, heard) = proxy("HTTP/1.1 200 OK\r\n\r\n").await;
        let mut connector = connector(&format!("http://me:secret@{address}"), "");
        let connection = connector.call(uri("https://registry.example/v2/")).await;
        let mut stream = connection.unwrap().into_inner();
        stream.write_all(b"!").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'!');
        let head = heard.await.unwrap();
        assert!(
            head.starts_with("CONNECT registry.example:443 HTTP/1.1\r\n"),
            "{head}"
        );
        assert!(
            head.contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"),
            "{head}"
        );
    }

    #[tokio::test]
    async fn refusal_names_the_proxy_without_its_password() {
        let (address, _heard) = proxy("HTTP/1.1 403 Forbidden\r\n\r\n").await;
        let mut connector = connector(&format!("http://me:secret@{address}"), "");
        let refused = connector.call(uri("https://registry.example/")).await;
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains(&address) && !text.contains("secret"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn own_host_exceptions_and_plain_requests_are_contacted_directly() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        // Nothing listens there: who goes through it fails.
        let mut connector = connector("http://127.0.0.1:1", "other.example");
        for direct in [
            format!("https://127.0.0.1:{port}/"),
            format!("https://localhost:{port}/"),
            format!("http://127.0.0.1:{port}/"),
        ] {
            connector.call(uri(&direct)).await.expect(&direct);
        }
        let matcher = connector.proxies.clone().unwrap().matcher;
        assert!(matcher.intercept(&uri("https://other.example/")).is_none());
        let through = connector.call(uri("https://registry.example/")).await;
        assert!(through.unwrap_err().to_string().contains("127.0.0.1:1"));
    }

    #[tokio::test]
    async fn proxies_with_tls_are_refused_by_name() {
        let mut connector = connector("https://me:secret@proxy.example:3128", "");
        let refused = connector.call(uri("https://registry.example/")).await;
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains("proxy.example:3128 of the environment is not supported"),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
    }
}
