//! A node that follows a server: the real daemon with real pods, and a server
//! that says what the test wants it to say and writes down what it hears.

mod assignment_failures;
mod damaged_records;
mod fake_server;
mod instance_lifecycle;
mod lease;
mod network;
mod ownership;
mod redelivery;
mod reports;
mod restart;
mod tunnel;
mod vms;
mod withdrawal;

use fake_server::{Conversation, Server};
use strata_testkit::images::busybox_layout;
use strata_testkit::v1::assignment::Spec;
use strata_testkit::v1::{Assignment, PodSpec, RestartPolicy, Wanted};
use strata_testkit::{Daemon, NetworkNamespace, Node};

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

/// A node in a network of its own, the server it follows, and an image.
struct World {
    node: Node,
    image: String,
    daemon: Daemon,
    server: Server,
    network: NetworkNamespace,
}

async fn world() -> World {
    world_with("").await
}

async fn world_with(config: &str) -> World {
    let network = NetworkNamespace::new();
    let server = Server::start(&network);
    let daemon = Daemon::build(STRATA)
        .role("node")
        .config(config)
        .arg("--server")
        .arg(server.url())
        .arg("--join-token")
        .arg(server.token())
        .arg("--name")
        .arg("n1")
        .within(&network)
        .start()
        .await;
    let node = daemon.node().await;
    let image = busybox_layout(&daemon.scratch());
    World {
        node,
        image,
        daemon,
        server,
        network,
    }
}

impl World {
    /// The next conversation, welcomed and told that all was said.
    async fn followed(&mut self) -> Conversation {
        let conversation = self.server.next().await;
        conversation.welcome().await;
        conversation.complete().await;
        conversation
    }
}

/// A pod that is to run.
fn run(id: &str, pod: PodSpec) -> Assignment {
    Assignment {
        id: id.into(),
        generation: 1,
        wanted: Wanted::Running.into(),
        spec: Some(Spec::Pod(pod)),
        ..Assignment::default()
    }
}

/// One that is not started again when it ends.
fn never(pod: PodSpec) -> PodSpec {
    PodSpec {
        restart: RestartPolicy::Never.into(),
        ..pod
    }
}

/// The same, to be stopped.
fn stopped(assignment: &Assignment) -> Assignment {
    Assignment {
        wanted: Wanted::Stopped.into(),
        ..assignment.clone()
    }
}
