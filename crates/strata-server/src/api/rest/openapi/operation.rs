//! The OpenAPI operation of a route: parameters, body, responses, errors.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use strata_api::rest::MERGE_PATCH;
use utoipa::openapi::RefOr;
use utoipa::{ToSchema, openapi};

use super::super::route::{Response, Route};
use super::parameters::{parameter, path_parameter};

/// The schema of a type that is sent.
#[derive(Clone, Copy)]
pub(in super::super) enum Schema {
    Type {
        name: fn() -> Cow<'static, str>,
        /// Adds it, and those that it refers to.
        add: fn(&mut Vec<(String, RefOr<openapi::Schema>)>),
    },
    /// One that `schemas.rs` makes of others.
    Named(&'static str),
}

impl Schema {
    pub(in super::super) fn of<T: ToSchema>() -> Self {
        let add = |all: &mut Vec<_>| {
            all.push((T::name().into_owned(), T::schema()));
            T::schemas(all);
        };
        Self::Type { name: T::name, add }
    }

    pub(in super::super) fn named(name: &'static str) -> Self {
        Self::Named(name)
    }

    pub(super) fn name(self) -> Cow<'static, str> {
        match self {
            Self::Type { name, .. } => name(),
            Self::Named(name) => name.into(),
        }
    }

    fn reference(self) -> Value {
        reference(&self.name())
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The headers of a response.
#[derive(Clone, Copy)]
pub(in super::super) enum Headers {
    None,
    Etag,
    EtagAndLocation,
    OperationLocation,
    /// The length of a list.
    Total,
}

impl Headers {
    fn build(self) -> Value {
        let header = |kind: &str, description: &str| {
            json!({
                "description": description,
                "schema": { "type": kind },
            })
        };
        let etag = || {
            let description = "Version of the resource, for `If-Match` and `If-None-Match`.";
            header("string", description)
        };
        match self {
            Self::None => json!({}),
            Self::Etag => json!({ "ETag": etag() }),
            Self::EtagAndLocation => {
                json!({ "ETag": etag(), "Location": header("string", "Path of the resource.") })
            }
            Self::OperationLocation => {
                json!({ "Location": header("string", "Path of the operation.") })
            }
            Self::Total => json!({ "X-Total-Count": {
                "description": "Total number of items. A page is at most about 4 MiB and then \
                    has fewer items than the limit: continue at the offset plus the number of \
                    items received, until this number is reached.",
                "schema": { "type": "integer", "minimum": 0 },
            }}),
        }
    }
}

/// The body of a response.
#[derive(Clone, Copy)]
pub(in super::super) enum Content {
    None,
    Text,
    Json(Schema),
    /// Server-sent events with `watch`.
    JsonOrEvents(Schema),
    Either(Schema, Schema),
    List(Schema),
    ListOrEvents(Schema),
}

impl Content {
    /// The schemas that it refers to.
    pub(super) fn schemas(self) -> impl Iterator<Item = Schema> {
        let (one, other) = match self {
            Self::None | Self::Text => (None, None),
            Self::Json(one)
            | Self::JsonOrEvents(one)
            | Self::List(one)
            | Self::ListOrEvents(one) => (Some(one), None),
            Self::Either(one, other) => (Some(one), Some(other)),
        };
        one.into_iter().chain(other)
    }

    fn build(self) -> Value {
        let list = |of: Schema| json!({ "type": "array", "items": of.reference() });
        let schema = match self {
            Self::None => return json!({}),
            Self::Text => return json!({ "text/plain": {} }),
            Self::Json(one) | Self::JsonOrEvents(one) => one.reference(),
            Self::Either(one, other) => json!({ "anyOf": [one.reference(), other.reference()] }),
            Self::List(of) | Self::ListOrEvents(of) => list(of),
        };
        let mut content = json!({ "application/json": { "schema": schema } });
        if matches!(self, Self::JsonOrEvents(_) | Self::ListOrEvents(_)) {
            content["text/event-stream"] = json!({});
        }
        content
    }
}

impl Response {
    fn build(&self) -> Value {
        let mut response = json!({ "description": self.description });
        for (name, part) in [
            ("headers", self.headers.build()),
            ("content", self.content.build()),
        ] {
            if part.as_object().is_some_and(|part| !part.is_empty()) {
                response[name] = part;
            }
        }
        response
    }
}

fn error_description(status: u16) -> &'static str {
    match status {
        400 => "Bad request: the request cannot be parsed.",
        401 => "Unauthorized: no valid credentials presented.",
        403 => "Forbidden: the role of the caller does not allow this.",
        404 => "Not found.",
        408 => "Request timeout: the body was not received in time.",
        409 => {
            "Conflict: it already exists with a different specification, or is in the wrong state."
        }
        412 => "Precondition failed: the version does not match `If-Match`.",
        413 => "Payload too large.",
        415 => "Unsupported media type.",
        422 => "Unprocessable content: a value is not valid; `field` names it.",
        429 => "Quota exceeded, or too many requests.",
        _ => "Service unavailable: retry later.",
    }
}

/// The operation of a route of the group `tag`.
pub(super) fn build(tag: &str, route: &Route) -> Value {
    let mut operation = json!({
        "operationId": route.name,
        "tags": [tag],
        "summary": route.summary,
        "description": route.description,
        "responses": responses(route),
    });
    let parameters = parameters(route);
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if let Some(body) = route.body {
        let content = json!({ "schema": body.reference() });
        let mut kinds = json!({ "application/json": content });
        if route.rule.method == "PATCH" {
            kinds[MERGE_PATCH] = content;
        }
        operation["requestBody"] = json!({ "required": true, "content": kinds });
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let path = route.path_parameters.iter();
    let path = path.map(|(name, description)| path_parameter(name, description));
    let keyed = route.rule.method != "GET" && !route.repeats;
    let key = keyed.then_some("Idempotency-Key");
    let others = route.parameters.iter().copied().chain(key);
    path.chain(others.map(parameter)).collect()
}

fn responses(route: &Route) -> Map<String, Value> {
    let mut failures = vec![400, 401, 403, 422, 503];
    if !route.path_parameters.is_empty() {
        failures.push(404);
    }
    // The body of a request that needs none is read, too.
    if route.rule.method != "GET" {
        failures.extend([408, 413]);
    }
    if route.body.is_some() {
        failures.push(415);
    }
    let failures = failures.iter().chain(&route.failures).map(|status| {
        let content = json!({ "application/problem+json": { "schema": reference("Problem") } });
        let response = json!({ "description": error_description(*status), "content": content });
        (status.to_string(), response)
    });
    let responses = route.responses.iter();
    let responses = responses.map(|one| (one.status.to_string(), one.build()));
    failures.chain(responses).collect()
}
