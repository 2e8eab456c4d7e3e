//! The declaration of a route: method and path, who may call it, the handler,
//! and what the document says of it. The router, the rows of the policy, the
//! OpenAPI document and the roles that may cancel an operation all follow from
//! it; it stands in the file of its noun. See decision 51.
//!
//! What follows from the rest is not declared: a list has pages, what has an
//! `ETag` takes its conditions, a request that changes something takes an
//! `Idempotency-Key`, and each path with `{id}` can lead to nothing.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use serde_json::Value;
use strata_identity::policy::{Access, HttpRoute};
use utoipa::ToSchema;

use super::RestState;
use super::openapi::{Content, Headers, Schema};

/// The routes of one noun.
pub(super) struct Noun {
    /// How the document groups them.
    pub(super) tag: &'static str,
    pub(super) description: &'static str,
    /// What `{id}` stands for.
    id: &'static str,
    in_projects: bool,
    pub(super) routes: Vec<Route>,
}

impl Noun {
    pub(super) fn new(tag: &'static str, description: &'static str) -> Self {
        Self {
            tag,
            description,
            id: "",
            in_projects: false,
            routes: Vec::new(),
        }
    }

    /// What `{id}` in its paths stands for, unless a route says it.
    pub(super) fn id(mut self, description: &'static str) -> Self {
        self.id = description;
        self
    }

    /// All of it is in projects: see [`HttpRoute::in_projects`].
    pub(super) fn in_projects(mut self) -> Self {
        self.in_projects = true;
        self
    }

    pub(super) fn routes(mut self, routes: impl IntoIterator<Item = Route>) -> Self {
        for mut route in routes {
            if route.rule.path.contains("{id}") && !route.names("id") {
                route.path_parameters.insert(0, ("id", self.id));
            }
            route.rule.in_projects |= self.in_projects;
            self.routes.push(route);
        }
        self
    }
}

/// One route. `S` is what its handler works on.
pub(crate) struct Route<S = RestState> {
    pub(crate) rule: HttpRoute,
    handler: MethodRouter<S>,
    /// `operationId`; empty where another document describes it.
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    pub(super) path_parameters: Vec<(&'static str, &'static str)>,
    /// Query parameters and headers, by their names in `parameters.rs`.
    pub(super) parameters: Vec<&'static str>,
    pub(super) body: Option<Schema>,
    pub(super) example: Option<Value>,
    pub(super) responses: Vec<Response>,
    /// The errors that not every route can have, by their status.
    pub(super) failures: Vec<u16>,
    /// Takes no `Idempotency-Key`: done as often as it is requested.
    pub(super) repeats: bool,
    /// The kind of operation that it begins.
    starts: Option<&'static str>,
}

/// What is answered when it goes well.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) description: &'static str,
    pub(super) headers: Headers,
    pub(super) content: Content,
}

macro_rules! methods {
    ($($function:ident $filter:ident,)*) => {$(
        pub(crate) fn $function<H, T, S>(
            path: &'static str,
            access: Access,
            handler: H,
        ) -> Route<S>
        where
            H: Handler<T, S>,
            T: 'static,
            S: Clone + Send + Sync + 'static,
        {
            let rule = HttpRoute::new(stringify!($filter), path, access);
            Route::new(rule, on(MethodFilter::$filter, handler))
        }
    )*};
}
methods! { get GET, put PUT, post POST, patch PATCH, delete DELETE, }

impl<S> Route<S> {
    fn new(rule: HttpRoute, handler: MethodRouter<S>) -> Self {
        Self {
            rule,
            handler,
            name: "",
            summary: "",
            description: "",
            path_parameters: Vec::new(),
            parameters: Vec::new(),
            body: None,
            example: None,
            responses: Vec::new(),
            failures: Vec::new(),
            repeats: false,
            starts: None,
        }
    }

    /// Callers who are limited to some projects may call it.
    pub(crate) fn in_projects(mut self) -> Self {
        self.rule.in_projects = true;
        self
    }

    /// Its `operationId` and summary.
    pub(super) fn named(mut self, name: &'static str, summary: &'static str) -> Self {
        (self.name, self.summary) = (name, summary);
        self
    }

    pub(super) fn about(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// What `{id}` in the path stands for.
    pub(super) fn id(self, description: &'static str) -> Self {
        self.part("id", description)
    }

    /// What another `{…}` in the path stands for.
    pub(super) fn part(mut self, name: &'static str, description: &'static str) -> Self {
        self.path_parameters.push((name, description));
        self
    }

    fn names(&self, part: &str) -> bool {
        self.path_parameters.iter().any(|(name, _)| *name == part)
    }

    /// Query parameters and headers beside those that follow from the rest.
    pub(super) fn parameters(mut self, names: &[&'static str]) -> Self {
        self.parameters.extend(names);
        self
    }

    /// Requires a body in JSON.
    pub(super) fn body<T: ToSchema>(mut self) -> Self {
        self.body = Some(Schema::of::<T>());
        self
    }

    /// Requires a body in JSON, of a schema that is made in `schemas.rs`.
    pub(super) fn body_as(mut self, schema: &'static str) -> Self {
        self.body = Some(Schema::named(schema));
        self
    }

    /// An example of the body.
    pub(super) fn example(mut self, body: Value) -> Self {
        self.example = Some(body);
        self
    }

    /// Done as often as it is requested, whatever its `Idempotency-Key`.
    pub(super) fn repeats(mut self) -> Self {
        self.repeats = true;
        self
    }

    fn response(
        mut self,
        status: u16,
        description: &'static str,
        headers: Headers,
        content: Content,
    ) -> Self {
        self.responses.push(Response {
            status,
            description,
            headers,
            content,
        });
        self
    }

    fn fails(mut self, statuses: &[u16]) -> Self {
        self.failures.extend(statuses);
        self
    }

    /// Returns pages of a list, or server-sent events with `watch`.
    pub(super) fn returns_watchable_list<T: ToSchema>(self) -> Self {
        let content = Content::ListOrEvents(Schema::of::<T>());
        self.parameters(&["limit", "offset", "watch"]).response(
            200,
            "Items ordered by ID.",
            Headers::Total,
            content,
        )
    }

    /// Returns pages of a list.
    pub(super) fn returns_pages<T: ToSchema>(self) -> Self {
        self.parameters(&["limit", "offset"]).returns_list::<T>()
    }

    /// Returns all of a list.
    pub(super) fn returns_list<T: ToSchema>(self) -> Self {
        let content = Content::List(Schema::of::<T>());
        self.response(200, "Items in a stable order.", Headers::Total, content)
    }

    /// Returns one resource with its `ETag`, or server-sent events with `watch`.
    pub(super) fn returns_versioned<T: ToSchema>(self) -> Self {
        self.parameters(&["watch", "If-None-Match"])
            .response(
                200,
                "OK.",
                Headers::Etag,
                Content::JsonOrEvents(Schema::of::<T>()),
            )
            .response(304, "Not modified.", Headers::Etag, Content::None)
    }

    /// Returns a resource without an `ETag`, or server-sent events with `watch`.
    pub(super) fn returns_watchable<T: ToSchema>(self) -> Self {
        self.parameters(&["watch"]).response(
            200,
            "OK.",
            Headers::None,
            Content::JsonOrEvents(Schema::of::<T>()),
        )
    }

    /// Returns a resource without an `ETag`.
    pub(super) fn returns<T: ToSchema>(self) -> Self {
        self.response(200, "OK.", Headers::None, Content::Json(Schema::of::<T>()))
    }

    /// Returns one of two resources.
    pub(super) fn returns_either<T: ToSchema, U: ToSchema>(self) -> Self {
        self.response(
            200,
            "OK.",
            Headers::None,
            Content::Either(Schema::of::<T>(), Schema::of::<U>()),
        )
    }

    /// Returns plain text.
    pub(super) fn returns_text(self) -> Self {
        let description = "Plain text, line by line.";
        self.response(200, description, Headers::None, Content::Text)
    }

    pub(super) fn returns_no_content(self) -> Self {
        self.response(204, "No content.", Headers::None, Content::None)
    }

    /// Returns the plan with `dryRun`.
    pub(super) fn returns_plan<T: ToSchema>(self) -> Self {
        let description = "The plan, with `dryRun`.";
        self.parameters(&["dryRun"]).response(
            200,
            description,
            Headers::None,
            Content::Json(Schema::of::<T>()),
        )
    }

    /// Returns a new resource, without an `ETag`.
    pub(super) fn returns_created<T: ToSchema>(self) -> Self {
        self.response(
            201,
            "Created.",
            Headers::None,
            Content::Json(Schema::of::<T>()),
        )
    }

    /// Returns a resource that is there with the same specification.
    pub(super) fn returns_existing<T: ToSchema>(self) -> Self {
        let description = "Already exists with the same specification.";
        self.response(
            200,
            description,
            Headers::None,
            Content::Json(Schema::of::<T>()),
        )
    }

    /// Makes a resource; returns it with its `ETag` and location.
    pub(super) fn creates<T: ToSchema>(self) -> Self {
        let content = Content::Json(Schema::of::<T>());
        let existing = "Already exists with the same specification.";
        self.response(201, "Created.", Headers::EtagAndLocation, content)
            .response(200, existing, Headers::EtagAndLocation, content)
            .fails(&[404, 409, 429])
    }

    /// Changes a resource; returns it with its `ETag`.
    pub(super) fn updates<T: ToSchema>(self) -> Self {
        self.parameters(&["If-Match"])
            .response(
                200,
                "Updated.",
                Headers::Etag,
                Content::Json(Schema::of::<T>()),
            )
            .fails(&[409, 412, 429])
    }

    /// Begins a deletion.
    pub(super) fn deletes(self) -> Self {
        self.response(202, "Deletion accepted.", Headers::None, Content::None)
            .fails(&[409, 412])
    }

    /// Begins the deletion of a resource with an `ETag`.
    pub(super) fn deletes_versioned(self) -> Self {
        self.parameters(&["If-Match"]).deletes()
    }

    /// Accepts what is carried out later and is no operation.
    pub(super) fn accepts(self) -> Self {
        self.response(202, "Accepted.", Headers::None, Content::None)
            .fails(&[409, 412])
    }

    /// Begins an operation of this kind and returns it. Whoever may call this
    /// may cancel the operation.
    pub(super) fn starts(mut self, kind: &'static str) -> Self {
        self.starts = Some(kind);
        let description = "Accepted: the operation was started.";
        let content = Content::Json(Schema::of::<strata_api::rest::Operation>());
        self.response(202, description, Headers::OperationLocation, content)
            .fails(&[409])
    }

    /// Fails where this server has no such backend, or no free capacity in it.
    pub(super) fn may_be_unavailable(self) -> Self {
        self.fails(&[404, 409, 429])
    }

    /// Fails unless the resource is running.
    pub(super) fn requires_running(self) -> Self {
        self.fails(&[409])
    }

    /// The kind of operation that it begins.
    pub(super) fn started_kind(&self) -> Option<&'static str> {
        self.starts
    }
}

/// The handlers of routes, with and without a slash at the end of their path.
pub(crate) fn router<S>(routes: impl IntoIterator<Item = Route<S>>) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    routes.into_iter().fold(Router::new(), |router, route| {
        let path = route.rule.path;
        router
            .route(path, route.handler.clone())
            .route(&format!("{path}/"), route.handler)
    })
}
