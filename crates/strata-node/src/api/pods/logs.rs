//! What a pod wrote: the run it is in, or the one before; followed across
//! restarts on request.

use std::sync::Arc;

use futures_util::StreamExt as _;
use strata_api::strata::v1;
use strata_tasks::spawn_detached;
use strata_types::{Error, Result};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::Answers;
use crate::api::logs::{LineRange, lines};
use crate::cells::Executable;
use crate::logs::LogWatch;
use crate::pods::{MAIN, PodRef};

/// Lines on their way to a client that does not take them as they come.
const CHANNEL_CAPACITY: usize = 64;

pub(super) fn read(
    pod: &PodRef,
    watch: &LogWatch,
    request: &v1::PodLogsRequest,
) -> Result<Answers<v1::LogLine>> {
    let runs = runs(pod)?;
    let back = usize::from(request.previous);
    let run = runs
        .len()
        .checked_sub(1 + back)
        .and_then(|at| runs.get(at))
        .cloned();
    let Some(run) = run else {
        return Err(Error::wrong_state(match request.previous {
            true => "there was no run before the latest",
            false => "the pod was never started",
        }));
    };
    let wanted = LineRange {
        stdout: request.stdout,
        stderr: request.stderr,
        tail: request.tail,
        since_ms: request.since_ms,
        follow: request.follow && !request.previous,
    };
    let first = lines(&run, watch, wanted)?;
    if !wanted.follow {
        return Ok(first);
    }
    let (sender, stream) = mpsc::channel(CHANNEL_CAPACITY);
    spawn_detached(
        "pod-log-stream",
        follow(pod.clone(), watch.clone(), wanted, run, first, sender),
    );
    Ok(Box::pin(ReceiverStream::new(stream)))
}

/// The runs of a pod's own process that are remembered, the latest last.
pub(super) fn runs(pod: &PodRef) -> Result<Vec<Arc<Executable>>> {
    let record = pod.record();
    let name = record.spec.name.label().clone().into();
    let cell = pod.kind()?.cells.find("name", &name).ok();
    let mut runs: Vec<_> = cell.map(|cell| cell.runs()).unwrap_or_default();
    runs.retain(|run| run.spec.name.as_str() == MAIN);
    runs.sort_by_key(|run| run.run);
    Ok(runs)
}

/// Goes on with the next run while there is one.
async fn follow(
    pod: PodRef,
    watch: LogWatch,
    wanted: LineRange,
    mut run: Arc<Executable>,
    mut lines: Answers<v1::LogLine>,
    sender: mpsc::Sender<Result<v1::LogLine, tonic::Status>>,
) {
    loop {
        while let Some(line) = lines.next().await {
            if sender.send(line).await.is_err() {
                return;
            }
        }
        let mut views = pod.watch();
        let next = views.wait_for(|view| {
            let other = view.main.as_ref().is_some_and(|main| main.run != run.run);
            other || view.is_over()
        });
        let next = tokio::select! {
            next = next => next.ok().and_then(|view| view.main.clone()),
            () = sender.closed() => return,
        };
        run = match next {
            Some(main) if main.run != run.run => main,
            _ => return,
        };
        // All of a new run is unread.
        let wanted = LineRange {
            tail: None,
            ..wanted
        };
        match crate::api::logs::lines(&run, &watch, wanted) {
            Ok(stream) => lines = stream,
            Err(_) => return,
        }
    }
}
