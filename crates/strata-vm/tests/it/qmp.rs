//! The client against servers that are not QEMU: hostile ones, ones with false
//! answers, ones that do not read.
#![allow(clippy::unwrap_used)]

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use strata_vm::{Event, Qmp, QmpError};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

const GREETING: &str = r#"{"QMP": {"version": {"qemu": {"micro": 0, "minor": 2, "major": 7}, "package": ""}, "capabilities": []}}"#;
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(30);

/// A socket at which `serve` is what one client meets.
fn server<F: Future<Output = ()> + Send + 'static>(
    serve: impl FnOnce(UnixStream) -> F + Send + 'static,
) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("qmp.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream).await;
    });
    (dir, socket)
}

/// The other side of a connection that began well.
struct Fake {
    lines: tokio::io::Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Fake {
    async fn greet(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        let lines = BufReader::new(reader).lines();
        let mut fake = Self { lines, writer };
        fake.say(GREETING).await;
        let asked = fake.asked().await;
        assert_eq!(asked["execute"], "qmp_capabilities");
        fake.say(&json!({"return": {}, "id": asked["id"]}).to_string())
            .await;
        fake
    }

    async fn asked(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn say(&mut self, line: &str) {
        let line = format!("{line}\r\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    /// Until the client hangs up.
    async fn stay(mut self) {
        while let Ok(Some(_)) = self.lines.next_line().await {}
    }
}

async fn wait_forever() {
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_socket_that_never_greets_is_given_up_in_time() {
    let (_dir, socket) = server(|stream| async move {
        wait_forever().await;
        drop(stream);
    });
    let error = Qmp::connect(&socket, SHORT).await.unwrap_err();
    assert!(matches!(error, QmpError::NoGreeting { .. }), "{error}");
}

#[tokio::test]
async fn qemu_that_stops_answering_after_its_greeting_times_out() {
    let (_dir, socket) = server(|mut stream| async move {
        stream.write_all(GREETING.as_bytes()).await.unwrap();
        stream.write_all(b"\r\n").await.unwrap();
        wait_forever().await;
    });
    let error = Qmp::connect(&socket, SHORT).await.unwrap_err();
    assert!(matches!(error, QmpError::NoGreeting { .. }), "{error}");
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_waited_for_and_then_named() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nothing");
    let error = Qmp::connect(&socket, SHORT).await.unwrap_err();
    assert!(error.to_string().contains("nothing"), "{error}");
}

#[tokio::test]
async fn garbage_instead_of_a_greeting_is_refused() {
    let endless = "x".repeat(3 << 20);
    let bad = ["SSH-2.0-x\r\n", "\n", "{}\n", "[1]\n", "\u{0}\n", &endless];
    for bad in bad.map(str::to_owned) {
        let shown: String = bad.chars().take(10).collect();
        let (_dir, socket) = server(|mut stream| async move {
            let _ = stream.write_all(bad.as_bytes()).await;
            wait_forever().await;
        });
        let error = Qmp::connect(&socket, LONG).await.unwrap_err();
        assert!(matches!(error, QmpError::Garbage(_)), "{shown:?}: {error}");
    }
}

#[tokio::test]
async fn garbage_later_ends_the_connection_for_everybody() {
    let (_dir, socket) = server(|stream| async move {
        let mut fake = Fake::greet(stream).await;
        fake.asked().await;
        fake.say("guru meditation").await;
        fake.stay().await;
    });
    let qmp = Qmp::connect(&socket, LONG).await.unwrap();
    let error = qmp.status().await.unwrap_err();
    assert!(matches!(error, QmpError::Garbage(_)), "{error}");
    assert_eq!(qmp.ended().await, error);
    assert_eq!(qmp.status().await.unwrap_err(), error);
    assert_eq!(qmp.events().next().await, None);
}

#[tokio::test]
async fn answers_find_their_callers_in_any_order() {
    let (_dir, socket) = server(|stream| async move {
        let mut fake = Fake::greet(stream).await;
        let (first, second) = (fake.asked().await, fake.asked().await);
        fake.say(r#"{"return": {"status": "lies"}, "id": 999}"#)
            .await;
        for asked in [second, first] {
            let status = json!({"running": true, "status": asked["execute"]});
            let status = json!({"return": status, "id": asked["id"]});
            fake.say(&status.to_string()).await;
        }
        fake.stay().await;
    });
    let qmp = Qmp::connect(&socket, LONG).await.unwrap();
    let ask = |command| qmp.execute::<strata_vm::Status>(command, Value::Null);
    let (first, second) = tokio::join!(ask("first"), ask("second"));
    assert_eq!(first.unwrap().state, "first");
    assert_eq!(second.unwrap().state, "second");
}

#[tokio::test]
async fn no_answer_in_time_is_an_error_and_a_late_one_is_dropped() {
    let (_dir, socket) = server(|stream| async move {
        let mut fake = Fake::greet(stream).await;
        let (late, next) = (fake.asked().await, fake.asked().await);
        for (asked, state) in [(late, "old"), (next, "new")] {
            let status = json!({"running": true, "status": state});
            let status = json!({"return": status, "id": asked["id"]});
            fake.say(&status.to_string()).await;
        }
        fake.stay().await;
    });
    let qmp = Qmp::connect(&socket, LONG).await.unwrap();
    let hasty = qmp.clone().answering_within(SHORT);
    let error = hasty.status().await.unwrap_err();
    assert!(matches!(error, QmpError::NoAnswer { .. }), "{error}");
    assert_eq!(qmp.status().await.unwrap().state, "new");
}

#[tokio::test]
async fn refusals_carry_the_words_and_the_connection_goes_on() {
    let (_dir, socket) = server(|stream| async move {
        let mut fake = Fake::greet(stream).await;
        let asked = fake.asked().await;
        let refusal = json!({"class": "DeviceNotActive", "desc": "No balloon"});
        fake.say(&json!({"error": refusal, "id": asked["id"]}).to_string())
            .await;
        let asked = fake.asked().await;
        fake.say(&json!({"return": [], "id": asked["id"]}).to_string())
            .await;
        fake.stay().await;
    });
    let qmp = Qmp::connect(&socket, LONG).await.unwrap();
    let error = qmp.memory().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "query-balloon was refused: No balloon (DeviceNotActive)"
    );
    // An answer of another shape.
    let error = qmp.status().await.unwrap_err();
    assert!(matches!(error, QmpError::Answer { .. }), "{error}");
}

#[tokio::test]
async fn events_come_in_order_and_those_missed_are_counted() {
    let (_dir, socket) = server(|stream| async move {
        let mut fake = Fake::greet(stream).await;
        fake.asked().await;
        for _ in 0..100 {
            fake.say(r#"{"event": "STOP", "timestamp": {"seconds": 1, "microseconds": 2}}"#)
                .await;
        }
        fake.say(r#"{"event": "SHUTDOWN", "data": {"guest": true, "reason": "x"}}"#)
            .await;
        fake.say(r#"{"event": "NEW_ONE"}"#).await;
    });
    let qmp = Qmp::connect(&socket, LONG).await.unwrap();
    let mut events = qmp.events();
    assert_eq!(qmp.quit().await, Err(QmpError::Closed));
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event);
    }
    let [missed, between @ .., shutdown, new] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!(*missed, Event::Missed(38));
    assert!(between.len() == 62 && between.iter().all(|event| *event == Event::Stop));
    assert_eq!(*shutdown, Event::Shutdown { by_guest: true });
    assert_eq!(*new, Event::Unknown("NEW_ONE".into()));
}

#[tokio::test]
async fn dropping_the_last_handle_hangs_up() {
    let (gone, is_gone) = tokio::sync::oneshot::channel();
    let (_dir, socket) = server(|stream| async move {
        Fake::greet(stream).await.stay().await;
        gone.send(()).unwrap();
    });
    let qmp = Qmp::connect(&socket, LONG).await.unwrap();
    let other = qmp.clone();
    drop(qmp);
    drop(other);
    tokio::time::timeout(LONG, is_gone).await.unwrap().unwrap();
}
