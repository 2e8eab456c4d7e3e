//! Two hundred pods on one node, started as fast as they come: all reach each
//! other by name and by address, and when they are gone the machine and the
//! daemon are as they were.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use strata_testkit::images::Image;
use strata_testkit::pods::script;
use strata_testkit::v1::{Pod, PodState};
use strata_testkit::{Daemon, NetworkNamespace, Node, TEST_TIMEOUT, wait_for};
use tokio::task::JoinSet;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
const PODS: usize = 200;
const CLIENTS: usize = 16;
/// Answers whoever asks with the name of the pod.
const SERVE: &str = "mkdir /www; hostname > /www/index.html; exec httpd -f -p 80 -h /www";
/// What the daemon may keep in memory of all that: pages that its allocator
/// holds on to, and the past that it remembers.
const KEPT_KIB: u64 = 64 << 10;

fn name(i: usize) -> String {
    format!("pod-{i}")
}

/// Calls for every pod from so many clients, each with a connection of its own.
async fn each<T, F>(
    daemon: &Daemon,
    call: impl Fn(Node, usize) -> F + Clone + Send + 'static,
) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (node, next, call) = (daemon.node().await, next.clone(), call.clone());
        clients.spawn(async move {
            let mut answers = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= PODS {
                    return answers;
                }
                answers.push((i, call(node.clone(), i).await));
            }
        });
    }
    let mut answers: Vec<(usize, T)> = clients.join_all().await.into_iter().flatten().collect();
    answers.sort_by_key(|(i, _)| *i);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Memory of the daemon in KiB.
fn resident(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid()));
    let status = status.expect("the daemon runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    let number = number.and_then(|number| number.parse().ok());
    number.expect("a process has memory")
}

/// A script that asks each of these for its name, once, and says who does not
/// answer right.
fn ask(targets: impl IntoIterator<Item = (String, String)>) -> String {
    let mut text = "ask() { a=$(timeout 20 wget -qO- http://$1/ 2>&1); \
        [ \"$a\" = $2 ] || echo \"$1: $a\"; }\n"
        .to_owned();
    for (target, wanted) in targets {
        writeln!(text, "ask {target} {wanted}").expect("a string takes it");
    }
    text
}

/// Waits in a pod until it listens.
const WAIT: &str = "for i in $(seq 1000); do grep -q ':0050 ' /proc/net/tcp* && exit 0; \
     usleep 20000; done; exit 1";

/// Waits in each pod until it listens.
async fn all_serve(daemon: &Daemon) {
    let waited = each(
        daemon,
        |node, i| async move { node.sh(&name(i), WAIT).await },
    );
    for said in waited.await {
        said.expect("it can be asked").ok();
    }
}

#[allow(clippy::print_stderr)]
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_pods_reach_each_other_and_leave_no_trace() {
    let network = NetworkNamespace::new();
    let daemon = Daemon::build(STRATA).within(&network).start().await;
    let node = daemon.node().await;
    let image = Image::busybox().write_layout(&daemon.scratch().join("image"), "v1");
    // What all pods share.
    node.run_pod(script("warm", &image, SERVE)).await.unwrap();
    // Until then it is the shell, and another process to who looks.
    node.sh("warm", WAIT).await.unwrap().ok();
    let (traces, rules) = (daemon.host().settled().await, network.look());
    let (files, memory) = (daemon.open_files(), resident(&daemon));

    let begin = Instant::now();
    let made: Vec<Pod> = each(&daemon, move |node, i| {
        let pod = script(&name(i), &image, SERVE);
        async move { node.run_pod(pod).await.expect("a pod can be run") }
    })
    .await;
    let started = begin.elapsed();
    assert!(made.iter().all(|pod| pod.state() == PodState::Running));
    let full = (daemon.open_files(), resident(&daemon));
    all_serve(&daemon).await;

    let begin = Instant::now();
    let addresses: Arc<Vec<String>> = Arc::new(made.iter().map(|p| p.address.clone()).collect());
    let ring = each(&daemon, {
        let addresses = addresses.clone();
        move |node, i| {
            let next = (i + 1) % PODS;
            let targets = [name(next), addresses[next].clone()];
            let script = ask(targets.map(|target| (target, name(next))));
            async move { node.sh(&name(i), &script).await.expect("it can be asked") }
        }
    })
    .await;
    for (i, said) in ring.iter().enumerate() {
        assert_eq!(said.stdout, "", "{}: {said:?}", name(i));
    }
    let by_name = (0..PODS).map(|i| (name(i), name(i)));
    let by_address = (0..PODS).map(|i| (addresses[i].clone(), name(i)));
    let all = ask(by_name.chain(by_address));
    let said = node.sh(&name(0), &all).await.unwrap();
    assert_eq!(said.stdout, "", "{said:?}");
    let asked = begin.elapsed();

    let begin = Instant::now();
    let gone = each(&daemon, |node, i| async move {
        node.destroy_pod(&name(i)).await
    })
    .await;
    assert!(gone.iter().all(Result::is_ok), "{gone:?}");
    let destroyed = begin.elapsed();
    assert_eq!(node.pods().await.unwrap().len(), 1);
    daemon.host().returns_to(&traces).await;
    assert_eq!(network.look(), rules);
    wait_for("the daemon to let go of files", TEST_TIMEOUT, async || {
        let now = daemon.open_files();
        match now <= files {
            true => Ok(()),
            false => Err(format!(
                "{now}, not {files}: {:#?}",
                daemon.open_file_names()
            )),
        }
    })
    .await;
    let after = resident(&daemon);
    let rate = |took: Duration| PODS as f64 / took.as_secs_f64();
    eprintln!(
        "{PODS} pods: {:.0}/s started, {:.0}/s destroyed, asked in {asked:?}; files {files}, {}, {}; KiB {memory}, {}, {after}",
        rate(started),
        rate(destroyed),
        full.0,
        daemon.open_files(),
        full.1,
    );
    assert!(
        after < memory + KEPT_KIB,
        "{memory} KiB before, {after} after"
    );
}
