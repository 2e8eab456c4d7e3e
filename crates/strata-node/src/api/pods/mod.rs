//! `runtime.Pods`: containers.

mod attach;
mod exec;
mod logs;
mod views;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use strata_api::grace_from_field;
use strata_api::runtime;
use strata_api::strata::v1;
use strata_audit::{Session, SessionKind, SessionRecorder};
use strata_identity::Caller;
use strata_types::pod::{Capabilities, PodNetwork, PodSpec, Rlimit, VolumeSource};
use strata_types::{Error, ErrorKind, Result, Role};
use tonic::{Request, Response, Status, Streaming};

use super::units::Answers;
use super::views::{hide_values, sees_secrets};
use super::{audit, status};
use crate::Node;
use crate::blocking::detached;
use crate::host_path::is_allowed;
use crate::images::{may_read, may_read_path, reference_from_field};
use crate::logs::LogWatch;
use crate::network::project_of;
use crate::pods::{PodRef, Pods};

pub(super) struct PodsApi {
    pods: Pods,
    watch: LogWatch,
}

impl PodsApi {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            pods: node.pods.clone(),
            watch: node.watch.clone(),
        }
    }

    fn find(&self, name: &str) -> Result<PodRef, Status> {
        self.pods.find("name", name).map_err(status)
    }
}

fn grace(ms: Option<u32>) -> Result<Option<Duration>, Status> {
    let read = ms.map(|ms| grace_from_field("grace_ms", ms)).transpose();
    read.map_err(status)
}

/// Whether this caller may have such a pod: what reaches out of a pod is for
/// admins, and so are files of the machine, but for directories that the
/// configuration names.
fn may_run(caller: Option<&Caller>, spec: &PodSpec, dirs: &[PathBuf]) -> Result<()> {
    if caller.is_some_and(|caller| caller.role == Role::Admin) {
        return Ok(());
    }
    for volume in &spec.volumes {
        if let VolumeSource::Directory(path) = &volume.source {
            may_read_path(caller, Path::new(path), dirs)?;
        }
    }
    unprivileged(spec)
}

/// Refuses what of a pod reaches into its host, but for directories.
fn unprivileged(spec: &PodSpec) -> Result<()> {
    let usual = Capabilities::default();
    let more = spec
        .security
        .capabilities
        .iter()
        .any(|one| !usual.contains(one));
    let reaches_out = [
        (
            "the machine's own network",
            spec.network == PodNetwork::Host,
        ),
        ("the users of the host", !spec.has_own_users()),
        ("capabilities beyond the usual ones", more),
        ("every system call", spec.security.any_system_call),
        (
            "a limit that raises the priority of its processes (nice, rtprio)",
            spec.rlimits.iter().any(Rlimit::raises_priority),
        ),
    ];
    match reaches_out.into_iter().find(|(_, asked)| *asked) {
        Some((what, _)) => Err(Error::new(
            ErrorKind::PermissionDenied,
            format!("only an admin may run a pod with {what}"),
        )),
        None => Ok(()),
    }
}

/// Whether this caller may run something in a pod, or type into it: a caller
/// that may not create such a pod may not use one that an admin created,
/// either.
fn may_enter(pods: &Pods, caller: Option<&Caller>, pod: &PodRef) -> Result<()> {
    let spec = pod.record().spec;
    let dirs = &pods.kind().images.config().local_dirs;
    may_run(caller, &spec, dirs).map_err(|_| admins_only(&spec, "run commands in"))
}

/// Whether this caller may start, stop or destroy a pod, which another may have
/// created. Its directories are checked by their names alone: a start opens them
/// through no link, and nothing on the disk keeps a caller from ending its pod.
fn may_manage(pods: &Pods, caller: Option<&Caller>, pod: &PodRef, act: &str) -> Result<()> {
    if caller.is_some_and(|caller| caller.role == Role::Admin) {
        return Ok(());
    }
    let spec = pod.record().spec;
    let dirs = &pods.kind().images.config().local_dirs;
    let is_named = spec.volumes.iter().all(|volume| match &volume.source {
        VolumeSource::Directory(path) => is_allowed(Path::new(path), dirs),
        _ => true,
    });
    match is_named && unprivileged(&spec).is_ok() {
        true => Ok(()),
        false => Err(admins_only(&spec, act)),
    }
}

fn admins_only(spec: &PodSpec, act: &str) -> Error {
    let why = format!(
        "pod {} reaches into its host: only an admin may {act} it",
        spec.name
    );
    Error::new(ErrorKind::PermissionDenied, why)
}

/// Writes into the audit log that a session in a pod begins.
fn start_session(
    recorder: &SessionRecorder,
    kind: SessionKind,
    pod: &PodRef,
    command: &[String],
) -> Session {
    let record = pod.record();
    let project = project_of(&record.spec.labels);
    let object = format!("pod/{}", record.spec.name);
    recorder.start(kind, object, project.as_deref(), command)
}

/// What a caller may see of a pod: viewers see which variables there are, not
/// what is in them.
fn seen_by(caller: Option<&Caller>, mut pod: v1::Pod) -> v1::Pod {
    if !sees_secrets(caller)
        && let Some(spec) = &mut pod.spec
    {
        hide_values(&mut spec.environment);
    }
    pod
}

async fn create(
    pods: Pods,
    caller: Option<Caller>,
    request: v1::CreatePodRequest,
) -> Result<v1::Pod> {
    let pod = request
        .pod
        .ok_or_else(|| Error::invalid("pod", "is missing"))?;
    let spec = PodSpec::try_from(pod)?;
    let reference = reference_from_field("pod.image", &spec.image)?;
    may_run(
        caller.as_ref(),
        &spec,
        &pods.kind().images.config().local_dirs,
    )?;
    may_read(
        caller.as_ref(),
        &reference,
        &pods.kind().images.config().local_dirs,
    )?;
    let pod = pods.create(spec, request.start).await?;
    Ok(views::pod(&pod))
}

#[tonic::async_trait]
impl runtime::pods_server::Pods for PodsApi {
    async fn create(
        &self,
        request: Request<v1::CreatePodRequest>,
    ) -> Result<Response<v1::Pod>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let work = create(self.pods.clone(), caller, request.into_inner());
        detached(work).await.map(Response::new).map_err(status)
    }

    async fn start(
        &self,
        request: Request<v1::StartPodRequest>,
    ) -> Result<Response<v1::Pod>, Status> {
        let pod = self.find(&request.get_ref().name)?;
        let caller = request.extensions().get::<Caller>();
        may_manage(&self.pods, caller, &pod, "start").map_err(status)?;
        let work = async move { pod.start().await.map(|()| views::pod(&pod)) };
        detached(work).await.map(Response::new).map_err(status)
    }

    async fn stop(
        &self,
        request: Request<v1::StopPodRequest>,
    ) -> Result<Response<v1::Pod>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let request = request.into_inner();
        let (pod, grace) = (self.find(&request.name)?, grace(request.grace_ms)?);
        may_manage(&self.pods, caller.as_ref(), &pod, "stop").map_err(status)?;
        let work = async move { pod.stop(grace).await.map(|()| views::pod(&pod)) };
        detached(work).await.map(Response::new).map_err(status)
    }

    async fn destroy(
        &self,
        request: Request<v1::DestroyPodRequest>,
    ) -> Result<Response<v1::DestroyPodResponse>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let request = request.into_inner();
        let (pods, grace) = (self.pods.clone(), grace(request.grace_ms)?);
        // What is not there is refused, or accepted, below.
        if let Ok(pod) = pods.find("name", &request.name) {
            may_manage(&pods, caller.as_ref(), &pod, "destroy").map_err(status)?;
        }
        let work = async move { pods.destroy("name", &request.name, grace).await };
        detached(work).await.map_err(status)?;
        Ok(Response::new(v1::DestroyPodResponse {}))
    }

    async fn get(&self, request: Request<v1::GetPodRequest>) -> Result<Response<v1::Pod>, Status> {
        let caller = request.extensions().get::<Caller>();
        let pod = self.find(&request.get_ref().name)?;
        Ok(Response::new(seen_by(caller, views::pod_with_usage(&pod))))
    }

    async fn list(
        &self,
        request: Request<v1::ListPodsRequest>,
    ) -> Result<Response<v1::ListPodsResponse>, Status> {
        let caller = request.extensions().get::<Caller>();
        let wanted = &request.get_ref().labels;
        let has_all = |pod: &PodRef| {
            let labels = pod.record().spec.labels;
            wanted
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
        };
        let pods = self.pods.list();
        let pods = pods
            .iter()
            .filter(|pod| has_all(pod))
            .map(|pod| seen_by(caller, views::pod(pod)))
            .collect();
        Ok(Response::new(v1::ListPodsResponse { pods }))
    }

    async fn wait(
        &self,
        request: Request<v1::WaitPodRequest>,
    ) -> Result<Response<v1::Pod>, Status> {
        let caller = request.extensions().get::<Caller>();
        let pod = self.find(&request.get_ref().name)?;
        let mut watch = pod.watch();
        let _ = watch.wait_for(crate::units::View::is_over).await;
        Ok(Response::new(seen_by(caller, views::pod(&pod))))
    }

    type WatchStream = Answers<v1::PodEvent>;

    async fn watch(
        &self,
        request: Request<v1::WatchPodsRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        watch::events(&self.pods, request.into_inner())
            .map(Response::new)
            .map_err(status)
    }

    type StatsStream = Answers<v1::PodStats>;

    async fn stats(
        &self,
        request: Request<v1::PodStatsRequest>,
    ) -> Result<Response<Self::StatsStream>, Status> {
        watch::stats(&self.pods, request.into_inner())
            .map(Response::new)
            .map_err(status)
    }

    type LogsStream = Answers<v1::LogLine>;

    async fn logs(
        &self,
        request: Request<v1::PodLogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        let pod = self.find(&request.get_ref().name)?;
        logs::read(&pod, &self.watch, request.get_ref())
            .map(Response::new)
            .map_err(status)
    }

    type ExecStream = Answers<v1::ExecOutput>;

    async fn exec(
        &self,
        request: Request<Streaming<v1::ExecInput>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let recorder = audit::recorder(&request);
        exec::run(&self.pods, caller.as_ref(), &recorder, request.into_inner())
            .await
            .map(Response::new)
    }

    type AttachStream = Answers<v1::ExecOutput>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::AttachInput>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let recorder = audit::recorder(&request);
        let input = request.into_inner();
        attach::run(&self.pods, &self.watch, caller.as_ref(), &recorder, input)
            .await
            .map(Response::new)
    }
}
