//! The members of a cluster's etcd, asked directly: who they are, that one is
//! to go, and for all that they know. Whoever answers will do, but for the
//! last, which is one member's.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use strata_types::Secret;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::etcd_wire as wire;
use super::{pki, tls};
use crate::DriverError;

const PORT: u16 = 2379;
const TIMEOUT: Duration = Duration::from_secs(5);
/// For each of the two questions by which the members are looked at.
const LOOK: Duration = Duration::from_millis(1500);
const LIST: &str = "/etcdserverpb.Cluster/MemberList";

/// What one member says of all.
#[derive(Debug)]
pub(super) struct Told {
    /// Who was asked.
    pub(super) address: String,
    /// Everybody, as far as it knows; none where it does not answer.
    pub(super) knows: Option<Vec<wire::Member>>,
    /// Everybody, as the majority says that it is.
    pub(super) sure: Option<Vec<wire::Member>>,
}

/// The etcd of one cluster, by the addresses of its machines.
pub(super) struct Etcd {
    tls: Arc<ClientConfig>,
    addresses: Vec<String>,
}

impl Etcd {
    /// With a certificate of its own authority.
    pub(super) fn new(
        secrets: &BTreeMap<String, Secret>,
        addresses: Vec<String>,
    ) -> Result<Self, DriverError> {
        let mut tls = tls::config(secrets, pki::ETCD)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            tls: Arc::new(tls),
            addresses,
        })
    }

    /// Has the others forget a member, by its name or its address: one that
    /// never came up has no name yet. One that is not there is fine.
    pub(super) async fn remove(&self, name: &str, address: &str) -> Result<(), DriverError> {
        let known = wire::MemberListRequest { linearizable: true };
        let listed: wire::MemberListResponse = self.ask(LIST, known).await?;
        let peer = format!("https://{address}:2380");
        let is_meant = |member: &&wire::Member| {
            member.name == name || (!address.is_empty() && member.peer_urls.contains(&peer))
        };
        for member in listed.members.iter().filter(is_meant) {
            let path = "/etcdserverpb.Cluster/MemberRemove";
            let going = wire::MemberRemoveRequest { id: member.id };
            let _: wire::MemberListResponse = self.ask(path, going).await?;
        }
        Ok(())
    }

    /// Asks everybody at once who the members are. One that has no majority
    /// around it still tells what it knows.
    pub(super) async fn look(&self) -> Vec<Told> {
        join_all(self.addresses.iter().map(|address| self.look_at(address))).await
    }

    async fn look_at(&self, address: &str) -> Told {
        let mut told = Told {
            address: address.to_owned(),
            knows: None,
            sure: None,
        };
        let opened = async {
            let mut client = self.client(address).await?;
            let knows = list(&mut client, false).await?;
            Ok::<_, Status>((client, knows))
        };
        if let Ok(Ok((mut client, knows))) = tokio::time::timeout(LOOK, opened).await {
            told.knows = Some(knows);
            let sure = tokio::time::timeout(LOOK, list(&mut client, true)).await;
            told.sure = sure.ok().and_then(Result::ok);
        }
        told
    }

    /// All that etcd knows, in pieces, from the first member that answers.
    pub(super) async fn snapshot(&self) -> Result<Streaming<wire::SnapshotResponse>, DriverError> {
        let mut why = "no member is known".to_owned();
        let path = PathAndQuery::from_static("/etcdserverpb.Maintenance/Snapshot");
        for address in &self.addresses {
            let asked = async {
                let mut client = self.client(address).await?;
                let request = Request::new(wire::SnapshotRequest {});
                let codec = ProstCodec::<wire::SnapshotRequest, wire::SnapshotResponse>::default();
                client.server_streaming(request, path.clone(), codec).await
            };
            match tokio::time::timeout(TIMEOUT, asked).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => why = format!("{address}: {}", words(&status)),
                Err(_) => why = format!("{address}: no answer within {TIMEOUT:?}"),
            }
        }
        Err(silent(&why))
    }

    async fn ask<Q, A>(&self, path: &'static str, request: Q) -> Result<A, DriverError>
    where
        Q: prost::Message + Clone + Default + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut why = "no member is known".to_owned();
        for address in &self.addresses {
            let asked = async {
                let mut client = self.client(address).await?;
                let codec = ProstCodec::<Q, A>::default();
                let path = PathAndQuery::from_static(path);
                client
                    .unary(Request::new(request.clone()), path, codec)
                    .await
            };
            match tokio::time::timeout(TIMEOUT, asked).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => why = format!("{address}: {}", words(&status)),
                Err(_) => why = format!("{address}: no answer within {TIMEOUT:?}"),
            }
        }
        Err(silent(&why))
    }

    async fn client(&self, address: &str) -> Result<tonic::client::Grpc<Channel>, Status> {
        // To the HTTP layer all is plain: the connector does TLS by itself.
        let endpoint = Endpoint::from_shared(format!("http://{address}:{PORT}"));
        let endpoint = endpoint.map_err(|error| Status::unavailable(error.to_string()))?;
        let (tls, address) = (self.tls.clone(), address.to_owned());
        let connect = tower::service_fn(move |_: Uri| {
            let (tls, address) = (tls.clone(), address.clone());
            async move { open(&address, tls).await.map(TokioIo::new) }
        });
        let channel = endpoint.connect_with_connector(connect).await;
        let channel = channel.map_err(|error| Status::unavailable(strata_types::chain(&error)))?;
        let mut client = tonic::client::Grpc::new(channel);
        client
            .ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(client)
    }
}

async fn list(
    client: &mut tonic::client::Grpc<Channel>,
    linearizable: bool,
) -> Result<Vec<wire::Member>, Status> {
    client
        .ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let request = Request::new(wire::MemberListRequest { linearizable });
    let codec = ProstCodec::<wire::MemberListRequest, wire::MemberListResponse>::default();
    let path = PathAndQuery::from_static(LIST);
    let answer = client.unary(request, path, codec).await?;
    Ok(answer.into_inner().members)
}

async fn open(
    address: &str,
    tls: Arc<ClientConfig>,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let ip: IpAddr = address.parse().map_err(io::Error::other)?;
    let tcp = TcpStream::connect((ip, PORT)).await?;
    tcp.set_nodelay(true)?;
    TlsConnector::from(tls)
        .connect(ServerName::from(ip), tcp)
        .await
}

fn words(status: &Status) -> String {
    format!("{} ({:?})", status.message(), status.code())
}

fn silent(why: &str) -> DriverError {
    DriverError::Silent(format!("etcd: {why}"))
}
