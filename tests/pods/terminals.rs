//! A pod's own process on a terminal, and the end of its input.

use strata_testkit::pods::script;
use strata_testkit::v1::attach_input::Input;
use strata_testkit::v1::exec_output::Output;
use strata_testkit::v1::{
    AttachInput, AttachStart, EndOfInput, ExecEnded, ExecOutput, PodSecurity, PodState,
    RestartPolicy, TerminalSize,
};
use strata_testkit::{Node, Streaming, TEST_TIMEOUT};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::pods::world;

/// Somebody who is attached to a pod.
struct AttachedClient {
    keys: mpsc::Sender<AttachInput>,
    output: Streaming<ExecOutput>,
    seen: String,
}

impl AttachedClient {
    async fn attach(node: &Node, pod: &str, tail: u32, size: (u32, u32)) -> Self {
        let (keys, input) = mpsc::channel(8);
        let start = Input::Start(AttachStart {
            pod: pod.into(),
            tail,
            terminal: Some(TerminalSize {
                rows: size.0,
                columns: size.1,
            }),
        });
        let first = AttachInput { input: Some(start) };
        keys.send(first).await.expect("there is room");
        let answer = node
            .client()
            .pods()
            .attach(ReceiverStream::new(input))
            .await;
        Self {
            keys,
            output: answer.expect("it can be attached to").into_inner(),
            seen: String::new(),
        }
    }

    async fn send(&self, input: Input) {
        // To one that has ended nothing is sent any more.
        let _ = self.keys.send(AttachInput { input: Some(input) }).await;
    }

    async fn types(&self, text: &str) {
        self.send(Input::Stdin(text.to_owned().into())).await;
    }

    /// The next message; its end once it has ended.
    async fn step(&mut self) -> Option<ExecEnded> {
        let message = tokio::time::timeout(TEST_TIMEOUT, self.output.message()).await;
        let message = message.unwrap_or_else(|_| panic!("silence after {:?}", self.seen));
        let message = message.expect("the node tells");
        match message.and_then(|message| message.output) {
            Some(Output::Stdout(bytes)) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
            Some(Output::Ended(ended)) => return Some(ended),
            Some(_) => {}
            None => panic!("no end after {:?}", self.seen),
        }
        None
    }

    async fn sees(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let ended = self.step().await;
            assert_eq!(ended, None, "{:?}", self.seen);
        }
    }

    async fn end(&mut self) -> ExecEnded {
        loop {
            if let Some(ended) = self.step().await {
                return ended;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attached_clients_share_the_terminal_of_a_pod() {
    let mut world = world().await;
    for mapped in [false, true] {
        let name = if mapped { "mapped" } else { "shell" };
        let mut spec = script(name, &world.image, "exec sh");
        spec.terminal = true;
        spec.restart = RestartPolicy::Never.into();
        spec.security = Some(PodSecurity {
            user_namespace: Some(mapped),
            ..PodSecurity::default()
        });
        world.node.run_pod(spec).await.unwrap();
        let mut person = AttachedClient::attach(&world.node, name, 100, (33, 101)).await;
        // The prompt comes without an end of line, also to who comes later.
        person.sees("# ").await;
        person.types("tty; stty size; echo kind-$TERM\n").await;
        person.sees("/dev/pts/0\r\n").await;
        person.sees("33 101").await;
        person.sees("kind-xterm").await;
        // The console is the same terminal, also for who has none of it.
        person
            .types("readlink -f /dev/console; test -c /dev/console && setsid sh -c 'echo by-con''sole > /dev/console'\n")
            .await;
        person.sees("/dev/pts/0\r\n").await;
        person.sees("by-console").await;
        let written = world.node.sh(name, "echo from-exec > /dev/console");
        written.await.unwrap().ok();
        person.sees("from-exec").await;
        let size = TerminalSize {
            rows: 40,
            columns: 120,
        };
        person.send(Input::Resize(size)).await;
        person
            .types("until [ \"$(stty size)\" = '40 120' ]; do :; done; echo re''sized\n")
            .await;
        person.sees("resized").await;
        // Its keys are keys: this one ends what runs in front, not the shell.
        person
            .types("sh -c 'echo as''leep; exec sleep 1000'\n")
            .await;
        person.sees("asleep").await;
        person.types("\u{3}").await;
        person.sees("^C").await;
        person.types("echo go''on-$?\n").await;
        person.sees("goon-130").await;
        drop(person);

        // Neither who leaves nor the death of the daemon hangs it up.
        let pid = world.node.pod(name).await.unwrap().process_id;
        world.daemon.kill();
        world.daemon.restart().await;
        world.node = world.daemon.node().await;
        let pod = world.node.pod(name).await.unwrap();
        assert_eq!((pod.state(), pod.process_id), (PodState::Running, pid));
        let mut person = AttachedClient::attach(&world.node, name, 0, (25, 80)).await;
        person.sees("# ").await;
        person.types("stty size; exit 42\n").await;
        assert_eq!(person.end().await.exit_code, Some(42));
        assert!(person.seen.contains("25 80"), "{:?}", person.seen);
        // What was shown is in the log.
        let log = world.node.pod_log(name).await.unwrap().join("\n");
        assert!(log.contains("kind-xterm") && log.contains("25 80"), "{log}");
        let pod = world.node.pod_becomes(name, PodState::Exited).await;
        assert_eq!(pod.exit_code, Some(42));
        // Another start is on another terminal.
        world.node.start_pod(name).await.unwrap();
        let mut person = AttachedClient::attach(&world.node, name, 100, (25, 80)).await;
        person.sees("# ").await;
        // Nothing more will come: the shell leaves.
        person.send(Input::End(EndOfInput {})).await;
        assert_eq!(person.end().await.exit_code, Some(0), "{:?}", person.seen);
        world.node.destroy_pod(name).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attached_input_ends_only_when_a_client_ends_it() {
    let world = world().await;
    let node = &world.node;
    for mapped in [false, true] {
        let name = if mapped { "mapped" } else { "plain" };
        let mut spec = script(
            name,
            &world.image,
            "while read line; do echo got $line; done; echo all",
        );
        spec.stdin = true;
        spec.restart = RestartPolicy::Never.into();
        spec.security = Some(PodSecurity {
            user_namespace: Some(mapped),
            ..PodSecurity::default()
        });
        node.run_pod(spec).await.unwrap();
        let mut first = AttachedClient::attach(node, name, 10, (24, 80)).await;
        first.types("one\n").await;
        first.sees("got one").await;
        drop(first);
        let mut second = AttachedClient::attach(node, name, 10, (24, 80)).await;
        second.types("two\n").await;
        second.send(Input::End(EndOfInput {})).await;
        assert_eq!(second.end().await.exit_code, Some(0));
        assert_eq!(second.seen, "got one\ngot two\nall\n");
        node.destroy_pod(name).await.unwrap();
    }
}
