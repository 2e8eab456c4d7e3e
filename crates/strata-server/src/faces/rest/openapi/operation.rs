//! One operation, put together: what it takes, what it answers, how it fails.

use serde_json::{Map, Value, json};
use strata_api::rest::MERGE_PATCH;

use super::parameters::{parameter, part};

/// An operation.
pub(super) struct Operation {
    value: Map<String, Value>,
    parameters: Vec<Value>,
    responses: Map<String, Value>,
}

fn schema(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn words(status: u16) -> &'static str {
    match status {
        400 => "It cannot be read.",
        401 => "It is not known who asks.",
        403 => "Who asks may not.",
        404 => "There is no such thing.",
        408 => "The body did not come in time.",
        409 => "It is there already and is another; or it is in the wrong state.",
        412 => "It is another version by now.",
        413 => "The body is too large.",
        415 => "The body is of another kind.",
        422 => "It makes no sense; `field` says where.",
        429 => "What there may be is used up.",
        _ => "Try again later.",
    }
}

impl Operation {
    /// An operation of things with this tag. All of them can fail in a few
    /// ways.
    pub(super) fn new(tag: &str, name: &str, says: &str) -> Self {
        let value = json!({ "operationId": name, "summary": says, "tags": [tag] });
        let mut operation = Self {
            value: value.as_object().cloned().unwrap_or_default(),
            parameters: Vec::new(),
            responses: Map::new(),
        };
        operation.fail(&[400, 401, 403, 422, 503]);
        operation
    }

    /// Takes these parameters and headers.
    pub(super) fn takes(mut self, names: &[&str]) -> Self {
        self.parameters
            .extend(names.iter().map(|name| parameter(name)));
        self
    }

    /// Is about one thing.
    pub(super) fn one(self, says: &str) -> Self {
        self.part("id", says).fails(&[404])
    }

    /// Has this in its path.
    pub(super) fn part(mut self, name: &str, says: &str) -> Self {
        self.parameters.insert(0, part(name, says));
        self
    }

    /// Reads a body.
    pub(super) fn body(mut self, name: &str) -> Self {
        let content = match name.ends_with("Patch") {
            true => json!({
                MERGE_PATCH: { "schema": schema(name) },
                "application/json": { "schema": schema(name) },
            }),
            false => json!({ "application/json": { "schema": schema(name) } }),
        };
        let body = json!({ "required": true, "content": content });
        self.value.insert("requestBody".into(), body);
        self.fails(&[408, 413, 415])
    }

    /// Reads no body; one that comes is still taken in first.
    pub(super) fn no_body(self) -> Self {
        self.fails(&[408, 413])
    }

    /// Answers with this.
    fn answers(mut self, status: u16, says: &str, headers: Value, content: Value) -> Self {
        let mut response = json!({ "description": says });
        if let Value::Object(response) = &mut response {
            for (name, part) in [("headers", headers), ("content", content)] {
                if part.as_object().is_some_and(|part| !part.is_empty()) {
                    response.insert(name.into(), part);
                }
            }
        }
        self.responses.insert(status.to_string(), response);
        self
    }

    /// Answers with a list, or with events when it is watched.
    pub(super) fn lists(self, name: &str) -> Self {
        let total = json!({ "X-Total-Count": {
            "description": "How many there are in all.",
            "schema": { "type": "integer", "minimum": 0 },
        }});
        let list = json!({ "type": "array", "items": schema(name) });
        let content = json!({
            "application/json": { "schema": list },
            "text/event-stream": {},
        });
        self.answers(200, "In the order of their ids.", total, content)
    }

    /// Answers with a list that cannot be watched.
    pub(super) fn enumerates(self, name: &str) -> Self {
        let total = json!({ "X-Total-Count": {
            "description": "How many there are in all.",
            "schema": { "type": "integer", "minimum": 0 },
        }});
        let list = json!({ "type": "array", "items": schema(name) });
        let content = json!({ "application/json": { "schema": list } });
        self.answers(200, "In a fixed order.", total, content)
    }

    /// Answers with one thing, or with events when it is watched.
    pub(super) fn shows(self, name: &str) -> Self {
        let content = json!({
            "application/json": { "schema": schema(name) },
            "text/event-stream": {},
        });
        self.answers(200, "As it is.", etag(), content).answers(
            304,
            "The caller has it.",
            etag(),
            json!({}),
        )
    }

    /// Answers with something that has no version.
    pub(super) fn tells(self, name: &str) -> Self {
        let content = json!({ "application/json": { "schema": schema(name) } });
        self.answers(200, "As it is.", json!({}), content)
    }

    /// Answers with something that has no version, or with events when it is
    /// watched.
    pub(super) fn tells_on(self, name: &str) -> Self {
        let content = json!({
            "application/json": { "schema": schema(name) },
            "text/event-stream": {},
        });
        self.answers(200, "As it is.", json!({}), content)
    }

    /// Answers with one of two things, neither of which has a version.
    pub(super) fn tells_either(self, one: &str, other: &str) -> Self {
        let either = json!({ "anyOf": [schema(one), schema(other)] });
        let content = json!({ "application/json": { "schema": either } });
        self.answers(200, "As it is.", json!({}), content)
    }

    /// Has nothing to say when it is done.
    pub(super) fn forgets(self) -> Self {
        self.answers(204, "It is so.", json!({}), json!({}))
    }

    /// Only tells what would be done, when that is asked for.
    pub(super) fn plans(self, name: &str) -> Self {
        let content = json!({ "application/json": { "schema": schema(name) } });
        self.answers(200, "What would be done.", json!({}), content)
    }

    /// Answers with something new that has no version.
    pub(super) fn adds(self, name: &str) -> Self {
        let content = json!({ "application/json": { "schema": schema(name) } });
        self.answers(201, "It is new.", json!({}), content)
    }

    /// Answers with something that was there, just so.
    pub(super) fn finds(self, name: &str) -> Self {
        let content = json!({ "application/json": { "schema": schema(name) } });
        self.answers(200, "It was there, just so.", json!({}), content)
    }

    /// Needs what this server may not have, and room in it.
    pub(super) fn if_there_is_any(self) -> Self {
        self.fails(&[404, 409, 429])
    }

    /// Answers with plain text.
    pub(super) fn writes(self) -> Self {
        let content = json!({ "text/plain": {} });
        self.answers(200, "Line by line.", json!({}), content)
    }

    /// Does not go while it is on no node, or not running.
    pub(super) fn unless_it_rests(self) -> Self {
        self.fails(&[409])
    }

    /// Begins something long.
    pub(super) fn begins(self, name: &str) -> Self {
        let content = json!({ "application/json": { "schema": schema(name) } });
        let location = json!({ "Location": {
            "description": "Where it is told how it goes.",
            "schema": { "type": "string" },
        }});
        self.answers(202, "It is under way.", location, content)
            .fails(&[409])
    }

    /// Answers with what was changed.
    pub(super) fn changes(self, name: &str) -> Self {
        let content = json!({ "application/json": { "schema": schema(name) } });
        self.answers(200, "As it is now.", etag(), content)
            .fails(&[409, 412, 429])
    }

    /// Answers with what was made.
    pub(super) fn makes(self, name: &str) -> Self {
        let content = json!({ "application/json": { "schema": schema(name) } });
        let mut headers = etag();
        if let Value::Object(headers) = &mut headers {
            let location = json!({ "description": "Where it is.", "schema": { "type": "string" } });
            headers.insert("Location".into(), location);
        }
        self.answers(201, "It is new.", headers.clone(), content.clone())
            .answers(200, "It was there, just so.", headers, content)
            .fails(&[404, 409, 429])
    }

    /// Makes something go.
    pub(super) fn removes(self) -> Self {
        let says = "It goes; once it is gone, it is not found any more.";
        self.answers(202, says, json!({}), json!({}))
            .fails(&[408, 409, 412, 413])
    }

    /// Fails in these ways, too.
    fn fails(mut self, statuses: &[u16]) -> Self {
        self.fail(statuses);
        self
    }

    fn fail(&mut self, statuses: &[u16]) {
        for status in statuses {
            let content = json!({ "application/problem+json": { "schema": schema("Problem") } });
            let response = json!({ "description": words(*status), "content": content });
            self.responses.insert(status.to_string(), response);
        }
    }

    /// The operation.
    pub(super) fn build(mut self) -> Value {
        if !self.parameters.is_empty() {
            self.value
                .insert("parameters".into(), Value::Array(self.parameters));
        }
        self.value
            .insert("responses".into(), Value::Object(self.responses));
        Value::Object(self.value)
    }
}

fn etag() -> Value {
    json!({ "ETag": {
        "description": "Its version, for If-Match and If-None-Match.",
        "schema": { "type": "string" },
    }})
}
