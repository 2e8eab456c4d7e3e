//! Many requests at once, each following the one before it without a pause.

use std::future::Future;
use std::time::{Duration, Instant};

use strata_api::scheduler::instance_service_client::InstanceServiceClient;
use strata_api::scheduler::{Instance, Resource, ResourceSummary, Status};
use strata_client::{Channel, Connection};

use super::text;
use crate::Result;
use crate::stats::Times;

/// What came of a load.
pub(crate) struct Loaded {
    pub(crate) times: Times,
    pub(crate) rate: f64,
}

/// Runs all of them side by side.
pub(crate) async fn gather<F>(tasks: impl Iterator<Item = F>) -> Result<Loaded>
where
    F: Future<Output = std::result::Result<Vec<Duration>, String>> + Send + 'static,
{
    let began = Instant::now();
    let running: Vec<_> = tasks.map(tokio::spawn).collect();
    let mut times = Vec::new();
    for task in running {
        times.extend(task.await??);
    }
    let rate = times.len() as f64 / began.elapsed().as_secs_f64();
    Ok(Loaded {
        times: Times::new(times),
        rate,
    })
}

/// The same request again and again, so many at once, for so long.
pub(crate) async fn repeat_for<T, F>(
    clients: Vec<T>,
    time: Duration,
    once: impl Fn(T) -> F + Clone + Send + Sync + 'static,
) -> Result<Loaded>
where
    T: Send + 'static,
    F: Future<Output = std::result::Result<T, String>> + Send,
{
    let until = Instant::now() + time;
    let one = |mut client: T| {
        let once = once.clone();
        async move {
            let mut took = Vec::new();
            while Instant::now() < until {
                let began = Instant::now();
                client = once(client).await?;
                took.push(began.elapsed());
            }
            Ok(took)
        }
    };
    gather(clients.into_iter().map(one)).await
}

type Client = InstanceServiceClient<Channel>;

fn clients(connections: &[Connection], at_once: usize) -> Vec<Client> {
    let all = connections.iter().cycle().take(at_once);
    all.map(|connection| Client::new(connection.channel()))
        .collect()
}

/// Creates instances for so long, each until it has a place.
pub(crate) async fn create_for(
    connections: &[Connection],
    at_once: usize,
    time: Duration,
) -> Result<Loaded> {
    let once = |mut client: Client| async move {
        create(&mut client, NOWHERE, Status::Scheduled).await?;
        Ok(client)
    };
    repeat_for(clients(connections, at_once), time, once).await
}

/// Creates so many instances, 64 at once, each until it is so.
pub(crate) async fn create_many(
    connections: &[Connection],
    count: usize,
    until: Status,
) -> Result<Loaded> {
    const CONCURRENCY: usize = 64;
    let one = |(number, mut client): (usize, Client)| async move {
        let mut took = Vec::new();
        for _ in 0..count / CONCURRENCY + usize::from(number < count % CONCURRENCY) {
            took.push(create(&mut client, NOWHERE, until).await?);
        }
        Ok(took)
    };
    let clients = clients(connections, CONCURRENCY).into_iter();
    gather(clients.enumerate().map(one)).await
}

/// No simulated node will ever pull it.
const NOWHERE: &str = "docker.io/library/busybox:latest";

/// Creates an instance and reads its stream until it is so; then hangs up.
pub(crate) async fn create(
    client: &mut Client,
    uri: &str,
    until: Status,
) -> std::result::Result<Duration, String> {
    let limit = ResourceSummary {
        cpu: 10,
        memory: 16,
        disk: 0,
    };
    let instance = Instance {
        uri: uri.to_owned(),
        resource: Some(Resource {
            limit: Some(limit),
            usage: None,
        }),
        ..Instance::default()
    };
    let began = Instant::now();
    let mut statuses = client.create(instance).await.map_err(text)?.into_inner();
    while let Some(status) = statuses.message().await.map_err(text)? {
        match status.status() {
            now if now == until => return Ok(began.elapsed()),
            // What is past the one that is waited for.
            Status::Running => return Ok(began.elapsed()),
            Status::Failed => return Err(status.status_description),
            _ => {}
        }
    }
    Err("the stream of an instance ended early".to_owned())
}
