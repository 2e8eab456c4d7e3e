//! How records are rendered. Lists are long and read often, so a record is
//! written straight from where it is kept: what is here borrows. A test holds
//! the text against the types that clients read.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use axum::response::Response;
use jiff::Timestamp;
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use strata_transport::ShowsValues;
use strata_types::Role;
use strata_types::instance::{
    Claim, DesiredState, HealthSpec, InstanceId, InstanceKind, InstanceSpec, InstanceState,
    PlacementRules, SecuritySpec,
};
use strata_types::pod::RestartPolicy;

use crate::core::{self, Core, Principal, Versioned};

/// A timestamp, from Unix milliseconds to RFC 3339.
#[derive(Clone, Copy)]
pub(super) struct JsonTimestamp(pub(super) i64);

impl Serialize for JsonTimestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let timestamp = Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::UNIX_EPOCH);
        serializer.collect_str(&timestamp)
    }
}

/// Whether a caller may see what is secret: viewers may not.
pub(super) fn sees_secrets(principal: &Principal) -> bool {
    principal.role != Role::Viewer
}

/// An answer with what is secret, if its caller sees that: the audit log has a
/// line of it. Nodes are given the values of what they run anyway.
pub(super) fn with_values(principal: &Principal, mut response: Response) -> Response {
    if sees_secrets(principal) && principal.role != Role::Node {
        response.extensions_mut().insert(ShowsValues);
    }
    response
}

/// Variables, with their values or without.
struct Variables<'a>(&'a [String], bool);

impl Serialize for Variables<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.1 {
            return self.0.serialize(serializer);
        }
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for text in self.0 {
            let (key, _) = text.split_once('=').unwrap_or((text, ""));
            list.serialize_element(&format_args!("{key}=***"))?;
        }
        list.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InstanceView<'a> {
    id: &'a str,
    name: &'a str,
    #[serde(rename = "type")]
    kind: InstanceKind,
    status: InstanceState,
    uri: &'a str,
    environment: Variables<'a>,
    resources: Claim,
    #[serde(skip_serializing_if = "Option::is_none")]
    pids: Option<u32>,
    ports: &'a [String],
    project: &'a str,
    description: &'a str,
    #[serde(rename = "wanted")]
    desired_state: DesiredState,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<Ipv4Addr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload_id: Option<&'a str>,
    restarts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    healthy: Option<bool>,
    generation: u64,
    owner: &'a str,
    created_at: JsonTimestamp,
    changed_at: JsonTimestamp,
    #[serde(skip_serializing_if = "none")]
    labels: &'a BTreeMap<String, String>,
    placement: &'a PlacementRules,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    command: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    arguments: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    working_directory: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    volumes: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    secrets: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    init: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<&'a HealthSpec>,
    restart: RestartPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_grace_seconds: Option<u32>,
    #[serde(skip_serializing_if = "usual")]
    security: &'a SecuritySpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_data: Option<&'a str>,
}

fn none(labels: &&BTreeMap<String, String>) -> bool {
    labels.is_empty()
}

fn usual(security: &&SecuritySpec) -> bool {
    **security == SecuritySpec::default()
}

/// An instance, as far as a caller may know of it.
pub(super) fn instance<'a>(
    core: &Core,
    principal: &Principal,
    one: &'a core::Instance,
) -> impl Serialize + use<'a> {
    let secrets = sees_secrets(principal);
    let spec: &InstanceSpec = &one.spec;
    InstanceView {
        id: one.id.as_str(),
        name: one.name.as_str(),
        kind: spec.kind,
        status: one.state,
        uri: &spec.uri,
        environment: Variables(&spec.environment, secrets),
        resources: Claim {
            max: spec.resources,
            usage: core.live().usage(&one.id),
        },
        pids: spec.pids,
        ports: &spec.ports,
        project: one.project.as_str(),
        description: one.description_for(principal),
        desired_state: one.desired_state,
        node: one.node.as_deref(),
        ip: one.address,
        workload_id: one.workload.as_ref().map(InstanceId::as_str),
        restarts: one.restarts,
        exit_code: one.exit_code,
        healthy: one.healthy,
        generation: one.generation,
        owner: &one.owner,
        created_at: JsonTimestamp(one.created_at_ms),
        changed_at: JsonTimestamp(one.changed_at_ms),
        labels: &spec.labels,
        placement: &spec.placement,
        command: &spec.command,
        arguments: &spec.arguments,
        user: spec.user.as_deref(),
        working_directory: spec.working_directory.as_deref(),
        volumes: &spec.volumes,
        secrets: &spec.secrets,
        init: spec.init,
        health: spec.health.as_ref(),
        restart: spec.restart,
        stop_grace_seconds: spec.stop_grace_seconds,
        security: &spec.security,
        user_data: data(spec, secrets),
    }
}

fn data(spec: &InstanceSpec, secrets: bool) -> Option<&str> {
    let data = spec.user_data.as_deref();
    data.map(|data| if secrets { data } else { "***" })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadView<'a> {
    id: &'a str,
    name: &'a str,
    project: &'a str,
    instances: usize,
    owner: &'a str,
    created_at: JsonTimestamp,
    changed_at: JsonTimestamp,
    #[serde(flatten)]
    spec: std::borrow::Cow<'a, InstanceSpec>,
}

/// A workload, and whether its secrets are included.
pub(super) fn workload<'a>(
    core: &Core,
    secrets: bool,
    one: &'a Versioned<core::Workload>,
) -> impl Serialize + 'a {
    use std::borrow::Cow;
    WorkloadView {
        id: one.id.as_str(),
        name: one.name.as_str(),
        project: one.project.as_str(),
        instances: core.workloads().instances_of(&one.id),
        owner: &one.owner,
        created_at: JsonTimestamp(one.created_at_ms),
        changed_at: JsonTimestamp(one.changed_at_ms),
        spec: match secrets {
            true => Cow::Borrowed(&one.spec),
            false => Cow::Owned(without_secrets(&one.spec)),
        },
    }
}

fn without_secrets(spec: &InstanceSpec) -> InstanceSpec {
    let mut spec = spec.clone();
    for text in &mut spec.environment {
        let end = text.find('=').unwrap_or(text.len());
        text.truncate(end);
        text.push_str("=***");
    }
    spec.user_data = data(&spec, false).map(str::to_owned);
    spec
}

/// The text of a timestamp.
pub(super) fn timestamp(ms: i64) -> String {
    let timestamp = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    timestamp.to_string()
}
