//! A further process in a running pod, with its input and output connected to
//! the caller. Nothing of it is kept when it has ended.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Gid, Uid};
use rustix::pipe::{PipeFlags, pipe_with};
use strata_cell::Stdio;
use strata_types::pod::PodState;
use strata_types::{CommandLine, EnvironmentVariable, Error, ExecutableSpec, Result};
use tokio::net::unix::pipe;

use super::kind::PodKind;
use super::terminal::{Terminal, TerminalSize};
use super::{PodRef, plan, users};
use crate::blocking::blocking;
use crate::cells::{Cell, Executable, LaunchOptions, RunView, owner_on_host};
use crate::units::UnitKind as _;

/// What is to be run.
pub(crate) struct ExecRequest {
    pub(crate) command: CommandLine,
    pub(crate) environment: Vec<EnvironmentVariable>,
    pub(crate) user: Option<String>,
    pub(crate) working_directory: Option<String>,
    pub(crate) terminal: Option<TerminalSize>,
    pub(crate) stdin: bool,
}

/// A process that runs.
pub(crate) struct ExecHandle {
    cell: Arc<Cell>,
    pub(crate) run: Arc<Executable>,
}

/// Our ends of what a process reads and writes.
pub(crate) enum ExecStreams {
    Pipes {
        stdin: Option<pipe::Sender>,
        stdout: pipe::Receiver,
        stderr: pipe::Receiver,
    },
    Terminal(Arc<Terminal>),
}

impl ExecHandle {
    /// Sends a signal to its process group.
    pub(crate) fn signal(&self, signal: i32) -> Result<()> {
        self.cell.signal(&self.run, signal)
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) -> RunView {
        self.run.ended().await
    }

    /// Ends it, if no caller is there to wait for it, and deletes its state.
    pub(crate) async fn close(self) {
        if let Err(error) = self.cell.stop_run(&self.run, None).await {
            let cell = &self.cell.spec.name;
            tracing::warn!(%cell, %error, "exec process not stopped after its caller disconnected");
        }
        self.cell.forget(&self.run);
    }
}

/// What is wrong with an executable, as what is wrong with the request.
fn in_request(error: Error) -> Error {
    let field = match error.field() {
        Some("executable.command") => "start.command",
        Some("executable.options.working_directory") => "start.working_directory",
        Some("executable.rlimits") => "pod.rlimits",
        _ => return error,
    };
    error.in_field(field)
}

/// Runs something in a pod.
pub(crate) async fn exec(pod: &PodRef, request: ExecRequest) -> Result<(ExecHandle, ExecStreams)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let record = pod.record();
    let (spec, allocated) = (&record.spec, &record.allocated);
    if pod.view().state != PodState::Running {
        return Err(Error::wrong_state(format!(
            "pod {:?} is {}, not running",
            spec.name.as_str(),
            pod.view().state
        ))
        .with_hint(format!("start it first: strata pod start {}", spec.name)));
    }
    let kind = pod.kind()?;
    let cell = kind.cells.find("pod", &PodKind::cell(spec))?;
    let init = cell.init()?;
    let wanted = request.user.as_deref().or(spec.user.as_deref());
    let wanted = wanted.unwrap_or(&allocated.config.user);
    let gone = |error| Error::unavailable(format!("the pod's init is gone: {error}"));
    let root = blocking(|| init.root()).map_err(gone)?;
    let user = blocking(|| users::find(&root, wanted)).map_err(|error| match request.user {
        Some(_) => error.in_field("start.user"),
        None => error,
    })?;
    let mut environment = plan::environment(spec, &allocated.config, &user);
    if request.terminal.is_some() && !environment.iter().any(|v| v.key() == "TERM") {
        environment.extend(EnvironmentVariable::try_from("TERM=xterm".to_owned()));
    }
    // What comes with the call goes before what the pod has.
    let mut secrets = blocking(|| kind.rootfs_builder.secrets.environment(spec))?;
    secrets.retain(|it| {
        !request
            .environment
            .iter()
            .any(|asked| asked.key() == it.key())
    });
    for variable in request.environment {
        environment.retain(|known| known.key() != variable.key());
        environment.push(variable);
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = plan::working_directory(spec, &allocated.config);
    let executable = ExecutableSpec {
        name: format!("exec-{}-{number}", std::process::id()).parse()?,
        cell: PodKind::cell(spec),
        command: request.command,
        description: String::new(),
        environment,
        working_directory: Some(request.working_directory.unwrap_or(dir)),
        stop_grace: std::time::Duration::from_secs(1),
        stop_signal: ExecutableSpec::default_stop_signal(),
        restart: ExecutableSpec::default_restart(),
        identity: user.identity.clone(),
    };
    let (run, streams) = match request.terminal {
        Some(size) => {
            let owner = user.identity.uid.unwrap_or(0);
            let owner = allocated
                .id_map
                .map_or(owner, |map| map.first.saturating_add(owner));
            let (terminal, theirs) = blocking(|| Terminal::open(&root, size, owner))?;
            let launch_options = LaunchOptions {
                stdio: Stdio::Terminal(theirs.as_fd()),
                sandboxed: true,
                as_init: false,
                main: false,
                environment: &secrets,
            };
            let run = cell
                .start_again(executable, launch_options)
                .await
                .map_err(in_request)?;
            (run, ExecStreams::Terminal(Arc::new(terminal)))
        }
        None => start_piped(&cell, executable, request.stdin, &secrets).await?,
    };
    Ok((ExecHandle { cell, run }, streams))
}

async fn start_piped(
    cell: &Arc<Cell>,
    executable: ExecutableSpec,
    with_input: bool,
    secrets: &[EnvironmentVariable],
) -> Result<(Arc<Executable>, ExecStreams)> {
    let failed = |error: std::io::Error| Error::internal(format!("cannot make a pipe: {error}"));
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()));
    let (input, our_input) = pipe()?;
    let (our_output, output) = pipe()?;
    let (our_errors, errors) = pipe()?;
    // A process that opens `/dev/stdout` opens the pipe again, by its owner and
    // mode.
    let (uid, gid) = owner_on_host(&executable.identity, cell.spec.id_map);
    for end in [&input, &output, &errors] {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::fchown(end, Some(uid), Some(gid)).map_err(|errno| failed(errno.into()))?;
    }
    let files = [input.as_fd(), output.as_fd(), errors.as_fd()];
    let launch_options = LaunchOptions {
        stdio: Stdio::Files(files),
        sandboxed: true,
        as_init: false,
        main: false,
        environment: secrets,
    };
    let run = cell
        .start_again(executable, launch_options)
        .await
        .map_err(in_request)?;
    let receiver = |fd: OwnedFd| {
        let _ = rustix::io::ioctl_fionbio(&fd, true);
        pipe::Receiver::from_owned_fd(fd).map_err(failed)
    };
    let _ = rustix::io::ioctl_fionbio(&our_input, true);
    let stdin = match with_input {
        true => Some(pipe::Sender::from_owned_fd(our_input).map_err(failed)?),
        false => None,
    };
    let streams = ExecStreams::Pipes {
        stdin,
        stdout: receiver(our_output)?,
        stderr: receiver(our_errors)?,
    };
    Ok((run, streams))
}
