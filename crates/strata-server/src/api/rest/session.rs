//! `/instance/{id}/logs` and `/instance/{id}/exec`: what an instance wrote, and
//! running something in it. The server is in the middle: it calls the node.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::header::CONTENT_TYPE;
use strata_api::error_from_status;
use strata_api::rest::{ExecRequest, ExecResult};
use strata_api::strata::v1::{
    EndOfInput, ExecEnded, ExecInput, ExecOutput, ExecStart, LogLine, PodLogsRequest, exec_input,
    exec_output,
};
use strata_types::{Error, ErrorKind};
use tonic::Status;

use super::extract::{Auth, Json, Parameters, Recorder, ResourceId};
use super::rejection::Answer;
use super::{RestState, answer, json};

/// The most that is returned of each of a command's outputs.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;
const DEFAULT_EXEC_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_EXEC_SECONDS: u32 = 3600;

/// The lines it wrote, as plain text.
pub(super) async fn logs(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(id): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["project", "follow", "tail", "previous"])?;
    let project = parameters.label("project")?;
    let found = state.core.instance(&principal, project.as_ref(), &id)?;
    let tail = parameters.number("tail", 0, 1_000_000)?;
    let request = PodLogsRequest {
        name: found.id.to_string(),
        stdout: true,
        stderr: true,
        follow: parameters.flag("follow")?,
        tail: tail.and_then(|tail| u32::try_from(tail).ok()),
        since_ms: None,
        previous: parameters.flag("previous")?,
    };
    let lines = state.session.read_logs(&principal, request).await;
    let lines = lines.map_err(|status| error_from_status(&status))?;
    let text = lines.map(|line| line.map(|line| text_of(&line)));
    let end = state.shutdown.clone().cancelled_owned();
    let body = Body::from_stream(text.take_until(Box::pin(end)));
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

/// A line with its end, and before it how much is missing there.
fn text_of(line: &LogLine) -> Bytes {
    let mut text = Vec::with_capacity(line.line.len() + 1);
    if line.lost_bytes > 0 {
        text.extend_from_slice(format!("[{} bytes lost]\n", line.lost_bytes).as_bytes());
    }
    text.extend_from_slice(&line.line);
    text.push(b'\n');
    text.into()
}

/// Runs a command to its end.
pub(super) async fn exec(
    State(state): State<RestState>,
    Auth(principal): Auth,
    Recorder(recorder): Recorder,
    ResourceId(id): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&["project"])?;
    let project = parameters.label("project")?;
    let asked: ExecRequest = json::parse(&body)?;
    if asked.command.is_empty() {
        return Err(Error::invalid("command", "must not be empty").into());
    }
    let timeout = match asked.timeout_seconds {
        None => DEFAULT_EXEC_TIMEOUT,
        Some(seconds @ 1..=MAX_EXEC_SECONDS) => Duration::from_secs(seconds.into()),
        Some(_) => {
            let why = format!("must be 1 to {MAX_EXEC_SECONDS}");
            return Err(Error::invalid("timeoutSeconds", why).into());
        }
    };
    let found = state.core.instance(&principal, project.as_ref(), &id)?;
    let (start, rest) = input(found.id.to_string(), asked);
    let output = state.session.run(&principal, &recorder, start, rest).await;
    let output = output.map_err(|status| error_from_status(&status))?;
    match tokio::time::timeout(timeout, collect(output)).await {
        Ok(result) => answer::json(&result.map_err(|status| error_from_status(&status))?),
        // The client is gone: the node ends it.
        Err(_) => {
            let why = format!(
                "it did not end within {} s, and was ended",
                timeout.as_secs()
            );
            Err(Error::new(ErrorKind::Unavailable, why).into())
        }
    }
}

fn input(
    instance: String,
    asked: ExecRequest,
) -> (ExecInput, impl Stream<Item = ExecInput> + Send + 'static) {
    let wire = |input| ExecInput { input: Some(input) };
    let start = ExecStart {
        pod: instance,
        command: asked.command,
        environment: asked.environment,
        user: asked.user.unwrap_or_default(),
        working_directory: asked.working_directory.unwrap_or_default(),
        terminal: None,
        stdin: asked.stdin.is_some(),
    };
    let text = asked
        .stdin
        .map(|text| exec_input::Input::Stdin(Bytes::from(text)));
    let rest = text
        .into_iter()
        .chain([exec_input::Input::End(EndOfInput {})]);
    // The stream stays open: a client that closes it is taken to have left.
    let rest = stream::iter(rest.map(wire)).chain(stream::pending());
    (wire(exec_input::Input::Start(start)), rest)
}

async fn collect(
    mut output: impl Stream<Item = Result<ExecOutput, Status>> + Unpin,
) -> Result<ExecResult, Status> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut truncated = false;
    while let Some(next) = output.next().await {
        let (into, bytes) = match next?.output {
            Some(exec_output::Output::Stdout(bytes)) => (&mut stdout, bytes),
            Some(exec_output::Output::Stderr(bytes)) => (&mut stderr, bytes),
            Some(exec_output::Output::Ended(ended)) => {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                return Ok(ExecResult {
                    exit_code: exit_code(&ended),
                    stdout: text(stdout),
                    stderr: text(stderr),
                    truncated,
                });
            }
            Some(exec_output::Output::Started(_)) | None => continue,
        };
        let room = MAX_OUTPUT_BYTES.saturating_sub(into.len());
        truncated |= bytes.len() > room;
        into.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
    Err(Status::unavailable("the node went away"))
}

fn exit_code(ended: &ExecEnded) -> i32 {
    match (ended.exit_code, ended.signal) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_log_have_their_ends() {
        let line = |text: &str, lost_bytes| LogLine {
            line: text.as_bytes().to_vec().into(),
            lost_bytes,
            ..LogLine::default()
        };
        let all = [line("one", 0), line("", 0), line("partial", 3)].map(|line| text_of(&line));
        assert_eq!(all.concat(), b"one\n\n[3 bytes lost]\npartial\n");
    }
}
