//! A store of each kind, each with all that it needs for itself.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use strata_store::{
    Changes, Embedded, EmbeddedOptions, Memory, Revision, Sealed, Store, StoreError, Watch,
};

use crate::etcd_server::EtcdServer;

/// How long anything may take before a test gives up.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

type Forget = Box<dyn Fn(Revision) -> BoxFuture<'static, ()> + Send + Sync>;

/// A store of some kind.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    forget: Forget,
    _kept: Box<dyn Any + Send + Sync>,
}

impl World {
    pub(crate) fn memory() -> Self {
        let memory = Memory::new();
        let forgetful = memory.clone();
        Self {
            store: Arc::new(memory),
            forget: Box::new(move |_| {
                forgetful.forget();
                Box::pin(async {})
            }),
            _kept: Box::new(()),
        }
    }

    pub(crate) fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = EmbeddedOptions {
            history: 1000,
            ..EmbeddedOptions::default()
        };
        let store = Arc::new(Embedded::open(dir.path(), &options).unwrap());
        let forgetful = store.clone();
        Self {
            store,
            // It drops the past by itself, after so many revisions.
            forget: Box::new(move |_| {
                let store = forgetful.clone();
                Box::pin(async move {
                    let fill = |n: u32| {
                        let filling = strata_store::Transaction::new();
                        store.commit(filling.put("filling", n.to_string()))
                    };
                    let all = futures_util::future::join_all((0..1001).map(fill));
                    assert!(all.await.iter().all(Result::is_ok));
                })
            }),
            _kept: Box::new(dir),
        }
    }

    /// `None` where there is no etcd.
    pub(crate) async fn etcd() -> Option<Self> {
        let server = EtcdServer::start().await?;
        let store = server.connect().await;
        let forgetful = store.clone();
        Some(Self {
            store: Arc::new(store),
            forget: Box::new(move |revision| {
                let store = forgetful.clone();
                Box::pin(async move { store.compact(revision).await.unwrap() })
            }),
            _kept: Box::new(server),
        })
    }

    /// The same store with sealed values.
    pub(crate) async fn sealed(self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key_file = dir.path().join("store.key");
        let sealed = Sealed::open(self.store, &key_file).await.unwrap();
        Self {
            store: Arc::new(sealed),
            forget: self.forget,
            _kept: Box::new((dir, self._kept)),
        }
    }

    /// Makes the store drop at least what was before a revision.
    pub(crate) async fn forget(&self, before: Revision) {
        (self.forget)(before).await;
    }
}

/// Not longer than anything may take.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(TEST_TIMEOUT, future).await;
    done.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Waits until a condition holds.
pub(crate) async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    soon(what, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

/// The next item of a watch.
pub(crate) async fn next(watch: &mut Watch) -> Result<Changes, StoreError> {
    let item = soon("a change", watch.next()).await;
    item.expect("a watch ends with an error")
}
