//! The server dies at each write of each step of a rotation of the CA: what it
//! leaves works, says how far it is, and the step can be repeated.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::PathBuf;

use strata_testkit::faults::{Step, TracedCalls, Tracer};
use strata_testkit::serde_json::{self, Value};
use strata_testkit::{Daemon, Https, TEST_TIMEOUT, rounds, wait_for};

use super::STRATA;

/// What changes files; the rest is talk.
const KINDS: [&str; 6] = [
    "create",
    "linkat",
    "rename",
    "unlink",
    "unlinkat",
    "write to a file",
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum RotationStep {
    Rotate,
    Activate,
    Retire,
}

impl RotationStep {
    const ALL: [Self; 3] = [Self::Rotate, Self::Activate, Self::Retire];

    fn path(self) -> &'static str {
        match self {
            Self::Rotate => "/ca/rotate",
            Self::Activate => "/ca/activate",
            Self::Retire => "/ca/retire",
        }
    }

    /// The phase before and after it.
    fn phases(self) -> [&'static str; 2] {
        match self {
            Self::Rotate => ["stable", "introduced"],
            Self::Activate => ["introduced", "issuing"],
            Self::Retire => ["issuing", "stable"],
        }
    }
}

struct World {
    daemon: Daemon,
}

impl World {
    fn client(&self) -> PathBuf {
        self.daemon.data_dir().join("client")
    }

    async fn call(&self, method: &'static str, path: &'static str) -> std::io::Result<Value> {
        let client = self.client();
        let url = self.daemon.endpoints().server.unwrap();
        let sent = tokio::task::spawn_blocking(move || {
            let https = Https::new(&url, &client.join("ca.crt"), Some(&client));
            let headers = [("content-type", "application/json")];
            let body = if method == "GET" { "" } else { "{}" };
            https.send_with(method, path, &headers, body)
        });
        let answer = sent.await.unwrap()?;
        match answer.status {
            200 => Ok(serde_json::from_str(&answer.body)?),
            _ => Err(std::io::Error::other(format!("{answer:?}"))),
        }
    }

    /// Until it is answered: the files of the client may just be exchanged, and
    /// the node beside the server has to renew before the last step.
    async fn done(&self, method: &'static str, path: &'static str) -> Value {
        wait_for(path, TEST_TIMEOUT, async || {
            self.call(method, path).await.map_err(|why| why.to_string())
        })
        .await
    }

    async fn phase(&self) -> String {
        let ca = self.done("GET", "/ca").await;
        ca["phase"].as_str().unwrap().to_owned()
    }

    /// Goes on from wherever it is to where this deed begins.
    async fn prepare(&self, action: RotationStep) {
        loop {
            let phase = self.phase().await;
            if phase == action.phases()[0] {
                return;
            }
            let next = RotationStep::ALL
                .into_iter()
                .find(|action| action.phases()[0] == phase);
            self.advance(next.unwrap()).await;
        }
    }

    /// Until it has its effect. Its answer may get lost: the certificate that
    /// the client showed may be of the root that goes.
    async fn advance(&self, action: RotationStep) {
        wait_for(action.path(), TEST_TIMEOUT, async || {
            match self.call("POST", action.path()).await {
                Ok(_) => Ok(()),
                Err(_) if self.phase().await == action.phases()[1] => Ok(()),
                Err(why) => Err(why.to_string()),
            }
        })
        .await;
    }

    /// Does it once, and has the daemon killed at a step.
    async fn strike(&mut self, action: RotationStep, step: Option<Step>) -> TracedCalls {
        self.prepare(action).await;
        if action == RotationStep::Retire {
            wait_for(
                "nothing to depend on the old root",
                TEST_TIMEOUT,
                async || {
                    let ca = self.done("GET", "/ca").await;
                    match ca["remaining"] == 0 {
                        true => Ok(()),
                        false => Err(ca.to_string()),
                    }
                },
            )
            .await;
        }
        let dir = self.daemon.data_dir();
        let tracer = Tracer::attach(self.daemon.pid(), &dir, step);
        let answered = self.call("POST", action.path()).await;
        let seen = tracer.finish();
        if seen.struck.is_some() {
            self.daemon.kill();
            self.daemon.restart().await;
        }
        let phase = self.phase().await;
        assert!(
            action.phases().contains(&phase.as_str()),
            "{action:?}: {phase}"
        );
        if answered.is_ok() {
            assert_eq!(phase, action.phases()[1], "{action:?}: {:?}", seen.struck);
        }
        if phase == action.phases()[0] {
            self.advance(action).await;
        }
        assert_eq!(self.phase().await, action.phases()[1]);
        self.check();
        seen
    }

    /// No key is left that others can read, or that nothing needs.
    fn check(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        for file in fs::read_dir(self.daemon.data_dir().join("ca")).unwrap() {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            if name.ends_with(".key") {
                let mode = file.metadata().unwrap().permissions().mode() & 0o777;
                assert_eq!(mode, 0o600, "{name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn server_dies_at_every_write_of_a_rotation() {
    let daemon = Daemon::build(STRATA).start().await;
    let mut world = World { daemon };
    let mut struck = 0;
    for action in RotationStep::ALL {
        let seen = world.strike(action, None).await;
        let steps = seen.steps(rounds(2, usize::MAX));
        for step in steps {
            if KINDS.contains(&step.call.as_str()) {
                let seen = world.strike(action, Some(step)).await;
                struck += usize::from(seen.struck.is_some());
            }
        }
    }
    eprintln!("died {struck} times");
    assert!(struck > 6, "{struck}");
    world.prepare(RotationStep::Rotate).await;
    world.daemon.node().await.allocate("works").await.unwrap();
}
