//! The REST API of the fake: canned objects behind the real wire. It takes
//! what it is asked for at its word; what the real routes make of it is for
//! the tests against those.

use std::convert::Infallible;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Of;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::sse::{Event as Sse, Sse as Stream};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use strata_api::rest::{Instance, InstanceState, Problem};
use strata_api::strata::v1::instances_server::Instances;
use strata_api::strata::v1::{ExecInput, ExecOutput, LogLine, PodLogsRequest};
use strata_types::Error;
use tokio_stream::StreamExt as _;
use tonic::service::Routes;
use tonic::{Request, Streaming};

use super::fake::{Shared, State};
use super::objects::{self, Objects};
use super::services::{Answer, Answers, stream};
use super::{backends, clusters, data, exec, operations};

pub fn routes(state: Shared) -> Routes {
    Routes::from(Router::new().fallback(serve).with_state(state))
}

pub fn problem(error: &Error) -> Response {
    let status = match error.kind().code() {
        "not_found" => StatusCode::NOT_FOUND,
        "permission_denied" => StatusCode::FORBIDDEN,
        "exhausted" => StatusCode::TOO_MANY_REQUESTS,
        "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::CONFLICT,
    };
    let problem = Problem {
        kind: format!("urn:strata:error:{}", error.kind().code()),
        title: status.to_string(),
        status: status.as_u16(),
        detail: error.message().to_owned(),
        code: error.kind().code().to_owned(),
        field: error.field().map(str::to_owned),
        hint: error.hint().map(str::to_owned),
    };
    let media = [(header::CONTENT_TYPE, "application/problem+json")];
    (status, media, serde_json::to_vec(&problem).unwrap()).into_response()
}

pub fn told(object: &impl Serialize) -> Response {
    let media = [
        (header::CONTENT_TYPE, "application/json"),
        (header::ETAG, "\"7\""),
    ];
    (media, serde_json::to_vec(object).unwrap()).into_response()
}

async fn serve(Of(shared): Of<Shared>, method: Method, uri: Uri, body: Bytes) -> Response {
    let mut state = shared.lock();
    if let Some(error) = &state.refuse {
        return problem(error);
    }
    let path = uri.path().trim_matches('/').replace("%2F", "/");
    let query: Vec<(&str, &str)> = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .collect();
    if method != Method::GET {
        let body = String::from_utf8_lossy(&body);
        let request = format!("{method} {uri} {body}");
        state.objects.requests.push(request.trim().to_owned());
    }
    let (route, name) = path.split_once('/').unwrap_or((&path, ""));
    let objects = &mut state.objects;
    if let Some(response) = backends::serve(objects, (&method, &path, &query, &body)) {
        return response;
    }
    let parts: Vec<&str> = path.split('/').collect();
    if let Some(response) = clusters::serve(objects, (&method, &parts, &query, &body)) {
        return response;
    }
    match route {
        "instance" => {
            if let Some(name) = name.strip_suffix("/placement") {
                return match find(&objects.instances, name, &query) {
                    Ok(_) => told(&objects.placement.clone()),
                    Err(error) => problem(&error),
                };
            }
            instance(objects, &method, name, &query, &body)
        }
        "workload" => answer(&mut objects.workloads, &method, name, &query, &body),
        "node" if method == Method::POST => match name.strip_suffix("/drain") {
            Some(name) => operations::begin(objects, name, &query),
            None => problem(&Error::not_found("there is nothing here")),
        },
        "operation" => operations::serve(objects, &method, name, &query),
        "event" if is(&query, "watch").is_some() => match objects.event_streams.is_empty() {
            true => problem(&Error::unavailable("the server is ending")),
            false => {
                let first = objects.event_streams.remove(0);
                events(first.into_iter().map(put).collect())
            }
        },
        "node" => answer(&mut objects.nodes, &method, name, &query, &body),
        "project" => answer(&mut objects.projects, &method, name, &query, &body),
        "event" => answer(&mut objects.events, &method, name, &query, &body),
        _ => problem(&Error::not_found("there is nothing here")),
    }
}

pub type Query<'a> = [(&'a str, &'a str)];

pub fn is(query: &Query<'_>, key: &str) -> Option<String> {
    let found = query.iter().find(|(k, _)| *k == key);
    found.map(|(_, value)| (*value).to_owned())
}

/// An object by its id, its name, or `PROJECT/NAME`.
pub fn find<T: Serialize>(all: &[T], name: &str, query: &Query<'_>) -> Result<usize, Error> {
    let (project, bare) = match name.split_once('/') {
        Some((project, bare)) => (Some(project.to_owned()), bare),
        None => (is(query, "project"), name),
    };
    let project = project.unwrap_or_else(|| "default".to_owned());
    let found = all.iter().position(|one| {
        let one = serde_json::to_value(one).unwrap();
        let in_project = one["project"].as_str().is_none_or(|own| own == project);
        one["id"] == *name || (one["name"] == *bare && in_project)
    });
    found.ok_or_else(|| {
        Error::not_found(format!("there is nothing called {name}"))
            .with_hint("see those there are with list")
    })
}

/// RFC 7396, for flat objects and those one below.
fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (object.get_mut(key), value) {
            (_, Value::Null) => drop(object.remove(key)),
            (Some(Value::Object(inner)), Value::Object(patch)) => merge(inner, patch),
            _ => drop(object.insert(key.clone(), value.clone())),
        }
    }
}

pub fn answer<T: Serialize + DeserializeOwned + Clone>(
    all: &mut Vec<T>,
    method: &Method,
    name: &str,
    query: &Query<'_>,
    body: &[u8],
) -> Response {
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    if name.is_empty() {
        return match *method {
            Method::PUT => {
                // The defaults of what was not said come from one that is there.
                let mut made = serde_json::to_value(&all[0]).unwrap();
                merge(made.as_object_mut().unwrap(), parsed.as_object().unwrap());
                told(&made)
            }
            _ if is(query, "watch").is_some() => events(all.clone().into_iter().map(put).collect()),
            _ => told(&listed(all, query)),
        };
    }
    let found = match find(all, name, query) {
        Ok(found) => found,
        Err(error) => return problem(&error),
    };
    match *method {
        Method::PATCH => {
            let mut object = serde_json::to_value(&all[found]).unwrap();
            merge(object.as_object_mut().unwrap(), parsed.as_object().unwrap());
            if let Ok(changed) = serde_json::from_value(object) {
                all[found] = changed;
            }
            told(&all[found])
        }
        Method::DELETE => {
            all.remove(found);
            StatusCode::ACCEPTED.into_response()
        }
        _ => told(&all[found]),
    }
}

fn listed<T: Serialize>(all: &[T], query: &Query<'_>) -> Vec<Value> {
    let all = all.iter().map(|one| serde_json::to_value(one).unwrap());
    let wanted = |one: &Value| {
        let filters = [
            ("project", "project"),
            ("state", "status"),
            ("node", "node"),
            ("kind", "kind"),
        ];
        filters.into_iter().all(|(key, field)| {
            is(query, key).is_none_or(|wanted| one[field].is_null() || one[field] == *wanted)
        })
    };
    all.filter(wanted).collect()
}

pub fn put<T: Serialize>(object: T) -> Sse {
    let text = serde_json::to_string(&object).unwrap();
    Sse::default().event("put").data(text)
}

/// All there are, that this is all, and the end.
pub fn events(mut events: Vec<Sse>) -> Response {
    events.push(Sse::default().event("synced").data("{}"));
    Stream::new(tokio_stream::iter(events).map(Ok::<_, Infallible>)).into_response()
}

fn instance(
    objects: &mut Objects,
    method: &Method,
    name: &str,
    query: &Query<'_>,
    body: &[u8],
) -> Response {
    let watched = *method == Method::GET && is(query, "watch").is_some();
    if watched {
        match objects.watches.checked_sub(1) {
            None => return problem(&Error::unavailable("the server is ending")),
            Some(left) => objects.watches = left,
        }
    }
    if watched && !name.is_empty() {
        return match find(&objects.instances, name, query) {
            Ok(found) if objects.unending => {
                let steps = tokio_stream::iter(journey(objects, found)).map(Ok::<_, Infallible>);
                Stream::new(steps.chain(tokio_stream::pending())).into_response()
            }
            Ok(found) => events(journey(objects, found)),
            Err(error) => problem(&error),
        };
    }
    if *method == Method::PUT {
        let parsed: Value = serde_json::from_slice(body).unwrap();
        let text = |key: &str| parsed[key].as_str().map(str::to_owned);
        let name = text("name").unwrap_or_else(|| "i-0192f0c3".into());
        let project = text("project").unwrap_or_else(|| "default".into());
        let new = objects::instance(&name, &project, InstanceState::Scheduling);
        objects.instances.push(new.clone());
        return told(&new);
    }
    if *method == Method::DELETE {
        // It goes while it is followed.
        return match find(&objects.instances, name, query) {
            Ok(_) => StatusCode::ACCEPTED.into_response(),
            Err(error) => problem(&error),
        };
    }
    answer(&mut objects.instances, method, name, query, body)
}

fn journey(objects: &Objects, found: usize) -> Vec<Sse> {
    let one: &Instance = &objects.instances[found];
    let steps = objects.journey.iter().map(|step| match step {
        Some((status, description)) => put(Instance {
            status: *status,
            description: (*description).to_owned(),
            node: Some("rack1-7".into()),
            ip: Some("10.42.1.9".into()),
            ..one.clone()
        }),
        None => {
            let text = json!(one).to_string();
            Sse::default().event("delete").data(text)
        }
    });
    steps.collect()
}

#[tonic::async_trait]
impl Instances for Shared {
    type ExecStream = Answers<ExecOutput>;
    type LogsStream = Answers<LogLine>;

    async fn exec(&self, request: Request<Streaming<ExecInput>>) -> Answer<Self::ExecStream> {
        let outputs = exec::exec(self.clone(), request.into_inner()).await?;
        Ok(tonic::Response::new(outputs))
    }

    async fn logs(&self, request: Request<PodLogsRequest>) -> Answer<Self::LogsStream> {
        let mut state: std::sync::MutexGuard<'_, State> = self.open()?;
        let request = request.into_inner();
        state.calls.push(format!("logs {}", request.name));
        let lines = data::logs().into_iter().filter(|(name, _)| *name == "main");
        let lines = lines.map(|(_, line)| line).collect();
        Ok(tonic::Response::new(stream(lines, false)))
    }
}
