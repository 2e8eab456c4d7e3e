//! What can be done with the objects of a server.

use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use strata_api::rest::{MERGE_PATCH, Operation};

use super::call::{Answer, Call};
use super::query::{Query, tail, target};
use super::route::Resource;
use super::text::TextStream;
use super::watch::Watch;
use crate::Address;
use crate::connection::Connection;
use crate::error::Result;

/// The most objects that a server gives at once.
const PAGE_SIZE: usize = 1000;

/// An object, and the version that was seen.
#[derive(Clone, Debug)]
pub struct Tagged<T> {
    pub object: T,
    /// For `If-Match`; servers give one for single objects.
    pub etag: Option<String>,
}

/// A connected server, by its REST API. Clones share the connection.
#[derive(Clone)]
pub struct RestClient(Connection);

impl RestClient {
    /// Over a connection that is open.
    pub(crate) fn new(connection: Connection) -> Self {
        Self(connection)
    }

    /// What it is connected to.
    pub fn address(&self) -> &Address {
        self.0.address()
    }

    /// All objects that the query lets through, page after page.
    pub async fn list<T: Resource>(&self, query: &Query) -> Result<Vec<T>> {
        let mut all: Vec<T> = Vec::new();
        loop {
            let page = query.clone().with("limit", PAGE_SIZE.to_string());
            let page = page.with("offset", all.len().to_string());
            let answer = self
                .call(Method::GET, target(T::ROUTE, "", "", &page))
                .send()
                .await?;
            // A server sends fewer items than the limit where they are large.
            let total = answer.total();
            let items: Vec<T> = answer.json()?;
            let came = items.len();
            all.extend(items);
            let last = match total {
                Some(total) => all.len() >= total,
                None => came < PAGE_SIZE,
            };
            if last || came == 0 {
                return Ok(all);
            }
        }
    }

    pub async fn get<T: Resource>(&self, name: &str, query: &Query) -> Result<Tagged<T>> {
        let target = target(T::ROUTE, name, "", query);
        tagged(&self.call(Method::GET, target).send().await?)
    }

    /// Something that belongs to one object: `placement` of an instance.
    pub async fn part<T: Resource, P: DeserializeOwned>(
        &self,
        name: &str,
        part: &str,
        query: &Query,
    ) -> Result<P> {
        let target = target(T::ROUTE, name, part, query);
        self.call(Method::GET, target).send().await?.json()
    }

    /// Makes an object. The same again gives the same.
    pub async fn create<T: Resource>(&self, body: &impl Serialize) -> Result<T> {
        let target = target(T::ROUTE, "", "", &Query::new());
        let call = self.call(Method::PUT, target);
        call.with("application/json", body)?.send().await?.json()
    }

    /// Changes an object; with a tag, only as it was seen.
    pub async fn update<T: Resource>(
        &self,
        name: &str,
        query: &Query,
        patch: &impl Serialize,
        if_match: Option<&str>,
    ) -> Result<T> {
        let target = target(T::ROUTE, name, "", query);
        let call = self.call(Method::PATCH, target);
        let mut call = call.with(MERGE_PATCH, patch)?;
        call.if_match = if_match;
        call.send().await?.json()
    }

    /// Adds something to one object: a `snapshot` to a volume.
    pub async fn add<T: Resource>(
        &self,
        name: &str,
        part: &str,
        body: &impl Serialize,
    ) -> Result<T> {
        let target = target(T::ROUTE, name, part, &Query::new());
        let call = self.call(Method::PUT, target);
        call.with("application/json", body)?.send().await?.json()
    }

    /// Takes away what [`Self::add`] added.
    pub async fn take<T: Resource>(&self, name: &str, part: &str, which: &str) -> Result<()> {
        let target = target(T::ROUTE, name, &tail(part, which), &Query::new());
        self.call(Method::DELETE, target).send().await?;
        Ok(())
    }

    /// Begins something with an object: `drain` of a node. Without a name, with
    /// the one there is: `expand` of the pool.
    pub async fn begin<T: Resource>(
        &self,
        name: &str,
        what: &str,
        body: &impl Serialize,
    ) -> Result<Operation> {
        let target = target(T::ROUTE, name, what, &Query::new());
        let call = self.call(Method::POST, target);
        call.with("application/json", body)?.send().await?.json()
    }

    /// What [`Self::begin`] would do, without doing it.
    pub async fn plan<T: Resource, P: DeserializeOwned>(
        &self,
        name: &str,
        what: &str,
        body: &impl Serialize,
    ) -> Result<P> {
        let query = Query::new().with("dryRun", "true");
        let call = self.call(Method::POST, target(T::ROUTE, name, what, &query));
        call.with("application/json", body)?.send().await?.json()
    }

    /// Does something with objects, and says what was done: `revoke` of
    /// certificates.
    pub async fn act<T: Resource, P: DeserializeOwned>(
        &self,
        what: &str,
        body: &impl Serialize,
    ) -> Result<P> {
        let target = target(T::ROUTE, what, "", &Query::new());
        let call = self.call(Method::POST, target);
        call.with("application/json", body)?.send().await?.json()
    }

    /// Has an object do something, without more to say: `adopt` of a node.
    pub async fn order<T: Resource>(&self, name: &str, what: &str) -> Result<()> {
        let target = target(T::ROUTE, name, what, &Query::new());
        self.call(Method::POST, target).send().await?;
        Ok(())
    }

    /// Removes an object, or begins to.
    pub async fn delete<T: Resource>(&self, name: &str, query: &Query) -> Result<()> {
        let target = target(T::ROUTE, name, "", query);
        self.call(Method::DELETE, target).send().await?;
        Ok(())
    }

    /// All objects that the query lets through, and then each that changes.
    pub async fn watch<T: Resource>(&self, query: &Query) -> Result<Watch<T>> {
        let query = query.clone().with("watch", "true");
        self.follow(target(T::ROUTE, "", "", &query)).await
    }

    /// One object, and then each of its changes.
    pub async fn watch_one<T: Resource>(&self, name: &str, query: &Query) -> Result<Watch<T>> {
        let query = query.clone().with("watch", "true");
        self.follow(target(T::ROUTE, name, "", &query)).await
    }

    /// Text that belongs to one object and goes on: the `console` of a machine.
    pub async fn text<T: Resource>(&self, name: &str, part: &str) -> Result<TextStream> {
        let mut call = self.call(Method::GET, target(T::ROUTE, name, part, &Query::new()));
        call.accept = "text/plain";
        Ok(TextStream::new(
            self.0.clone(),
            call.open().await?.into_body(),
        ))
    }

    async fn follow<T: Resource>(&self, target: String) -> Result<Watch<T>> {
        let mut call = self.call(Method::GET, target);
        call.accept = "text/event-stream";
        Ok(Watch::new(self.0.clone(), call.open().await?.into_body()))
    }

    pub(super) fn call(&self, method: Method, target: String) -> Call<'_> {
        Call::new(&self.0, method, target)
    }
}

fn tagged<T: DeserializeOwned>(answer: &Answer) -> Result<Tagged<T>> {
    Ok(Tagged {
        object: answer.json()?,
        etag: answer.etag(),
    })
}
