//! The store, as each server reaches it: the engine in memory behind a network
//! that delays, and an engine that is slow, loses answers, ends watches, drops
//! the past or ends a lease early.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use strata_store::{
    Changes, Entry, LeaseId, Listing, Memory, Revision, Store, StoreError, Transaction, Watch,
};
use tokio::sync::oneshot;
use tokio_stream::wrappers::ReceiverStream;

use crate::chance::Chance;
use crate::checks::Checks;
use crate::env::Env;
use crate::net::{Network, Place};
use crate::process::Process;

/// How long a server waits for an answer, as the client of etcd does.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Leases of servers are this long at most. Those of answers that are kept are
/// longer, and nothing ends them early.
const SHORT_LEASE: Duration = Duration::from_secs(60);

/// The engine and what is wrong with it.
pub(crate) struct Engine {
    pub(crate) memory: Memory,
    chance: Chance,
    process: Arc<Process>,
    checks: Arc<Checks>,
    /// What each request takes, in milliseconds.
    slow_ms: AtomicU64,
    /// Some answers are lost.
    loses_answers: AtomicBool,
    leases: Mutex<Vec<LeaseId>>,
}

impl Engine {
    pub(crate) fn new(env: &Arc<Env>, checks: &Arc<Checks>) -> Arc<Self> {
        Arc::new(Self {
            memory: Memory::new(),
            chance: Chance::of(env.seed, "store"),
            process: env.outside(),
            checks: checks.clone(),
            slow_ms: AtomicU64::new(0),
            loses_answers: AtomicBool::new(false),
            leases: Mutex::default(),
        })
    }

    pub(crate) fn set_slow(&self, ms: u64) {
        self.slow_ms.store(ms, Ordering::Relaxed);
    }

    pub(crate) fn set_loses_answers(&self, loses: bool) {
        self.loses_answers.store(loses, Ordering::Relaxed);
    }

    /// Ends a lease that was granted, of any holder.
    pub(crate) async fn end_a_lease(&self) {
        let lease = {
            let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
            self.chance.pick(&leases).copied()
        };
        if let Some(lease) = lease {
            drop(self.memory.revoke(lease).await);
        }
    }

    async fn takes_its_time(&self) {
        let slow = self.slow_ms.load(Ordering::Relaxed);
        let own = Duration::from_micros(self.chance.below(2000));
        tokio::time::sleep(own + self.chance.millis(slow / 2..=slow)).await;
    }

    fn loses_answer(&self) -> bool {
        self.loses_answers.load(Ordering::Relaxed) && self.chance.one_in(3)
    }
}

/// The store of one server.
#[derive(Clone)]
pub(crate) struct StoreClient {
    pub(crate) place: Place,
    pub(crate) net: Arc<Network>,
    pub(crate) engine: Arc<Engine>,
}

impl StoreClient {
    /// Has the engine do something, wherever the server is by then.
    async fn request<T: Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Engine>) -> BoxFuture<'static, Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let Self { place, net, engine } = self.clone();
        self.engine.process.spawn("store-request", async move {
            net.cross(place, Place::Store).await;
            engine.takes_its_time().await;
            // Who gave up has closed the connection, which may come later.
            if answer.is_closed() && engine.chance.one_in(2) {
                return;
            }
            let done = work(engine.clone()).await;
            if engine.loses_answer() {
                return std::future::pending().await;
            }
            net.cross(Place::Store, place).await;
            drop(answer.send(done));
        });
        match tokio::time::timeout(REQUEST_TIMEOUT, answered).await {
            Ok(Ok(done)) => done,
            _ => Err(StoreError::Unavailable("no answer in time".to_owned())),
        }
    }
}

impl Store for StoreClient {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        let key = key.to_owned();
        self.request(|engine| async move { engine.memory.get(&key).await }.boxed())
            .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        let prefix = prefix.to_owned();
        self.request(|engine| async move { engine.memory.list(&prefix).await }.boxed())
            .boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, StoreError>> {
        let place = self.place;
        let work = move |engine: Arc<Engine>| {
            async move {
                let done = engine.memory.commit(transaction.clone()).await;
                if let Ok(revision) = &done {
                    let leader = engine.memory.get("leader").await?;
                    engine
                        .checks
                        .committed(place, *revision, &transaction, leader.as_ref());
                }
                done
            }
            .boxed()
        };
        self.request(work).boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        let prefix = prefix.to_owned();
        async move {
            let begin = move |engine: Arc<Engine>| {
                async move { engine.memory.watch(&prefix, after).await }.boxed()
            };
            let watch = self.request(begin).await?;
            let way = (Place::Store, self.place);
            let broken = self.net.connection(way);
            let watch: BoxStream<'static, Result<Changes, StoreError>> = watch;
            let carried = ReceiverStream::new(self.net.carry(way, watch, broken));
            let end = futures_util::stream::once(std::future::ready(Err(StoreError::Unavailable(
                "the connection ended".to_owned(),
            ))));
            let mut ended = false;
            let all = carried.chain(end).take_while(move |item| {
                let goes_on = !std::mem::replace(&mut ended, item.is_err());
                std::future::ready(goes_on)
            });
            Ok(all.boxed())
        }
        .boxed()
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        let work = move |engine: Arc<Engine>| {
            async move {
                let lease = engine.memory.grant(ttl).await?;
                if ttl > SHORT_LEASE {
                    return Ok(lease);
                }
                let mut leases = engine.leases.lock().unwrap_or_else(PoisonError::into_inner);
                leases.push(lease);
                if leases.len() > 8 {
                    leases.remove(0);
                }
                Ok(lease)
            }
            .boxed()
        };
        self.request(work).boxed()
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.request(move |engine| async move { engine.memory.keep_alive(lease).await }.boxed())
            .boxed()
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.request(move |engine| async move { engine.memory.revoke(lease).await }.boxed())
            .boxed()
    }
}
