//! A node that does nothing but send its load and write down when each was
//! answered: what a real node fences itself by, over the whole of a test.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use strata_client::{Address, ServerClient, Target};
use strata_identity::Credentials;
use strata_testkit::v1::{self, node_message::Message, server_message};
use strata_testkit::{TEST_TIMEOUT, holds, wait_for};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_stream::wrappers::ReceiverStream;

/// How often it sends its load.
const LOAD_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Default)]
struct LoadLedger {
    answered: Vec<Duration>,
    unanswered: Vec<Instant>,
    ended: Option<String>,
}

pub(super) struct Ledger {
    book: Arc<Mutex<LoadLedger>>,
    task: AbortHandle,
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ledger {
    /// Follows the server at this address with a node's certificate.
    pub(super) async fn keep(address: &str, credentials: &Path) -> Self {
        let book = Arc::<Mutex<LoadLedger>>::default();
        let target = Target::Tls {
            address: address.parse::<Address>().expect("an address is one"),
            credentials: Credentials::read(credentials).expect("credentials can be read"),
        };
        let task = tokio::spawn({
            let book = book.clone();
            async move {
                let why = follow(&target, &book).await;
                book.lock().unwrap().ended = Some(why);
            }
        });
        let ledger = Self {
            book,
            task: task.abort_handle(),
        };
        wait_for("the first heartbeat", TEST_TIMEOUT, async || {
            let book = ledger.book.lock().unwrap();
            holds(!book.answered.is_empty()).map_err(|_| format!("{:?}", book.ended))
        })
        .await;
        ledger
    }

    /// How many heartbeats there were, and how long the slowest took, also of
    /// those that wait. The stream must never have ended.
    pub(super) fn close(self) -> (usize, Duration) {
        let book = self.book.lock().unwrap();
        assert_eq!(book.ended, None, "the stream of a node ended");
        let waiting = book.unanswered.iter().map(Instant::elapsed);
        let slowest = book.answered.iter().copied().chain(waiting).max();
        (book.answered.len(), slowest.unwrap_or_default())
    }
}

async fn follow(target: &Target, book: &Mutex<LoadLedger>) -> String {
    let client = match ServerClient::connect(target).await {
        Ok(client) => client,
        Err(error) => return error.to_string(),
    };
    let (sender, messages) = mpsc::channel(64);
    let say = |message| v1::NodeMessage {
        message: Some(message),
    };
    let hello = v1::Hello {
        capacity: Some(v1::Amounts {
            cpu: 1,
            memory: 1,
            disk: 1,
        }),
        ..v1::Hello::default()
    };
    for message in [Message::Hello(hello), Message::Reported(v1::Reported {})] {
        let _ = sender.send(say(message)).await;
    }
    let mut assignments = client.assignments();
    let followed = assignments.follow(ReceiverStream::new(messages)).await;
    let mut told = match followed {
        Ok(told) => told.into_inner(),
        Err(status) => return status.to_string(),
    };
    let mut ticks = tokio::time::interval(LOAD_INTERVAL);
    let mut welcomed = false;
    loop {
        tokio::select! {
            _ = ticks.tick(), if welcomed => {
                book.lock().unwrap().unanswered.push(Instant::now());
                if sender.try_send(say(Message::Load(v1::NodeLoad::default()))).is_err() {
                    return "loads are not taken".to_owned();
                }
            }
            message = told.message() => match message {
                Ok(Some(message)) => match message.message {
                    Some(server_message::Message::Complete(_)) => welcomed = true,
                    Some(server_message::Message::Beat(_)) => {
                        let mut book = book.lock().unwrap();
                        let sent = book.unanswered.remove(0);
                        book.answered.push(sent.elapsed());
                    }
                    _ => {}
                },
                Ok(None) => return "the server hung up".to_owned(),
                Err(status) => return status.to_string(),
            },
        }
    }
}
