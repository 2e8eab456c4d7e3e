//! Durable creating, end to end: `scheduler.InstanceService/Create` over gRPC
//! and TLS, its stream read until the instance has a place. Each is two
//! commits: the record, then the place. Beside it, puts into the same kind of
//! store without a server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_store::{Embedded, EmbeddedOptions};

use crate::control::{Etcd, Fleet, Instances, Loaded, PutTarget, Server, create_for, put_for};
use crate::stats::{milliseconds, skipped};
use crate::{Effort, Result};

const CONCURRENCY: [usize; 3] = [1, 16, 256];
const NODES: usize = 100;

#[allow(clippy::print_stdout)]
pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    println!("| what | at once | per second | p50 | p99 | server's cpu each |");
    println!("|---|---|---|---|---|---|");
    let time = Duration::from_secs(effort.request_seconds);
    let embedded = creates(binary, "", "embedded", time).await?;
    let dir = tempfile::tempdir()?;
    let options = EmbeddedOptions::default();
    let store: PutTarget = Arc::new(Embedded::open(&dir.path().join("store"), &options)?);
    puts(&store, "embedded", time).await?;
    drop(store);
    let etcd = match Etcd::start().await {
        Ok(etcd) => etcd,
        Err(error) => {
            skipped("etcd", error);
            return Ok(());
        }
    };
    let store: PutTarget = Arc::new(etcd.store().await?);
    let raw = puts(&store, "etcd", time).await?;
    let config = format!("[store]\netcd = [\"{}\"]\n", etcd.url);
    let kept = creates(binary, &config, "etcd", time).await?;
    println!();
    for ((at_once, raw), (ours, theirs)) in CONCURRENCY
        .into_iter()
        .zip(raw)
        .zip(embedded.into_iter().zip(kept))
    {
        println!(
            "creates / puts of etcd, {at_once} at once: embedded {:.2}, etcd {:.2}",
            ours / raw,
            theirs / raw
        );
    }
    println!("aim, embedded: 10000 a second, p99 below 20 ms");
    Ok(())
}

async fn creates(binary: &Path, config: &str, store: &str, time: Duration) -> Result<Vec<f64>> {
    let server = Server::start(binary, config).await?;
    let fleet = Fleet::start(&server, NODES, Instances::Stay).await?;
    let mut rates = Vec::new();
    for at_once in CONCURRENCY {
        let connections = server.admins(at_once).await?;
        let before = server.cpu()?;
        let loaded = create_for(&connections, at_once, time).await?;
        let cpu = server.cpu()?.saturating_sub(before) / loaded.times.count().max(1) as u32;
        let cpu = format!("{} µs", cpu.as_micros());
        rates.push(row(&format!("create, {store}"), at_once, &loaded, &cpu));
    }
    drop(fleet);
    Ok(rates)
}

async fn puts(store: &PutTarget, name: &str, time: Duration) -> Result<Vec<f64>> {
    let mut rates = Vec::new();
    for at_once in CONCURRENCY {
        let loaded = put_for(store, at_once, time).await?;
        rates.push(row(&format!("one put, {name}"), at_once, &loaded, "-"));
    }
    Ok(rates)
}

#[allow(clippy::print_stdout)]
fn row(what: &str, at_once: usize, loaded: &Loaded, cpu: &str) -> f64 {
    println!(
        "| {what} | {at_once} | {:.0} | {} | {} | {cpu} |",
        loaded.rate,
        milliseconds(loaded.times.median()),
        milliseconds(loaded.times.at(0.99)),
    );
    loaded.rate
}
