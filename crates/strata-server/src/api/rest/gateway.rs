//! The published REST gateway of clusters: JSON in, the same functions as
//! behind gRPC, JSON out. Messages are read and written by their descriptors,
//! as in other gateways: names as in the document or in lower camel case when
//! they come, as in the document when they go; all fields are sent.
//!
//! The request is in the body, or behind the `?`.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::{FromRequest, FromRequestParts as _, Request, State};
use bytes::Bytes;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use serde::de::DeserializeSeed as _;
use serde_json::{Map, Value};
use strata_identity::policy::{OPERATE, READ};
use strata_types::{Error, Result};

use super::extract::{Auth, Parameters, check_kind, read};
use super::rejection::{Answer, Rejection, wrong_method};
use super::route::{self, Route};
use super::{answer, json};
use crate::api::grpc::ClusterApi;

const SERVICE: &str = "cnct.kaas.api.Cluster";

/// The gateway.
pub fn gateway(clusters: ClusterApi) -> Router {
    route::router(routes())
        .method_not_allowed_fallback(wrong_method)
        .with_state(clusters)
}

/// The routes of the gateway. A published document describes them.
pub(super) fn routes() -> Vec<Route<ClusterApi>> {
    vec![
        route::post("/api/v1/cluster", OPERATE, create),
        // It hands out a kubeconfig: that is not reading.
        route::get("/api/v1/cluster", OPERATE, show),
        route::delete("/api/v1/cluster", OPERATE, delete),
        route::get("/api/v1/cluster/list", READ, list),
        route::get("/api/v1/cluster/nodesstatus", READ, nodes),
        route::get("/api/v1/version", READ, version),
        route::post("/api/v1/cluster/pool", OPERATE, add),
        route::delete("/api/v1/cluster/pool", OPERATE, remove),
        route::put("/api/v1/cluster/pool", OPERATE, scale),
        route::get("/api/v1/cluster/upgrade", READ, targets),
        route::put("/api/v1/cluster/upgrade", OPERATE, upgrade),
    ]
}

async fn create(State(clusters): State<ClusterApi>, Auth(principal): Auth, call: Call) -> Answer {
    let rpc = rpc("CreateCluster")?;
    rpc.render(&clusters.create(&principal, rpc.read(&call)?).await?)
}

async fn show(State(clusters): State<ClusterApi>, Auth(principal): Auth, call: Call) -> Answer {
    let rpc = rpc("GetCluster")?;
    rpc.render(&clusters.get(&principal, rpc.read(&call)?).await?)
}

async fn delete(State(clusters): State<ClusterApi>, Auth(principal): Auth, call: Call) -> Answer {
    let rpc = rpc("DeleteCluster")?;
    rpc.render(&clusters.delete(&principal, rpc.read(&call)?).await?)
}

async fn list(State(clusters): State<ClusterApi>, call: Call) -> Answer {
    let rpc = rpc("GetClusterList")?;
    rpc.read::<strata_api::kaas::GetClusterListMsg>(&call)?;
    rpc.render(&clusters.list()?)
}

async fn nodes(State(clusters): State<ClusterApi>, call: Call) -> Answer {
    let rpc = rpc("GetClusterNodesStatus")?;
    rpc.render(&clusters.nodes(&rpc.read(&call)?)?)
}

async fn version(State(clusters): State<ClusterApi>, call: Call) -> Answer {
    let rpc = rpc("GetVersionInformation")?;
    rpc.read::<strata_api::kaas::GetVersionMsg>(&call)?;
    rpc.render(&clusters.version())
}

async fn add(State(clusters): State<ClusterApi>, Auth(principal): Auth, call: Call) -> Answer {
    let rpc = rpc("AddNodePool")?;
    rpc.render(&clusters.add_pools(&principal, rpc.read(&call)?).await?)
}

async fn remove(State(clusters): State<ClusterApi>, Auth(principal): Auth, call: Call) -> Answer {
    let rpc = rpc("DeleteNodePool")?;
    rpc.render(&clusters.delete_pools(&principal, rpc.read(&call)?).await?)
}

async fn scale(State(clusters): State<ClusterApi>, Auth(principal): Auth, call: Call) -> Answer {
    let rpc = rpc("ScaleNodePool")?;
    rpc.render(&clusters.scale_pools(&principal, rpc.read(&call)?).await?)
}

async fn targets(State(clusters): State<ClusterApi>, call: Call) -> Answer {
    let rpc = rpc("GetUpgradeClusterInformation")?;
    rpc.render(&clusters.upgrade_targets(&rpc.read(&call)?)?)
}

async fn upgrade(State(clusters): State<ClusterApi>, Auth(principal): Auth, call: Call) -> Answer {
    let rpc = rpc("UpgradeCluster")?;
    rpc.render(&clusters.upgrade(&principal, rpc.read(&call)?).await?)
}

/// What came: parameters, a body.
struct Call {
    parameters: Parameters,
    body: Bytes,
}

impl<S: Send + Sync> FromRequest<S> for Call {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &S) -> Answer<Self> {
        let (mut parts, body) = request.into_parts();
        let parameters = Parameters::from_request_parts(&mut parts, state).await?;
        let body = read(&parts, body).await?;
        if !body.is_empty() {
            check_kind(&parts.headers, false)?;
        }
        Ok(Self { parameters, body })
    }
}

/// A call of the published service.
struct Rpc(MethodDescriptor);

fn rpc(name: &str) -> Answer<Rpc> {
    static POOL: LazyLock<Option<DescriptorPool>> =
        LazyLock::new(|| DescriptorPool::decode(strata_api::DESCRIPTORS).ok());
    let service = POOL.as_ref().and_then(|it| it.get_service_by_name(SERVICE));
    let found = service.and_then(|it| it.methods().find(|method| method.name() == name));
    let unknown = || Error::internal(format!("{SERVICE} has no {name}"));
    Ok(found.map(Rpc).ok_or_else(unknown)?)
}

impl Rpc {
    fn read<T: Message + Default>(&self, call: &Call) -> Answer<T> {
        let kind = self.0.input();
        let message = match call.body.is_empty() {
            false => {
                call.parameters.deny_unknown(&[])?;
                json::parse_as(&call.body, kind)?
            }
            true => {
                let fields = from_query(&kind, call.parameters.pairs())?;
                let read = kind.deserialize(Value::Object(fields));
                read.map_err(|error| Error::invalid("query", error.to_string()))?
            }
        };
        let typed = message.transcode_to();
        Ok(typed.map_err(|error| Error::internal(format!("a message changed: {error}")))?)
    }

    fn render(&self, reply: &impl Message) -> Answer {
        let mut message = DynamicMessage::new(self.0.output());
        let same = message.transcode_from(reply);
        same.map_err(|error| Error::internal(format!("a message changed: {error}")))?;
        answer::json(&Whole(message))
    }
}

/// All fields of a message, by the names of the document.
struct Whole(DynamicMessage);

impl serde::Serialize for Whole {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let options = SerializeOptions::new()
            .use_proto_field_name(true)
            .skip_default_fields(false);
        self.0.serialize_with_options(serializer, &options)
    }
}

/// The fields of a message that parameters report. What has parts of its own
/// does not support that.
fn from_query(kind: &MessageDescriptor, pairs: &[(String, String)]) -> Result<Map<String, Value>> {
    let mut fields = Map::new();
    for (key, value) in pairs {
        let key: String = key.chars().take(80).collect();
        let field = kind.get_field_by_name(&key);
        let field = field.or_else(|| kind.get_field_by_json_name(&key));
        let field = field.filter(|field| !matches!(field.kind(), Kind::Message(_)));
        let Some(field) = field else {
            let known: Vec<_> = kind
                .fields()
                .map(|field| field.json_name().to_owned())
                .collect();
            let why = format!("is unknown; there are {}", known.join(", "));
            return Err(Error::invalid(key, why));
        };
        let value = Value::String(value.clone());
        let place = fields.entry(field.name()).or_insert(Value::Null);
        match place {
            Value::Array(all) => all.push(value),
            Value::Null if field.is_list() => *place = Value::Array(vec![value]),
            Value::Null => *place = value,
            _ => return Err(Error::invalid(key, "is given twice")),
        }
    }
    Ok(fields)
}
