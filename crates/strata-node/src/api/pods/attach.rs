//! A pod's own process: what it writes from now on, and its input.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use strata_api::strata::v1;
use strata_api::strata::v1::attach_input::Input;
use strata_api::strata::v1::exec_output::Output;
use strata_audit::{SessionKind, SessionMeter, SessionRecorder};
use strata_identity::Caller;
use strata_tasks::spawn_detached;
use strata_types::{Error, Result};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::exec::{self, ended};
use super::{Answers, audit, may_enter, start_session, status};
use crate::api::logs::{LineRange, lines};
use crate::clock::now_ms;
use crate::logs::{LogWatch, follow_raw};
use crate::pods::{Attached, Input as AttachedInput, Pods, attach};

/// The most lines from before.
const MAX_TAIL: u32 = 10_000;

pub(super) async fn run(
    pods: &Pods,
    watch: &LogWatch,
    caller: Option<&Caller>,
    recorder: &SessionRecorder,
    mut input: Streaming<v1::AttachInput>,
) -> Result<Answers<v1::ExecOutput>, Status> {
    let first = input.message().await?.and_then(|message| message.input);
    let Some(Input::Start(start)) = first else {
        return Err(status(Error::invalid("start", "must come first")));
    };
    let pod = pods.find("start.pod", &start.pod).map_err(status)?;
    may_enter(pods, caller, &pod).map_err(status)?;
    let attached = attach(&pod).map_err(status)?;
    if let AttachedInput::Terminal(terminal) = &attached.input
        && let Some(size) = start.terminal
    {
        let size = exec::size("start.terminal", size).map_err(status)?;
        // One whose process has just ended needs none.
        let _ = terminal.resize(size);
    }
    let mut output = output(&attached, start.tail, watch).map_err(status)?;
    let session = start_session(recorder, SessionKind::Attach, &pod, &[]);
    let meter = session.meter();
    let (sender, stream) = mpsc::channel(16);
    let main = attached.main.clone();
    let typed = spawn_detached("attach-input", take_in(attached, input, session.meter()));
    spawn_detached("attach-session", async move {
        let started = Output::Started(v1::ExecStarted {
            process_id: main.pid,
        });
        let wrap = |output| {
            Ok(v1::ExecOutput {
                output: Some(output),
            })
        };
        let mut has_left = true;
        let mut gone = sender.send(wrap(started)).await.is_err();
        while !gone {
            let piece = tokio::select! {
                piece = output.next() => piece,
                () = sender.closed() => break,
            };
            gone = match piece {
                Some(Ok(piece)) => {
                    meter.received(length(&piece));
                    sender.send(wrap(piece)).await.is_err()
                }
                Some(Err(error)) => sender.send(Err(error)).await.is_err(),
                None => {
                    let view = main.ended().await;
                    let _ = sender.send(wrap(ended(view))).await;
                    has_left = false;
                    true
                }
            };
        }
        typed.abort();
        // A client that leaves does not end the process of a pod.
        session.end(match has_left {
            true => audit::caller_left(),
            false => audit::ended(&main.view(), false),
        });
    });
    Ok(Box::pin(ReceiverStream::new(stream)))
}

/// What it writes: a terminal's as it comes, otherwise whole lines.
fn output(attached: &Attached, tail: u32, watch: &LogWatch) -> Result<Answers<Output>> {
    let main = &attached.main;
    if let AttachedInput::Terminal(_) = attached.input {
        let tail = tail.min(MAX_TAIL);
        let pieces = follow_raw(&main.dir, tail, main.watch(), watch)?;
        let pieces = ReceiverStream::new(pieces);
        let pieces = pieces.map(|piece| piece.map(Output::Stdout).map_err(status));
        return Ok(Box::pin(pieces));
    }
    // Without lines from before it is the time that counts: what is typed now
    // may be answered before the log is opened.
    let (tail, since_ms) = match tail {
        0 => (MAX_TAIL, Some(now_ms())),
        tail => (tail.min(MAX_TAIL), None),
    };
    let wanted = LineRange {
        stdout: true,
        stderr: true,
        tail: Some(tail),
        since_ms,
        follow: true,
    };
    let lines = lines(main, watch, wanted)?;
    Ok(Box::pin(lines.map(|line| line.map(|line| piece(&line)))))
}

fn length(piece: &Output) -> usize {
    match piece {
        Output::Stdout(bytes) | Output::Stderr(bytes) => bytes.len(),
        Output::Started(_) | Output::Ended(_) => 0,
    }
}

fn piece(line: &v1::LogLine) -> Output {
    let mut bytes = Vec::with_capacity(line.line.len() + 1);
    bytes.extend_from_slice(&line.line);
    bytes.push(b'\n');
    match line.channel() {
        v1::LogChannel::Stderr => Output::Stderr(Bytes::from(bytes)),
        _ => Output::Stdout(Bytes::from(bytes)),
    }
}

async fn take_in(
    mut attached: Attached,
    mut input: Streaming<v1::AttachInput>,
    meter: Arc<SessionMeter>,
) {
    while let Ok(Some(message)) = input.message().await {
        match message.input {
            Some(Input::Stdin(bytes)) => {
                meter.sent(bytes.len());
                attached.type_in(&bytes).await;
            }
            Some(Input::End(_)) => attached.end_input().await,
            Some(Input::Resize(wire)) => {
                if let AttachedInput::Terminal(terminal) = &attached.input
                    && let Ok(size) = exec::size("resize", wire)
                {
                    let _ = terminal.resize(size);
                }
            }
            Some(Input::Signal(signal @ 1..=64)) => {
                let _ = attached.signal(signal);
            }
            _ => {}
        }
    }
}
