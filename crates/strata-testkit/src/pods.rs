//! Pods as tests talk to them.

use std::time::Duration;

use strata_api::strata::v1::exec_input::Input;
use strata_api::strata::v1::pod_volume::Source;
use strata_api::strata::v1::{
    CreatePodRequest, DestroyPodRequest, ExecEnded, ExecInput, ExecStart, GetPodRequest,
    ListPodsRequest, LogLine, Pod, PodLogsRequest, PodSpec, PodState, PodVolume, StartPodRequest,
    StopPodRequest, WaitPodRequest,
};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use crate::Node;
use crate::wait::wait_for;

mod session;

pub use session::Session;

type Result<T> = std::result::Result<T, Status>;

/// A pod that runs a shell script from an image.
pub fn script(name: &str, image: &str, script: &str) -> PodSpec {
    PodSpec {
        name: name.into(),
        image: image.into(),
        entrypoint: vec!["/bin/sh".into(), "-c".into(), script.into()],
        stop_grace_ms: Some(500),
        ..PodSpec::default()
    }
}

/// A pod that does nothing until it is stopped.
pub fn idle(name: &str, image: &str) -> PodSpec {
    // The shell waits in a way that a signal interrupts.
    script(
        name,
        image,
        "trap exit TERM; while :; do sleep 60 & wait; done",
    )
}

/// Something mounted into a pod.
pub fn volume(source: Source, target: &str) -> PodVolume {
    PodVolume {
        source: Some(source),
        target: target.into(),
        read_only: false,
    }
}

/// A directory or file of the machine, mounted into a pod.
pub fn dir(path: &std::path::Path, target: &str) -> PodVolume {
    volume(Source::Folder(path.to_string_lossy().into()), target)
}

/// What to run in a pod: a shell script.
pub fn shell(pod: &str, script: &str) -> ExecStart {
    ExecStart {
        pod: pod.into(),
        command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        ..ExecStart::default()
    }
}

/// What a command in a pod came to.
#[derive(Debug)]
pub struct ExecResult {
    /// What it wrote.
    pub stdout: String,
    /// What it wrote about it.
    pub stderr: String,
    /// How it ended.
    pub ended: ExecEnded,
}

impl ExecResult {
    /// What it wrote, without the end of the last line; it must have exited
    /// with 0.
    ///
    /// # Panics
    /// When it failed.
    #[track_caller]
    pub fn ok(&self) -> &str {
        assert_eq!(self.ended.exit_code, Some(0), "{self:?}");
        self.stdout.trim_end()
    }
}

impl Node {
    /// Makes a pod and starts it.
    pub async fn run_pod(&self, pod: PodSpec) -> Result<Pod> {
        self.create_pod_as(pod, true).await
    }

    /// Makes a pod.
    pub async fn create_pod(&self, pod: PodSpec) -> Result<Pod> {
        self.create_pod_as(pod, false).await
    }

    async fn create_pod_as(&self, pod: PodSpec, start: bool) -> Result<Pod> {
        let request = CreatePodRequest {
            pod: Some(pod),
            start,
        };
        let answer = self.client().pods().create(request).await?;
        Ok(answer.into_inner())
    }

    /// Starts a pod.
    pub async fn start_pod(&self, name: &str) -> Result<Pod> {
        let request = StartPodRequest { name: name.into() };
        Ok(self.client().pods().start(request).await?.into_inner())
    }

    /// Stops a pod.
    pub async fn stop_pod(&self, name: &str) -> Result<Pod> {
        let request = StopPodRequest {
            name: name.into(),
            grace_ms: None,
        };
        Ok(self.client().pods().stop(request).await?.into_inner())
    }

    /// Destroys a pod.
    pub async fn destroy_pod(&self, name: &str) -> Result<()> {
        let request = DestroyPodRequest {
            name: name.into(),
            grace_ms: None,
        };
        self.client().pods().destroy(request).await.map(drop)
    }

    /// A pod as it is.
    pub async fn pod(&self, name: &str) -> Result<Pod> {
        let request = GetPodRequest { name: name.into() };
        Ok(self.client().pods().get(request).await?.into_inner())
    }

    /// All pods.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let request = ListPodsRequest::default();
        Ok(self.client().pods().list(request).await?.into_inner().pods)
    }

    /// Waits until a pod has ended permanently.
    pub async fn wait_pod(&self, name: &str) -> Result<Pod> {
        let request = WaitPodRequest { name: name.into() };
        Ok(self.client().pods().wait(request).await?.into_inner())
    }

    /// Waits until a pod is in a state.
    ///
    /// # Panics
    /// When it does not come to be.
    pub async fn pod_becomes(&self, name: &str, state: PodState) -> Pod {
        let max_wait = Duration::from_secs(30);
        wait_for("the pod's state", max_wait, async || {
            let pod = self.pod(name).await.map_err(|error| error.to_string())?;
            match pod.state() == state {
                true => Ok(pod),
                false => Err(format!("{:?}: {}", pod.state(), pod.reason)),
            }
        })
        .await
    }

    /// Waits until a pod meets the condition.
    ///
    /// # Panics
    /// When it does not come to be.
    pub async fn pod_until(&self, name: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
        wait_for("the pod", Duration::from_secs(30), async || {
            let pod = self.pod(name).await.map_err(|error| error.to_string())?;
            match wanted(&pod) {
                true => Ok(pod),
                false => Err(format!("{pod:?}")),
            }
        })
        .await
    }

    /// What a pod wrote, both channels, a line each.
    pub async fn pod_log(&self, name: &str) -> Result<Vec<String>> {
        let stream = self.pod_logs(PodLogsRequest {
            name: name.into(),
            ..PodLogsRequest::default()
        });
        let lines = crate::all(stream.await?).await?;
        Ok(lines.iter().map(text_of).collect())
    }

    /// Lines of a pod.
    pub async fn pod_logs(&self, request: PodLogsRequest) -> Result<Streaming<LogLine>> {
        Ok(self.client().pods().logs(request).await?.into_inner())
    }

    /// Runs a shell script in a pod to its end.
    pub async fn sh(&self, pod: &str, script: &str) -> Result<ExecResult> {
        self.exec(shell(pod, script)).await
    }

    /// What a shell script in a pod prints; it must exit with 0.
    ///
    /// # Panics
    /// When it cannot be run or fails.
    #[track_caller]
    pub fn says(&self, pod: &str, script: &str) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        async move {
            let done = self.sh(pod, script).await;
            let done = done.unwrap_or_else(|status| panic!("{caller}: {script}: {status}"));
            assert_eq!(
                done.ended.exit_code,
                Some(0),
                "{caller}: {script}: {done:?}"
            );
            done.stdout.trim_end().to_owned()
        }
    }

    /// Whether a shell script in a pod fails.
    ///
    /// # Panics
    /// When it cannot be run.
    #[track_caller]
    pub fn fails(&self, pod: &str, script: &str) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        async move {
            let done = self.sh(pod, script).await;
            let done = done.unwrap_or_else(|status| panic!("{caller}: {script}: {status}"));
            assert_ne!(
                done.ended.exit_code,
                Some(0),
                "{caller}: {script}: {done:?}"
            );
            done.stderr.trim_end().to_owned()
        }
    }

    /// Runs something in a pod to its end.
    pub async fn exec(&self, start: ExecStart) -> Result<ExecResult> {
        self.open(start).await?.finish().await
    }

    /// Starts something in a pod, and returns a session with it.
    pub async fn open(&self, start: ExecStart) -> Result<Session> {
        let (sender, input) = mpsc::channel(4);
        let first = ExecInput {
            input: Some(Input::Start(start)),
        };
        let _ = sender.send(first).await;
        let input = tokio_stream::wrappers::ReceiverStream::new(input);
        let output = self.client().pods().exec(input).await?.into_inner();
        Ok(Session::new(sender, output))
    }
}

/// The text of a line.
pub fn text_of(line: &LogLine) -> String {
    String::from_utf8_lossy(&line.line).into_owned()
}
