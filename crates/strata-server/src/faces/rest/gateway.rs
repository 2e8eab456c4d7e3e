//! The published REST gateway of clusters: JSON in, the same functions as
//! behind gRPC, JSON out. Messages are read and written by their descriptors,
//! as everybody's gateway does: names as in the document or in lower camel
//! case when they come, as in the document when they go; all fields are told.
//!
//! What is asked for stands in the body, or behind the `?`.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::{FromRequest, FromRequestParts as _, Request, State};
use axum::routing::get;
use bytes::Bytes;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use serde::de::DeserializeSeed as _;
use serde_json::{Map, Value};
use strata_types::{Error, Result};

use super::extract::{Asker, Parameters, check_kind, read};
use super::refusal::{Answer, Refusal, wrong_method};
use super::{answer, both, json};
use crate::faces::ClusterFace;

const SERVICE: &str = "cnct.kaas.api.Cluster";

/// The routes of the gateway.
pub fn gateway(face: ClusterFace) -> Router {
    let routes = [
        ("/api/v1/cluster", get(show).post(create).delete(delete)),
        ("/api/v1/cluster/list", get(list)),
        ("/api/v1/cluster/nodesstatus", get(nodes)),
        ("/api/v1/version", get(version)),
        (
            "/api/v1/cluster/pool",
            axum::routing::post(add).delete(remove).put(scale),
        ),
        ("/api/v1/cluster/upgrade", get(targets).put(upgrade)),
    ];
    let router = routes.into_iter().fold(Router::new(), both);
    router
        .method_not_allowed_fallback(wrong_method)
        .with_state(face)
}

async fn create(State(face): State<ClusterFace>, Asker(who): Asker, call: Call) -> Answer {
    let rpc = rpc("CreateCluster")?;
    rpc.tell(&face.create(&who, rpc.read(&call)?).await?)
}

async fn show(State(face): State<ClusterFace>, Asker(who): Asker, call: Call) -> Answer {
    let rpc = rpc("GetCluster")?;
    rpc.tell(&face.get(&who, rpc.read(&call)?).await?)
}

async fn delete(State(face): State<ClusterFace>, Asker(who): Asker, call: Call) -> Answer {
    let rpc = rpc("DeleteCluster")?;
    rpc.tell(&face.delete(&who, rpc.read(&call)?).await?)
}

async fn list(State(face): State<ClusterFace>, call: Call) -> Answer {
    let rpc = rpc("GetClusterList")?;
    rpc.read::<strata_api::kaas::GetClusterListMsg>(&call)?;
    rpc.tell(&face.list()?)
}

async fn nodes(State(face): State<ClusterFace>, call: Call) -> Answer {
    let rpc = rpc("GetClusterNodesStatus")?;
    rpc.tell(&face.nodes(&rpc.read(&call)?)?)
}

async fn version(State(face): State<ClusterFace>, call: Call) -> Answer {
    let rpc = rpc("GetVersionInformation")?;
    rpc.read::<strata_api::kaas::GetVersionMsg>(&call)?;
    rpc.tell(&face.version())
}

async fn add(State(face): State<ClusterFace>, Asker(who): Asker, call: Call) -> Answer {
    let rpc = rpc("AddNodePool")?;
    rpc.tell(&face.add_pools(&who, rpc.read(&call)?).await?)
}

async fn remove(State(face): State<ClusterFace>, Asker(who): Asker, call: Call) -> Answer {
    let rpc = rpc("DeleteNodePool")?;
    rpc.tell(&face.delete_pools(&who, rpc.read(&call)?).await?)
}

async fn scale(State(face): State<ClusterFace>, Asker(who): Asker, call: Call) -> Answer {
    let rpc = rpc("ScaleNodePool")?;
    rpc.tell(&face.scale_pools(&who, rpc.read(&call)?).await?)
}

async fn targets(State(face): State<ClusterFace>, call: Call) -> Answer {
    let rpc = rpc("GetUpgradeClusterInformation")?;
    rpc.tell(&face.upgrade_targets(&rpc.read(&call)?)?)
}

async fn upgrade(State(face): State<ClusterFace>, Asker(who): Asker, call: Call) -> Answer {
    let rpc = rpc("UpgradeCluster")?;
    rpc.tell(&face.upgrade(&who, rpc.read(&call)?).await?)
}

/// What came: parameters, a body.
struct Call {
    parameters: Parameters,
    body: Bytes,
}

impl<S: Send + Sync> FromRequest<S> for Call {
    type Rejection = Refusal;

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
    /// What is asked for.
    fn read<T: Message + Default>(&self, call: &Call) -> Answer<T> {
        let kind = self.0.input();
        let message = match call.body.is_empty() {
            false => {
                call.parameters.only(&[])?;
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

    /// The answer.
    fn tell(&self, reply: &impl Message) -> Answer {
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

/// The fields of a message that parameters tell. What has parts of its own
/// cannot be told so.
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
