//! A daemon that is killed again and again, a pod beside the one that suffers,
//! and what must hold whenever all has settled.

use std::collections::BTreeSet;
use std::time::Duration;

use strata_testkit::images::Image;
use strata_testkit::pods::script;
use strata_testkit::v1::{Pod, PodSpec, PodState};
use strata_testkit::{
    Code, Daemon, DaemonBuilder, NetworkNamespace, Node, Status, TEST_TIMEOUT, Traces, wait_for,
};

use crate::pods_survival::STRATA;

/// Longer than anything takes; a call that hangs is a failure too.
const LIMIT: Duration = Duration::from_secs(60);
const WEB: &str = "mkdir -p /www; echo $HOSTNAME > /www/index.html; exec httpd -f -p 80 -h /www";

/// What is done to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodAction {
    /// With pull and unpacking.
    Create,
    Start,
    Stop,
    Destroy,
}

pub(crate) struct World {
    pub(crate) daemon: Daemon,
    pub(crate) node: Node,
    pub(crate) network: NetworkNamespace,
    /// Of the pod that suffers; another than that of the pod beside it.
    pub(crate) image: String,
    /// The name of the pod that suffers: another each time, because names
    /// that were there once are remembered.
    pub(crate) victim: String,
    count: usize,
}

impl World {
    /// With a pod beside it that serves its name.
    pub(crate) async fn new() -> Self {
        Self::build(Daemon::build(STRATA)).await
    }

    pub(crate) async fn with(config: &str) -> Self {
        Self::build(Daemon::build(STRATA).config(config)).await
    }

    pub(crate) async fn with_arguments(arguments: &[&str]) -> Self {
        let builder = Daemon::build(STRATA);
        let builder = arguments.iter().fold(builder, |b, word| b.arg(*word));
        Self::build(builder).await
    }

    async fn build(builder: DaemonBuilder) -> Self {
        let network = NetworkNamespace::new();
        let daemon = builder.within(&network).start().await;
        let node = daemon.node().await;
        let scratch = daemon.scratch();
        let beside = Image::busybox().write_layout(&scratch.join("beside"), "v1");
        let image = Image::busybox()
            .layer()
            .dir("srv/deep", 0o755, 1000)
            .file("srv/deep/file", b"yes")
            .symlink("srv/link", "deep/file")
            .noise("srv/noise", 1, 200_000)
            .layer()
            .file("srv/.wh.link", b"");
        let image = image.write_layout(&scratch.join("victim"), "v1");
        let world = Self {
            daemon,
            node,
            network,
            image,
            victim: "victim".into(),
            count: 0,
        };
        let pod = script("beside", &beside, WEB);
        world.node.run_pod(pod).await.expect("it can be run");
        world
    }

    pub(crate) fn spec(&self) -> PodSpec {
        PodSpec {
            ports: vec!["8099:80".into()],
            ..script(&self.victim, &self.image, WEB)
        }
    }

    /// What the machine has of the run, but for the daemon itself.
    fn look(&self) -> Traces {
        self.beside_the_daemon(self.daemon.host().look())
    }

    fn beside_the_daemon(&self, mut traces: Traces) -> Traces {
        let pid = self.daemon.pid().cast_signed();
        traces.processes.remove(&pid);
        traces
    }

    /// What the host has, at rest, and the rules of its network.
    pub(crate) async fn baseline(&self) -> (Traces, BTreeSet<String>) {
        let traces = self.daemon.host().settled().await;
        (self.beside_the_daemon(traces), self.rules())
    }

    /// Names and addresses that rules of the network speak of.
    pub(crate) fn rules(&self) -> BTreeSet<String> {
        let text = self.network.rules();
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || ".-_".contains(c)));
        let address = |word: &&str| word.parse::<std::net::Ipv4Addr>().is_ok();
        words.filter(address).map(str::to_owned).collect()
    }

    /// Kills the daemon, if it is not dead yet, and starts it again.
    pub(crate) async fn again(&mut self) {
        self.daemon.kill();
        self.daemon.restart().await;
        self.node = self.daemon.node().await;
        self.settled().await;
    }

    /// Waits until nothing is on its way to anything.
    pub(crate) async fn settled(&self) -> Vec<Pod> {
        use PodState::{Created, Exited, Failed, Running, Stopped};
        wait_for("all pods to settle", TEST_TIMEOUT, async || {
            let pods = self.node.pods().await.map_err(|e| e.to_string())?;
            let calm =
                |pod: &Pod| matches!(pod.state(), Created | Exited | Failed | Running | Stopped);
            match pods.iter().all(calm) {
                true => Ok(pods),
                false => Err(format!("{pods:?}")),
            }
        })
        .await
    }

    /// Brings the victim to where something can be done to it.
    pub(crate) async fn prepare(&self, action: PodAction) {
        match action {
            PodAction::Create => {}
            PodAction::Start => drop(
                self.node
                    .create_pod(self.spec())
                    .await
                    .expect("it can be made"),
            ),
            PodAction::Stop | PodAction::Destroy => {
                self.node.run_pod(self.spec()).await.expect("it can be run");
            }
        }
    }

    /// Does it; an answer is one only when all was done.
    pub(crate) async fn attempt(&self, action: PodAction) -> Result<(), Status> {
        let node = &self.node;
        let call = async {
            match action {
                PodAction::Create => node.create_pod(self.spec()).await.map(drop),
                PodAction::Start => node.start_pod(&self.victim).await.map(drop),
                PodAction::Stop => node.stop_pod(&self.victim).await.map(drop),
                PodAction::Destroy => node.destroy_pod(&self.victim).await,
            }
        };
        let answer = tokio::time::timeout(LIMIT, call).await;
        answer.unwrap_or_else(|_| panic!("{action:?} hangs"))
    }

    /// After a restart: what was answered is so, and what was not is whole
    /// or gone, and can be done again.
    pub(crate) async fn check(&self, action: PodAction, answered: bool) {
        use PodState::{Created, Running, Stopped};
        let found = self.victim_now().await;
        let state = found.as_ref().map(Pod::state);
        let allowed = match (action, answered) {
            (PodAction::Create, true) => vec![Some(Created)],
            (PodAction::Create, false) => vec![None, Some(Created)],
            (PodAction::Start, true) => vec![Some(Running)],
            (PodAction::Start, false) => vec![Some(Created), Some(Running)],
            (PodAction::Stop, true) => vec![Some(Stopped)],
            (PodAction::Stop, false) => vec![Some(Running), Some(Stopped)],
            (PodAction::Destroy, true) => vec![None],
            (PodAction::Destroy, false) => vec![None, Some(Running)],
        };
        assert!(
            allowed.contains(&state),
            "{action:?}, answered {answered}: {found:?}\n{}",
            self.daemon.log()
        );
        if state == Some(Running) {
            self.serves(&self.victim).await;
        }
        let again = self.attempt(action).await;
        assert!(
            again.is_ok(),
            "{action:?} again: {again:?}\n{}",
            self.daemon.log()
        );
        if action == PodAction::Start {
            self.serves(&self.victim).await;
        }
    }

    async fn victim_now(&self) -> Option<Pod> {
        match self.node.pod(&self.victim).await {
            Ok(pod) => Some(pod),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => panic!("{status}"),
        }
    }

    /// A pod runs, is reached by its name and its port, and reaches others.
    pub(crate) async fn serves(&self, name: &str) {
        let pod = self.node.pod(name).await.expect("it is there");
        assert_eq!(pod.state(), PodState::Running, "{pod:?}");
        assert!(pod.process_id > 0);
        let own = self
            .node
            .sh(name, "ip -4 -o addr show eth0; wget -qO- http://beside/");
        let own = own.await.expect("it can be asked");
        assert!(own.ok().contains(&pod.address), "{own:?}, not {pod:?}");
        assert!(own.stdout.trim_end().ends_with("beside"), "{own:?}");
        wait_for("the pod to serve", TEST_TIMEOUT, async || {
            let fetch = format!("wget -qO- http://{name}/");
            let seen = self.node.sh("beside", &fetch).await;
            let seen = seen.map_err(|status| status.to_string())?;
            match seen.stdout.trim_end() == name {
                true => Ok(()),
                false => Err(format!("{seen:?}")),
            }
        })
        .await;
    }

    /// Destroys the victim, if it is there, and forgets its image. The next
    /// victim is another.
    pub(crate) async fn clear(&mut self) {
        if self.victim_now().await.is_some() {
            self.node
                .destroy_pod(&self.victim)
                .await
                .expect("it can be done");
        }
        let cli = self.daemon.cli_with_endpoints();
        cli.run(["image", "remove", &self.image, "--yes"])
            .await
            .ok();
        cli.run(["image", "prune", "--yes"]).await.ok();
        self.count += 1;
        self.victim = format!("victim-{}", self.count);
    }

    /// The machine has what it had.
    pub(crate) async fn is_as(&self, before: &(Traces, BTreeSet<String>)) {
        wait_for("the machine to be as it was", TEST_TIMEOUT, async || {
            let now = self.look();
            match now == before.0 {
                true => Ok(()),
                false => Err(format!("{}\n{}", now.beyond(&before.0), self.daemon.log())),
            }
        })
        .await;
        assert_eq!(self.rules(), before.1);
    }
}
