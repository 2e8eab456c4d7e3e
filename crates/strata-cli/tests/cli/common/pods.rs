//! The pods of the fake node, and its service for them.

use strata_api::runtime::pods_server::Pods;
use strata_api::status_from_error;
use strata_api::strata::v1::{
    AttachInput, CellUsage, CreatePodRequest, DestroyPodRequest, DestroyPodResponse, ExecInput,
    ExecOutput, GetPodRequest, ListPodsRequest, ListPodsResponse, LogLine, Pod, PodEvent,
    PodHealth, PodLimits, PodLogsRequest, PodSpec, PodStat, PodState, PodStats, PodStatsRequest,
    PodUsage, StartPodRequest, StopPodRequest, WaitPodRequest, WatchPodsRequest,
};
use strata_types::Error;
use tonic::{Request, Response, Status, Streaming};

use super::data::{self, NOW_MS};
use super::exec;
use super::fake::{Shared, State};
use super::services::{Answer, Answers, stream};

pub fn pods() -> Vec<Pod> {
    let mut web = pod("web", "docker.io/library/nginx:1.27", PodState::Running);
    let spec = web.spec.as_mut().unwrap();
    spec.ports = vec!["8080:80".into(), "127.0.0.1:8443:443".into()];
    spec.labels = [("app".to_owned(), "shop".to_owned())].into();
    spec.limits = Some(PodLimits {
        cpu_millis: Some(1500),
        memory_bytes: Some(64 << 20),
        ..Default::default()
    });
    spec.environment = vec!["EVIL=\u{1b}[2J".into()];
    web.address = "10.66.0.2".into();
    web.process_id = 4711;
    web.set_health(PodHealth::Healthy);
    let mut job = pod("job", "alpine", PodState::Exited);
    job.exit_code = Some(3);
    job.ended_at_ms = NOW_MS - 5_000;
    job.reason = "exit 3".into();
    job.restarts = 4;
    let mut slow = pod("slow", "registry.lan:5000/team/app:v1", PodState::Running);
    slow.set_health(PodHealth::Unhealthy);
    slow.address = "10.66.0.3".into();
    vec![job, slow, web]
}

fn pod(name: &str, image: &str, state: PodState) -> Pod {
    Pod {
        spec: Some(PodSpec {
            name: name.into(),
            image: image.into(),
            ..Default::default()
        }),
        state: state.into(),
        id: format!("{name}-0192f0c1"),
        image_digest: format!("sha256:{}", "a".repeat(64)),
        created_at_ms: NOW_MS - 192_000,
        started_at_ms: NOW_MS - 60_000,
        usage: Some(PodUsage {
            cell: Some(CellUsage {
                cpu_usec: 1_230_000,
                memory_bytes: 12 << 20,
                memory_peak_bytes: 20 << 20,
                pids: 3,
                ..Default::default()
            }),
            disk_bytes: 2 << 20,
            network_received_bytes: 4096,
            network_sent_bytes: 1 << 20,
        }),
        ..Default::default()
    }
}

pub fn name(pod: &Pod) -> &str {
    &pod.spec.as_ref().unwrap().name
}

pub fn find(state: &State, wanted: &str) -> Result<Pod, Status> {
    let found = state.pods.iter().find(|pod| name(pod) == wanted);
    found.cloned().ok_or_else(|| {
        let error = Error::not_found(format!("there is no pod {wanted}"));
        status_from_error(&error.with_hint("`strata pod list` shows those there are"))
    })
}

fn change(state: &mut State, wanted: &str, to: PodState) -> Result<Pod, Status> {
    let found = state.pods.iter_mut().find(|pod| name(pod) == wanted);
    let pod = found.ok_or_else(|| Status::not_found(format!("there is no pod {wanted}")))?;
    pod.set_state(to);
    Ok(pod.clone())
}

#[tonic::async_trait]
impl Pods for Shared {
    type WatchStream = Answers<PodEvent>;
    type StatsStream = Answers<PodStats>;
    type LogsStream = Answers<LogLine>;
    type ExecStream = Answers<ExecOutput>;
    type AttachStream = Answers<ExecOutput>;

    async fn create(&self, request: Request<CreatePodRequest>) -> Answer<Pod> {
        let mut state = self.open()?;
        let request = request.into_inner();
        let spec = request.pod.unwrap_or_default();
        let checked = strata_types::pod::PodSpec::try_from(spec.clone());
        checked.map_err(|why| status_from_error(&why))?;
        state
            .calls
            .push(format!("create {} start={}", spec.name, request.start));
        state.created.push(spec.clone());
        let becomes = match request.start {
            true => PodState::Running,
            false => PodState::Created,
        };
        let made = Pod {
            address: "10.66.0.9".into(),
            spec: Some(spec.clone()),
            ..pod(&spec.name, &spec.image, becomes)
        };
        state.pods.push(made.clone());
        Ok(Response::new(made))
    }

    async fn start(&self, request: Request<StartPodRequest>) -> Answer<Pod> {
        let mut state = self.open()?;
        let name = request.into_inner().name;
        state.calls.push(format!("start {name}"));
        change(&mut state, &name, PodState::Running).map(Response::new)
    }

    async fn stop(&self, request: Request<StopPodRequest>) -> Answer<Pod> {
        let mut state = self.open()?;
        let request = request.into_inner();
        state
            .calls
            .push(format!("stop {} {:?}", request.name, request.grace_ms));
        change(&mut state, &request.name, PodState::Stopped).map(Response::new)
    }

    async fn destroy(&self, request: Request<DestroyPodRequest>) -> Answer<DestroyPodResponse> {
        let mut state = self.open()?;
        let request = request.into_inner();
        find(&state, &request.name)?;
        state.pods.retain(|pod| name(pod) != request.name);
        state
            .calls
            .push(format!("destroy {} {:?}", request.name, request.grace_ms));
        Ok(Response::new(DestroyPodResponse {}))
    }

    async fn get(&self, request: Request<GetPodRequest>) -> Answer<Pod> {
        let state = self.open()?;
        find(&state, &request.into_inner().name).map(Response::new)
    }

    async fn list(&self, request: Request<ListPodsRequest>) -> Answer<ListPodsResponse> {
        let state = self.open()?;
        let labels = request.into_inner().labels;
        let has = |pod: &&Pod| {
            let own = &pod.spec.as_ref().unwrap().labels;
            labels
                .iter()
                .all(|(key, value)| own.get(key) == Some(value))
        };
        let pods = state.pods.iter().filter(has).cloned().collect();
        Ok(Response::new(ListPodsResponse { pods }))
    }

    /// Every pod has ended by the time somebody waits for it.
    async fn wait(&self, request: Request<WaitPodRequest>) -> Answer<Pod> {
        let mut state = self.open()?;
        let name = request.into_inner().name;
        let was = find(&state, &name)?;
        let mut pod = change(&mut state, &name, PodState::Exited)?;
        pod.exit_code = was.exit_code.or(Some(state.exit_code));
        Ok(Response::new(pod))
    }

    async fn watch(&self, request: Request<WatchPodsRequest>) -> Answer<Self::WatchStream> {
        let state = self.open()?;
        let request = request.into_inner();
        let event = |at: i64, pod: &str, state: PodState, message: &str| PodEvent {
            at_ms: NOW_MS + at,
            pod: pod.into(),
            pod_id: format!("{pod}-0192f0c1"),
            state: state.into(),
            message: message.into(),
            missed: 0,
        };
        let mut events = vec![
            event(1, "web", PodState::Running, "started"),
            event(2, "job", PodState::Waiting, "exit 3\u{1b}[2J"),
            event(3, "job", PodState::Exited, "exit 3"),
        ];
        events[1].missed = 2;
        events.retain(|event| request.name.is_empty() || event.pod == request.name);
        // Those that only want to know that something happened are told once.
        events.truncate(if request.history { 3 } else { 1 });
        let endless = state.endless || request.history;
        Ok(Response::new(stream(events, endless)))
    }

    /// Two looks, one second apart, the second with half a cpu's work more.
    async fn stats(&self, request: Request<PodStatsRequest>) -> Answer<Self::StatsStream> {
        let state = self.open()?;
        let wanted = request.into_inner().name;
        let pods = state
            .pods
            .iter()
            .filter(|pod| wanted.is_empty() || name(pod) == wanted);
        let first = PodStats {
            pods: pods
                .map(|pod| PodStat {
                    name: name(pod).to_owned(),
                    state: pod.state,
                    usage: pod.usage,
                    limits: pod.spec.as_ref().and_then(|spec| spec.limits),
                })
                .collect(),
            observed_at_ms: NOW_MS - 1000,
        };
        let mut second = first.clone();
        second.observed_at_ms = NOW_MS;
        for usage in second.pods.iter_mut().filter_map(|pod| pod.usage.as_mut()) {
            usage.cell.as_mut().unwrap().cpu_usec += 500_000;
            usage.network_received_bytes += 10 << 10;
        }
        Ok(Response::new(stream(vec![first, second], state.endless)))
    }

    async fn logs(&self, request: Request<PodLogsRequest>) -> Answer<Self::LogsStream> {
        let mut state = self.open()?;
        let request = request.into_inner();
        find(&state, &request.name)?;
        let mut lines: Vec<LogLine> = data::logs()
            .into_iter()
            .filter(|(name, _)| *name == "main")
            .map(|(_, line)| line)
            .filter(|line| line.written_at_ms >= request.since_ms.unwrap_or(0))
            .collect();
        if request.previous {
            lines.truncate(1);
        }
        let tail = request.tail.map_or(lines.len(), |tail| tail as usize);
        let lines = lines.split_off(lines.len().saturating_sub(tail));
        let follow = request.follow;
        state.calls.push(format!("logs {}", request.name));
        Ok(Response::new(stream(lines, state.endless && follow)))
    }

    async fn exec(&self, request: Request<Streaming<ExecInput>>) -> Answer<Self::ExecStream> {
        drop(self.open()?);
        exec::exec(self.clone(), request.into_inner())
            .await
            .map(Response::new)
    }

    async fn attach(&self, request: Request<Streaming<AttachInput>>) -> Answer<Self::AttachStream> {
        drop(self.open()?);
        exec::attach(self.clone(), request.into_inner())
            .await
            .map(Response::new)
    }
}
