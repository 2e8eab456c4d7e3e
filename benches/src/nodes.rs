//! Many nodes that report their status each second to one server, each on a
//! connection with a certificate of its own, as `scheduler.NodeService` has it.
//! The lag is the time from sending a status until REST shows it.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use strata_api::scheduler::node_service_client::NodeServiceClient;
use strata_api::scheduler::{NodeRegisterRequest, NodeStatus, Resource, ResourceSummary, Status};
use strata_identity::Credentials;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

use crate::control::{KeptAlive, Server, text};
use crate::daemon::resident_kb;
use crate::stats::{Times, milliseconds, skipped};
use crate::{Effort, Result};

/// Nodes that come at the same moment.
const CONCURRENT_JOINS: usize = 16;
/// Nodes whose status is polled.
const POLLED_NODES: usize = 20;
/// How often a node that is refused for now tries again.
const TRIES: u32 = 20;
/// The code of that refusal.
const RETRY_LATER_CODE: i32 = 6;
/// A status that is not shown by then is lost.
const LOST: Duration = Duration::from_secs(10);

/// A subnet for each: the usual range has 256.
const CONFIG: &str = "[network]\nrange = \"10.0.0.0/8\"\n";

#[allow(clippy::print_stdout)]
pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let server = Server::start(binary, CONFIG).await?;
    let pid = server.daemon.pid();
    let mut rest = KeptAlive::open(&server.url, &server.admin).await?;
    let empty = resident_kb(pid)?;

    let began = Instant::now();
    let mut tasks = JoinSet::new();
    let nodes = come(&server, effort.nodes, &mut tasks).await?;
    let coming = began.elapsed();

    let (mut lags, before, began) = (Vec::new(), server.cpu()?, Instant::now());
    let time = Duration::from_secs(effort.status_seconds);
    let step = (nodes.len() / POLLED_NODES).max(1);
    let mut looked_at = nodes.iter().step_by(step).cycle();
    while began.elapsed() < time
        && let Some(node) = looked_at.next()
    {
        lags.push(lag(&mut rest, node).await?);
    }
    let share =
        (server.cpu()?.saturating_sub(before)).as_secs_f64() / began.elapsed().as_secs_f64();
    let late: u64 = nodes.iter().map(|node| node.sent.borrow().late).sum();
    let lags = Times::new(lags);
    println!(
        "| nodes that tell a status each second | {} |\n|---|---|",
        nodes.len()
    );
    println!(
        "| registered, one connection each | {:.0} a second |",
        nodes.len() as f64 / coming.as_secs_f64()
    );
    println!(
        "| a status until REST shows it, median | {} |",
        milliseconds(lags.median())
    );
    println!(
        "| the slowest of {} | {} |",
        lags.count(),
        milliseconds(lags.at(1.0))
    );
    println!("| statuses that waited to be sent | {late} |");
    println!("| streams that ended | {} |", nodes.len() - tasks.len());
    println!(
        "| the server's share of one core | {:.0} % |",
        share * 100.0
    );
    println!(
        "| the server's memory | {:.0} MB |",
        resident_kb(pid)? as f64 / 1024.0
    );
    println!(
        "| of it for each node | {} kB |",
        resident_kb(pid)?.saturating_sub(empty) / nodes.len().max(1) as u64
    );
    tasks.shutdown().await;
    Ok(())
}

/// What a node has sent.
#[derive(Clone, Copy)]
struct Sent {
    number: i32,
    at: Instant,
    /// How often the one before was not on its way yet.
    late: u64,
}

struct Node {
    name: String,
    sent: watch::Receiver<Sent>,
}

/// Nodes come until all are there, or the server takes no more.
#[allow(clippy::print_stdout)]
async fn come(
    server: &Server,
    wanted: usize,
    tasks: &mut JoinSet<std::result::Result<(), String>>,
) -> Result<Vec<Node>> {
    let one = |number: usize| async move {
        let name = format!("node-{number}");
        let credentials = server.node(&name).map_err(text)?;
        register(server, credentials)
            .await
            .map(|(client, again)| (name, client, again))
    };
    let mut coming = stream::iter(0..wanted)
        .map(one)
        .buffer_unordered(CONCURRENT_JOINS);
    let (mut nodes, mut sent_away) = (Vec::new(), 0);
    while let Some(came) = coming.next().await {
        match came {
            Ok((name, client, again)) => {
                sent_away += again;
                let now = Sent {
                    number: 0,
                    at: Instant::now(),
                    late: 0,
                };
                let (told, sent) = watch::channel(now);
                tasks.spawn(tell(name.clone(), client, told));
                nodes.push(Node { name, sent });
            }
            Err(why) => {
                skipped(&format!("more than {} nodes of {wanted}", nodes.len()), why);
                break;
            }
        }
    }
    if sent_away > 0 {
        println!("told to come later while registering: {sent_away} times\n");
    }
    Ok(nodes)
}

type Client = NodeServiceClient<strata_client::Channel>;

async fn register(
    server: &Server,
    credentials: Credentials,
) -> std::result::Result<(Client, u32), String> {
    let certificate = credentials.certificate_pem.clone();
    let connection = server.connect(credentials).await.map_err(text)?;
    let mut client = Client::new(connection.channel());
    let request = NodeRegisterRequest { certificate };
    for again in 0..TRIES {
        let answer = client.register(request.clone()).await;
        let answer = answer.map_err(text)?.into_inner();
        match answer.code {
            0 => return Ok((client, again)),
            RETRY_LATER_CODE => {}
            _ => return Err(answer.description),
        }
    }
    Err("it is always told to come later".to_owned())
}

/// A status each second, on one stream, until it is stopped.
async fn tell(
    name: String,
    mut client: Client,
    told: watch::Sender<Sent>,
) -> std::result::Result<(), String> {
    let (sender, statuses) = mpsc::channel(1);
    let telling = async {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        for number in 1.. {
            second.tick().await;
            let status = status(&name, number);
            let late = u64::from(sender.capacity() == 0);
            sender.send(status).await.map_err(text)?;
            told.send_modify(|sent| {
                *sent = Sent {
                    number,
                    at: Instant::now(),
                    late: sent.late + late,
                };
            });
        }
        Ok(())
    };
    tokio::select! {
        done = telling => done,
        ended = client.status(ReceiverStream::new(statuses)) => ended.map(drop).map_err(text),
    }
}

/// Its number is what it uses of the cpu, so that it can be distinguished.
fn status(name: &str, number: i32) -> NodeStatus {
    let amounts = |cpu| ResourceSummary {
        cpu,
        memory: 1000,
        disk: 10,
    };
    NodeStatus {
        id: name.to_owned(),
        status: Status::Running.into(),
        status_description: String::new(),
        resource: Some(Resource {
            limit: Some(amounts(1_000_000)),
            usage: Some(amounts(number)),
        }),
    }
}

/// From when the node's next status is sent until REST shows it.
async fn lag(rest: &mut KeptAlive, node: &Node) -> Result<Duration> {
    let mut sent = node.sent.clone();
    sent.mark_unchanged();
    sent.changed().await.map_err(|_| "a node has ended")?;
    let Sent { number, at, .. } = *sent.borrow();
    let path = format!("/node/{}", node.name);
    while at.elapsed() < LOST {
        let shown: serde_json::Value = serde_json::from_slice(rest.get(&path).await?)?;
        let used = shown.pointer(USED).and_then(serde_json::Value::as_i64);
        if used.ok_or("a node is shown without what it uses")? >= i64::from(number) {
            return Ok(at.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err(format!("a status of {} was lost", node.name).into())
}

/// Where REST shows what a node uses of the cpu.
const USED: &str = "/usage/cpu";
