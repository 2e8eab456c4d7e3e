//! One instance and a list of a hundred over REST, on connections that are
//! kept, beside a bare axum handler that answers the same bytes.

use std::path::Path;
use std::time::Duration;

use strata_api::scheduler::Status;

use crate::bare::Bare;
use crate::control::{Fleet, Instances, KeptAlive, Loaded, Server, create_many, repeat_for};
use crate::stats::milliseconds;
use crate::{Effort, Result};

const CONCURRENCY: [usize; 2] = [1, 32];
const INSTANCES: usize = 1000;

#[allow(clippy::print_stdout)]
pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let server = Server::start(binary, "").await?;
    let _fleet = Fleet::start(&server, 10, Instances::Run).await?;
    let connections = server.admins(64).await?;
    create_many(&connections, INSTANCES, Status::Running).await?;

    let mut client = KeptAlive::open(&server.url, &server.admin).await?;
    let list_path = "/instance?limit=100";
    let list = client.get(list_path).await?.to_vec();
    let listed: serde_json::Value = serde_json::from_slice(&list)?;
    let first = first_id(&listed).ok_or("the list is empty")?;
    let one_path = format!("/instance/{first}");
    let one = client.get(&one_path).await?.to_vec();
    let bare = Bare::start(&server.node("bare")?, &one, &list)?;

    println!("{} bytes each, {} a list of 100\n", one.len(), list.len());
    println!("| what | at once | strata/s | p99 | bare axum/s | p99 | ratio |");
    println!("|---|---|---|---|---|---|---|");
    let time = Duration::from_secs(effort.request_seconds);
    let ways = [
        ("one", one_path.as_str(), "/one"),
        ("list of 100", list_path, "/list"),
    ];
    for (what, ours, theirs) in ways {
        for at_once in CONCURRENCY {
            let our = load(&server, &server.url, ours, at_once, time).await?;
            let their = load(&server, &bare.url, theirs, at_once, time).await?;
            println!(
                "| {what} | {at_once} | {:.0} | {} | {:.0} | {} | {:.2} |",
                our.rate,
                milliseconds(our.times.at(0.99)),
                their.rate,
                milliseconds(their.times.at(0.99)),
                our.rate / their.rate
            );
        }
    }
    Ok(())
}

/// The id of the first in a list, whatever the list is called.
fn first_id(list: &serde_json::Value) -> Option<&str> {
    let all = list.as_array().or_else(|| {
        let fields = list.as_object()?.values();
        fields.filter_map(serde_json::Value::as_array).next()
    })?;
    all.first()?.get("id")?.as_str()
}

async fn load(
    server: &Server,
    url: &str,
    path: &str,
    at_once: usize,
    time: Duration,
) -> Result<Loaded> {
    let mut clients = Vec::new();
    for _ in 0..at_once {
        clients.push(KeptAlive::open(url, &server.admin).await?);
    }
    let path = path.to_owned();
    let once = move |mut client: KeptAlive| {
        let path = path.clone();
        async move {
            client.get(&path).await?;
            Ok(client)
        }
    };
    repeat_for(clients, time, once).await
}
