//! Durable puts into a store without a server around it: the floor under
//! everything that is kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use strata_store::{Store, Transaction};

use super::load::{Loaded, gather};
use super::text;
use crate::Result;

/// About what a record is.
const VALUE: usize = 512;
/// So many keys, written over and over.
const KEYS: usize = 10_000;

pub(crate) type PutTarget = Arc<dyn Store>;

/// So many committers at once, each with one put after the other.
pub(crate) async fn put_for(store: &PutTarget, at_once: usize, time: Duration) -> Result<Loaded> {
    let until = Instant::now() + time;
    let one = |first: usize| {
        let store = store.clone();
        async move {
            let (mut took, mut key) = (Vec::new(), first);
            while Instant::now() < until {
                let key_now = format!("puts/{:05}", key % KEYS);
                let put = Transaction::new().put(key_now, vec![b'x'; VALUE]);
                let began = Instant::now();
                store.commit(put).await.map_err(text)?;
                took.push(began.elapsed());
                key += at_once;
            }
            Ok(took)
        }
    };
    gather((0..at_once).map(one)).await
}
