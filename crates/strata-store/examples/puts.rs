//! How many durable commits a second, by how many commit at once.
//!
//! ```text
//! cargo run --release -p strata-store --example puts -- embedded DIR [SECONDS]
//! cargo run --release -p strata-store --example puts -- etcd URL [SECONDS]
//! ```

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use strata_store::{Embedded, EmbeddedOptions, Etcd, EtcdOptions, Store, StoreError, Transaction};

/// About what a record is.
const VALUE: usize = 256;

/// So many keys, written over and over.
const KEYS: usize = 10_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let usage = "puts embedded DIR [SECONDS] | puts etcd URL [SECONDS]";
    let seconds = match arguments.get(2) {
        Some(seconds) => seconds.parse()?,
        None => 3,
    };
    let store: Arc<dyn Store> = match &arguments[..] {
        [kind, dir, ..] if kind == "embedded" => {
            let options = EmbeddedOptions::default();
            Arc::new(Embedded::open(Path::new(dir), &options)?)
        }
        [kind, url, ..] if kind == "etcd" => {
            let options = EtcdOptions {
                endpoints: vec![url.clone()],
                prefix: "puts/".to_owned(),
                ..EtcdOptions::default()
            };
            Arc::new(Etcd::connect(&options).await?)
        }
        _ => return Err(usage.into()),
    };
    println!("committers  commits/s    p50 ms    p99 ms");
    for committers in [1, 16, 256, 1024] {
        measure(&store, committers, Duration::from_secs(seconds)).await?;
    }
    Ok(())
}

async fn measure(
    store: &Arc<dyn Store>,
    committers: usize,
    time: Duration,
) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let tasks: Vec<_> = (0..committers)
        .map(|it| tokio::spawn(commit(store.clone(), it, committers, began + time)))
        .collect();
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await??);
    }
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!(
        "{committers:10}  {rate:9.0}  {:8.3}  {:8.3}",
        at(0.5),
        at(0.99)
    );
    Ok(())
}

async fn commit(
    store: Arc<dyn Store>,
    first: usize,
    step: usize,
    until: Instant,
) -> Result<Vec<Duration>, StoreError> {
    let mut took = Vec::new();
    let mut key = first;
    while Instant::now() < until {
        let put = Transaction::new().put(format!("puts/{:05}", key % KEYS), vec![b'x'; VALUE]);
        let began = Instant::now();
        store.commit(put).await?;
        took.push(began.elapsed());
        key += step;
    }
    Ok(took)
}
