//! An instance on a real node through the whole API: Create over gRPC and TLS,
//! kept durably, placed, assigned, started, and reported to the caller as
//! running. Beside it `crun run` alone.

use std::path::Path;
use std::time::Instant;

use strata_api::scheduler::instance_service_client::InstanceServiceClient;
use strata_api::scheduler::{Instance, InstanceIdentifier, Status};
use strata_client::{Channel, Connection, Target};
use strata_identity::Credentials;
use strata_testkit::images::Image;
use strata_testkit::v1::PullImageRequest;
use strata_testkit::{Daemon, NetworkNamespace};

use crate::peers::{Namespaces, Peer};
use crate::stats::{Scoreboard, milliseconds, skipped};
use crate::world::{PROGRAM, rest, within};
use crate::{Effort, Result};

const RUNNING: &str = "strata: Create, until RUNNING";
const GONE: &str = "strata: Destroy, until it is gone";
const CRUN: &str = "crun run, no network";

#[allow(clippy::print_stdout)]
pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let network = NetworkNamespace::new();
    let daemon = Daemon::build(binary).role("up").within(&network);
    let daemon = daemon.start().await;
    let dir = tempfile::tempdir()?;
    let image = Image::busybox().entrypoint([PROGRAM, "sleep", "1000"]);
    let image = image.write_layout(&dir.path().join("image"), "latest");
    pull(&daemon, &image).await?;
    let target = Target::Tls {
        address: daemon.endpoints().server.ok_or("no server")?.parse()?,
        credentials: Credentials::read(&daemon.data_dir().join("client"))?,
    };
    // The server listens where the node is: in a network of its own.
    let all = || ours(&target, &image, effort.instances).map_err(|error| error.to_string());
    let all = tokio::task::block_in_place(|| within(&network, all))?;
    let (mut at_rest, mut in_a_row) = all?;
    match Peer::start("crun", PROGRAM, Namespaces::Cell) {
        Ok(mut crun) => {
            for _ in 0..effort.instances {
                rest();
                at_rest.add(CRUN, crun.run(1)?);
            }
            for _ in 0..effort.instances {
                in_a_row.add(CRUN, crun.run(1)?);
            }
        }
        Err(error) => skipped(CRUN, error),
    }
    for (how, board) in [
        ("With a rest before each", at_rest),
        ("One right after the other", in_a_row),
    ] {
        println!("{how}:\n");
        board.print();
        if let Some(p99) = board.at(RUNNING, 0.99) {
            println!("{RUNNING}, p99: {}", milliseconds(p99));
        }
        board.ratio(RUNNING, CRUN, "1");
        println!();
    }
    Ok(())
}

async fn pull(daemon: &Daemon, image: &str) -> Result {
    let request = PullImageRequest {
        reference: image.into(),
        ..PullImageRequest::default()
    };
    let node = daemon.node().await;
    let mut progress = node.client().images().pull(request).await?.into_inner();
    while progress.message().await?.is_some() {}
    Ok(())
}

/// On a thread that is in the node's network: with a rest, then in a row.
fn ours(target: &Target, image: &str, times: usize) -> Result<(Scoreboard, Scoreboard)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let connection = Connection::open(target).await?;
        let mut client = InstanceServiceClient::new(connection.channel());
        // The first makes the bridge, and warms what there is to be warmed.
        one(&mut client, image, &mut Scoreboard::default()).await?;
        let (mut at_rest, mut in_a_row) = (Scoreboard::default(), Scoreboard::default());
        for _ in 0..times {
            rest();
            one(&mut client, image, &mut at_rest).await?;
        }
        for _ in 0..times {
            one(&mut client, image, &mut in_a_row).await?;
        }
        Ok((at_rest, in_a_row))
    })
}

async fn one(
    client: &mut InstanceServiceClient<Channel>,
    image: &str,
    board: &mut Scoreboard,
) -> Result {
    let instance = Instance {
        uri: image.to_owned(),
        ..Instance::default()
    };
    let began = Instant::now();
    let mut statuses = client.create(instance).await?.into_inner();
    let id = loop {
        let status = statuses.message().await?.ok_or("it ended early")?;
        match status.status() {
            Status::Running => break status.id,
            Status::Failed => return Err(status.status_description.into()),
            _ => {}
        }
    };
    board.add(RUNNING, began.elapsed());
    let began = Instant::now();
    client.destroy(InstanceIdentifier { id }).await?;
    while statuses.message().await?.is_some() {}
    board.add(GONE, began.elapsed());
    Ok(())
}
