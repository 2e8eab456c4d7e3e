//! Machines that become hypervisors: `CreateHypervisor` over gRPC and TLS,
//! from the request until the operation is completed, which is when instances
//! may be placed there; and back. Virtual ones stand beside the same QEMU with
//! the same kernel, started by hand, until it reaches a user space that has
//! nothing to do.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use strata_api::operations::v1::operations_service_client::OperationsServiceClient;
use strata_api::operations::v1::{
    CreateHypervisorRequest, CreateHypervisorResponse, DestroyHypervisorRequest,
    DestroyHypervisorResponse, OperationState,
};
use strata_client::{Channel, ServerClient, Target};
use strata_identity::Credentials;
use strata_testkit::guest::{Guest, kernel, small_initramfs};
use strata_testkit::v1::ListVmsRequest;
use strata_testkit::{Daemon, NetworkNamespace, Node};
use tonic::Streaming;

use crate::stats::{Scoreboard, load, milliseconds, skipped};
use crate::vms::{bare, words_of};
use crate::world::{rest, within};
use crate::{Effort, Result};

const INSIDE: &str = "local-1";
const VIRTUAL: &str = "guest-1";
const LINE: &str = "user space is here";
const TIMEOUT: Duration = Duration::from_secs(180);
const UP: &str = "strata: CreateHypervisor, until COMPLETED";
const DOWN: &str = "strata: DestroyHypervisor, until COMPLETED";
const BARE: &str = "qemu-system, until user space";
/// Longest leases: none of them ends because the machine is busy.
const CONFIG: &str = "[scheduler]\nlease_seconds = 120\n";
const GUEST: &str = "[[machine]]\nid = 'guest-1'\nprovider = 'qemu'\ncpu = 2\nram = 1024\n";

type Operations = OperationsServiceClient<Channel>;

#[allow(clippy::print_stdout)]
pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let dir = tempfile::tempdir()?;
    let inventory = dir.path().join("machines.toml");
    fs::write(&inventory, GUEST)?;
    let initrd = dir.path().join("initramfs");
    let lacks = Guest::lacks();
    if lacks.is_none() {
        small_initramfs(&initrd, &format!("echo {LINE}\npoweroff -f"))?;
    }
    let network = NetworkNamespace::new();
    let kernel = kernel();
    let kernels = kernel.parent().ok_or("the kernel is in no directory")?;
    let config = format!(
        "{CONFIG}[machines]\ninventory = {inventory:?}\n\
         [machines.qemu]\nkernel_folder = {kernels:?}\n"
    );
    let daemon = Daemon::build(binary)
        .role("up")
        .config(&config)
        .within(&network);
    let daemon = daemon.start().await;
    let target = Target::Tls {
        address: daemon.endpoints().server.ok_or("no server")?.parse()?,
        credentials: Credentials::read(&daemon.data_dir().join("client"))?,
    };
    load("before");
    // The server listens where the node is: in a network of its own.
    let all = || {
        inside(&target, effort.machine_rounds)
            .and_then(|board| match lacks {
                None => Ok((board, Ok(virtuals(&target, &daemon, &initrd, effort)?))),
                Some(why) => Ok((board, Err(why))),
            })
            .map_err(|error| error.to_string())
    };
    let (inside, virtuals) = tokio::task::block_in_place(|| within(&network, all))??;
    println!("\nNested nodes:\n");
    inside.print();
    if let Some(worst) = inside.at(UP, 1.0) {
        println!("{UP}, worst: {} (aim 1000 ms)", milliseconds(worst));
    }
    match virtuals {
        Ok(board) => {
            println!("\nVirtual machines, 2 threads, 1024 MB:\n");
            board.print();
            board.ratio(UP, BARE, "-");
        }
        Err(why) => skipped("virtual machines", why),
    }
    load("after");
    Ok(())
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    Ok(runtime.enable_all().build()?)
}

/// On a thread that is in the node's network.
fn inside(target: &Target, times: usize) -> Result<Scoreboard> {
    runtime()?.block_on(async {
        let mut operations = ServerClient::connect(target).await?.operations();
        // The first makes the bridge, and warms what there is to be warmed.
        up(&mut operations, INSIDE, &mut Scoreboard::default()).await?;
        down(&mut operations, INSIDE, &mut Scoreboard::default()).await?;
        let mut board = Scoreboard::default();
        for _ in 0..times {
            rest();
            up(&mut operations, INSIDE, &mut board).await?;
            rest();
            down(&mut operations, INSIDE, &mut board).await?;
        }
        Ok(board)
    })
}

/// On a thread that is in the node's network.
fn virtuals(target: &Target, daemon: &Daemon, initrd: &Path, effort: Effort) -> Result<Scoreboard> {
    runtime()?.block_on(async {
        let mut operations = ServerClient::connect(target).await?.operations();
        let node = daemon.node().await;
        // The first builds what all of them boot, and finds out what QEMU can
        // do here.
        up(&mut operations, VIRTUAL, &mut Scoreboard::default()).await?;
        let words = without_node(words_of_guest(&node).await?, initrd);
        down(&mut operations, VIRTUAL, &mut Scoreboard::default()).await?;
        let mut board = Scoreboard::default();
        for _ in 0..effort.guest_rounds {
            rest();
            board.add(BARE, bare(&words, LINE)?);
            rest();
            up(&mut operations, VIRTUAL, &mut board).await?;
            rest();
            down(&mut operations, VIRTUAL, &mut board).await?;
        }
        Ok(board)
    })
}

async fn words_of_guest(node: &Node) -> Result<Vec<String>> {
    let all = node.client().vms().list(ListVmsRequest {}).await?;
    let vms = all.into_inner().vms;
    words_of(vms.first().ok_or("there is no virtual machine")?.process_id)
}

/// The same machine with another initramfs, and a network that needs no peer.
fn without_node(words: Vec<String>, initrd: &Path) -> Vec<String> {
    let mut before = String::new();
    let mut changed = Vec::with_capacity(words.len());
    for word in words {
        let new = match before.as_str() {
            "-initrd" => initrd.to_string_lossy().into_owned(),
            "-netdev" => "user,id=net0".to_owned(),
            _ => word.clone(),
        };
        changed.push(new);
        before = word;
    }
    changed
}

async fn up(operations: &mut Operations, id: &str, board: &mut Scoreboard) -> Result {
    let request = CreateHypervisorRequest { id: id.to_owned() };
    let begin = Instant::now();
    let told = operations.create_hypervisor(request).await?.into_inner();
    completed(told, begin, UP, board).await
}

async fn down(operations: &mut Operations, id: &str, board: &mut Scoreboard) -> Result {
    let request = DestroyHypervisorRequest { id: id.to_owned() };
    let begin = Instant::now();
    let told = operations.destroy_hypervisor(request).await?.into_inner();
    completed(told, begin, DOWN, board).await
}

/// What a message of an operation reports.
trait OperationMessage {
    fn told(self) -> (OperationState, String);
}

impl OperationMessage for CreateHypervisorResponse {
    fn told(self) -> (OperationState, String) {
        (self.state(), self.msg)
    }
}

impl OperationMessage for DestroyHypervisorResponse {
    fn told(self) -> (OperationState, String) {
        (self.state(), self.msg)
    }
}

/// Waits for the good end of an operation. Messages begin with the name of the
/// step that has begun: it lasts until the next one.
async fn completed<T: OperationMessage>(
    mut told: Streaming<T>,
    begin: Instant,
    what: &str,
    board: &mut Scoreboard,
) -> Result {
    let mut steps: Vec<(String, Instant)> = Vec::new();
    let end = loop {
        let next = tokio::time::timeout(TIMEOUT, told.message()).await??;
        let (state, msg) = next.ok_or("the operation's stream ended early")?.told();
        match state {
            OperationState::Completed => break Instant::now(),
            OperationState::Failed => return Err(format!("{what}: {msg}").into()),
            OperationState::Active => {
                let step = msg.split(':').next().unwrap_or_default();
                if steps.last().is_none_or(|(last, _)| last != step) {
                    steps.push((step.to_owned(), Instant::now()));
                }
            }
            _ => {}
        }
    };
    board.add(what, end - begin);
    for (number, (step, began)) in steps.iter().enumerate() {
        let ended = steps.get(number + 1).map_or(end, |(_, next)| *next);
        board.add(&format!("step {step}"), ended - *began);
    }
    Ok(())
}
