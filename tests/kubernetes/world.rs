//! A control plane with nested nodes, whose clusters are made,
//! changed and followed by REST and the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use strata_testkit::cluster::Rest;
use strata_testkit::machines::machine;
use strata_testkit::serde_json::{Value, from_str};
use strata_testkit::{Daemon, NamespaceProxy, NetworkNamespace, Traces, wait_for};
use tokio::sync::{Mutex, MutexGuard};

use crate::kubernetes::bundles::Bundles;
use crate::kubernetes::{STRATA, tell};

/// How long a step of a cluster may take on a machine that is busy.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(300);
pub(crate) const ADDRESS: &str = "127.0.0.1:7700";
/// How long the kernel may take to forget the dead.
const REAP_TIMEOUT: Duration = Duration::from_secs(30);
/// The cluster of every test.
pub(crate) const CLUSTER: &str = "k1";

/// Whose turn it is.
static TURN: Mutex<()> = Mutex::const_new(());

/// A control plane and its machines.
pub(crate) struct World {
    pub(crate) daemon: Daemon,
    pub(crate) network: NetworkNamespace,
    pub(crate) bundles: Bundles,
    way: NamespaceProxy,
    _turn: MutexGuard<'static, ()>,
}

impl World {
    /// With so many machines, when it is this test's turn; none where there is
    /// no Kubernetes.
    pub(crate) async fn start(machines: u32) -> Option<Self> {
        Self::with(&format!("local = {machines}"), Duration::from_secs(10)).await
    }

    /// With machines as the configuration says, of which one that is silent so
    /// long is taken for dead.
    pub(crate) async fn with(machines: &str, silent: Duration) -> Option<Self> {
        let bundles = Bundles::find()?;
        let turn = TURN.lock().await;
        let network = NetworkNamespace::new();
        let dir = bundles.dir.display();
        let config = format!(
            "[machines]\n{machines}\n[images]\nhigh_water = 100\n\
             [clusters]\nbundles = \"{dir}\"\nreplace_after_seconds = {}\n",
            silent.as_secs()
        );
        let daemon = Daemon::build(STRATA)
            .config(&config)
            .listen(ADDRESS)
            .within(&network)
            .start()
            .await;
        let far: SocketAddr = ADDRESS.parse().unwrap();
        Some(Self {
            way: NamespaceProxy::to(&network, far).await,
            daemon,
            network,
            bundles,
            _turn: turn,
        })
    }

    /// Kills the daemon and starts it again on the same directory.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.daemon.kill();
        self.daemon.restart().await;
    }

    pub(crate) fn credentials(&self) -> PathBuf {
        self.daemon.data_dir().join("client")
    }

    pub(crate) fn near(&self) -> SocketAddr {
        self.way.near()
    }

    pub(crate) fn rest(&self) -> Rest {
        Rest::new(self.near(), &self.credentials())
    }

    /// The command line, which must succeed; what it printed for scripts.
    pub(crate) async fn cli(&self, words: &str) -> String {
        self.daemon
            .cli_with_endpoints()
            .run(words.split(' '))
            .await
            .ok()
    }

    /// Begins an operation; its id.
    pub(crate) async fn begin(&self, method: &str, path: &str, body: Value) -> String {
        let answer = self.rest().call(method, path, body).await;
        assert_eq!(answer.status, 202, "{path}: {answer:?}");
        let begun: Value = from_str(&answer.body).unwrap();
        begun["id"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of an operation; its record.
    pub(crate) async fn ended(&self, id: &str) -> Value {
        self.ended_within(id, TEST_TIMEOUT).await
    }

    /// The same where it may take this long.
    pub(crate) async fn ended_within(&self, id: &str, max_wait: Duration) -> Value {
        let over = |one: &Value| one["status"] == "COMPLETED" || one["status"] == "FAILED";
        let path = format!("/operation/{id}");
        self.until_within(&path, max_wait, over).await
    }

    /// Waits for the good end of an operation; its record.
    pub(crate) async fn completed(&self, id: &str) -> Value {
        let ended = self.ended(id).await;
        assert_eq!(ended["status"], "COMPLETED", "{ended:#}");
        ended
    }

    /// Begins an operation by the command line and waits for its good end.
    pub(crate) async fn done(&self, words: &str) -> Value {
        let begun = std::time::Instant::now();
        let id = self.cli(&format!("{words} --detach")).await;
        let ended = self.completed(id.trim()).await;
        tell(&format!("{words}: {:.1?}", begun.elapsed()));
        ended
    }

    /// Waits until an operation has come to this step.
    pub(crate) async fn comes_to(&self, id: &str, step: &str) {
        let path = format!("/operation/{id}");
        let come = |one: &Value| {
            let steps = one["steps"].as_array().cloned().unwrap_or_default();
            let met = |it: &Value| it["name"].as_str().is_some_and(|it| it.starts_with(step));
            assert_ne!(one["status"], "COMPLETED", "no step {step}: {one:#}");
            steps.iter().any(met)
        };
        self.until(&path, come).await;
    }

    /// Kills the daemon when the operation has come to this step, and starts it
    /// again.
    pub(crate) async fn killed_at(&mut self, id: &str, step: &str) {
        self.comes_to(id, step).await;
        self.kill_and_restart().await;
    }

    /// The same when a step tells of this.
    pub(crate) async fn killed_at_word(&mut self, id: &str, word: &str) {
        let path = format!("/operation/{id}");
        let told = |one: &Value| {
            let over = one["status"] == "COMPLETED" || one["status"] == "FAILED";
            assert!(!over, "nobody told of {word}: {one:#}");
            let steps = one["steps"].as_array().cloned().unwrap_or_default();
            let tells = |it: &Value| it["progress"].as_str().is_some_and(|it| it.contains(word));
            steps.iter().any(tells)
        };
        self.until(&path, told).await;
        self.kill_and_restart().await;
    }

    /// The same while this program runs on one of the machines.
    pub(crate) async fn killed_amid(&mut self, machines: &[String], program: &str) {
        self.says_yes(machines, &format!("pidof {program}")).await;
        self.kill_and_restart().await;
    }

    /// Waits until a shell script ends well on one of the machines.
    pub(crate) async fn says_yes(&self, machines: &[String], script: &str) {
        wait_for(script, TEST_TIMEOUT, async || {
            let mut last = None;
            for machine in machines {
                let ran = self.on(machine, script).await;
                if ran.status.success() {
                    return Ok(());
                }
                last = Some(ran);
            }
            Err(format!("{machines:?}: {last:?}"))
        })
        .await;
    }

    /// Waits until an object is as it is asked to be. The server may be away.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until_within(path, TEST_TIMEOUT, wanted).await
    }

    async fn until_within(
        &self,
        path: &str,
        max_wait: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let rest = self.rest();
        wait_for(path, max_wait, async || {
            let answer = rest.try_call("GET", path, Value::Null).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let one: Value = from_str(&answer.body).unwrap_or(Value::Null);
            match answer.status == 200 && wanted(&one) {
                true => Ok(one),
                false => Err(format!("{answer:?}")),
            }
        })
        .await
    }

    /// Waits until the cluster has this status.
    pub(crate) async fn is(&self, status: &str) -> Value {
        let path = format!("/cluster/{CLUSTER}");
        self.until(&path, |one| one["status"] == status).await
    }

    /// The machines of a role, or of a pool.
    pub(crate) async fn members(&self, role_or_pool: &str) -> Vec<String> {
        let nodes = self.rest().get(&format!("/cluster/{CLUSTER}/node")).await;
        let nodes = nodes.as_array().cloned().unwrap_or_default().into_iter();
        let meant = |it: &Value| it["role"] == role_or_pool || it["pool"] == role_or_pool;
        let names = nodes.filter(meant);
        let mut names: Vec<String> = names
            .map(|it| it["machine"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    /// The address of a machine.
    pub(crate) async fn address(&self, machine: &str) -> String {
        let machine = self.daemon.node().await.machine(machine).await.unwrap();
        machine.address.split('/').next().unwrap().to_owned()
    }

    /// Runs a shell script on a machine, seen as a process of it sees it.
    pub(crate) async fn on(&self, machine: &str, script: &str) -> Output {
        let found = self.daemon.node().await.machine(machine).await.unwrap();
        let pid = found.process_id.to_string();
        let words = ["-t", &pid, "-m", "-n", "-p", "-i", "-u"];
        let mut command = std::process::Command::new("timeout");
        command.args(["120", "nsenter"]).args(words);
        command.args(["sh", "-c", script]);
        let output = tokio::task::spawn_blocking(move || command.output());
        output.await.unwrap().unwrap()
    }

    /// What is on the host before there is a cluster: with what the first
    /// machine of all leaves for the next ones.
    pub(crate) async fn before(&self) -> Traces {
        let node = self.daemon.node().await;
        node.spawn(machine("first")).await.unwrap();
        node.destroy_machine("first").await.unwrap();
        self.beside_the_daemon(self.daemon.host().settled().await)
    }

    /// What is on the host beside the daemon itself.
    fn look(&self) -> Traces {
        self.beside_the_daemon(self.daemon.host().look())
    }

    fn beside_the_daemon(&self, mut traces: Traces) -> Traces {
        let daemon = i32::try_from(self.daemon.pid()).unwrap();
        traces.processes.remove(&daemon);
        // The group above all virtual machines is kept for the next one.
        traces.cgroups.retain(|group| !group.ends_with("_vms"));
        traces
    }

    /// Nothing of any cluster is left: the host is as it was, and all machines
    /// can be taken.
    pub(crate) async fn returns_to(&self, before: &Traces) {
        wait_for("the machine to be as it was", REAP_TIMEOUT, async || {
            let now = self.look();
            let told = now.beyond(before);
            (now == *before).then_some(()).ok_or(told)
        })
        .await;
        let machines = self.rest().get("/machine").await;
        for machine in machines.as_array().unwrap() {
            assert_eq!(machine["phase"], "AVAILABLE", "{machine:#}");
        }
        let clusters = self.rest().get("/cluster").await;
        assert!(clusters.as_array().unwrap().is_empty(), "{clusters:#}");
    }
}
