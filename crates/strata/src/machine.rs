//! `strata node` as PID 1: the machine is Strata's. This process mounts what
//! a kernel leaves unmounted, runs the node daemon as its child and again
//! when that dies, reaps whatever is orphaned, and switches the machine off.
//!
//! PID 1 itself does next to nothing, so that a fault in the daemon is a
//! restart and not a kernel panic.
//!
//! A machine whose image names a server to join (`join`) has nothing else that
//! sets it up: drivers (`modules`), a place for data (`disk`) and an address
//! (`dhcp`) are provided here. Any other image brings a start hook for that.

mod dhcp;
mod disk;
pub(crate) mod flock;
mod join;
mod loopback;
mod modules;
mod root;
mod shutdown;
mod spawned;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use join::Join;

use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, WaitOptions, wait};
use rustix::system::{RebootCommand, reboot};
use strata_tasks::TaskGroup;
use tokio::signal::{
    self,
    unix::{SignalKind, signal},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Set for the daemon when its parent owns the machine.
const VARIABLE: &str = "STRATA_MACHINE_INIT";
/// Run once before the daemon, where the machine's image brings one: loads
/// drivers, sets addresses.
const START_HOOK: &str = "/etc/strata/start";
/// Time the first daemon waits for an address of the host.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(20);

/// Whether this is PID 1 of a host and was started as its node. Any other
/// command may be PID 1 of a container.
pub(crate) fn is_pid_1() -> bool {
    let is_node = |role: OsString| {
        // A kernel's command line may bring flags alone.
        let is_flag = role.as_encoded_bytes().starts_with(b"-");
        is_flag || role == "node" || role == "up"
    };
    std::process::id() == 1 && std::env::args_os().nth(1).is_none_or(is_node)
}

/// Whether this PID 1 is the kernel's own, and not that of a container: then
/// the mounts and the power switch are ours.
fn owns_machine() -> bool {
    const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST_PID_NAMESPACE)
}

/// The process that switches the machine off, where this daemon's parent is.
pub(crate) fn init_pid() -> Option<u32> {
    std::env::var(VARIABLE).ok()?.parse().ok()
}

/// Lives as long as the machine.
pub(crate) fn run() -> ExitCode {
    say("strata is PID 1");
    let spawned = spawned::hierarchies();
    if let Some(hierarchies) = &spawned {
        spawned::prepare(hierarchies);
    }
    let (source, target, kind, options) = MOUNTS[0];
    if let Err(error) = mount_once(source, target, kind, options) {
        say(&format!("cannot mount {target}: {error}"));
    }
    let owns_machine = owns_machine();
    if owns_machine && let Err(error) = root::cover() {
        say(&format!(
            "cannot set up the root file system for containers: {error}"
        ));
    }
    let mounts = if owns_machine { &MOUNTS[..] } else { &[] };
    for (source, target, kind, options) in mounts {
        if let Err(error) = mount_once(source, target, kind, options) {
            say(&format!("cannot mount {target}: {error}"));
        }
    }
    if let Err(error) = loopback::up() {
        say(&format!("cannot bring up the loopback: {error}"));
    }
    let join = owns_machine.then(set_up).flatten();
    // The hook is the machine's, not that of one inside.
    if spawned.is_none() && Path::new(START_HOOK).exists() {
        match Command::new(START_HOOK).status() {
            Ok(status) if status.success() => {}
            Ok(status) => say(&format!("{START_HOOK}: {status}")),
            Err(error) => say(&format!("{START_HOOK}: {error}")),
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let lived = runtime.and_then(|runtime| runtime.block_on(live(join)));
    if let Err(error) = &lived {
        say(&format!("cannot continue: {error}"));
    }
    if !owns_machine {
        return match lived {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    shutdown::release_disks();
    say("powering off");
    if let Err(error) = reboot(RebootCommand::PowerOff) {
        say(&format!("cannot power off: {error}"));
    }
    ExitCode::FAILURE
}

const MOUNTS: [(&str, &str, &str, &str); 8] = [
    ("proc", "/proc", "proc", ""),
    ("sysfs", "/sys", "sysfs", ""),
    ("devtmpfs", "/dev", "devtmpfs", "mode=0755"),
    ("devpts", "/dev/pts", "devpts", "mode=0620,ptmxmode=0666"),
    ("tmpfs", "/dev/shm", "tmpfs", "mode=1777"),
    ("tmpfs", "/run", "tmpfs", "mode=0755"),
    ("tmpfs", "/tmp", "tmpfs", "mode=1777"),
    (
        "cgroup2",
        "/sys/fs/cgroup",
        "cgroup2",
        "nsdelegate,memory_recursiveprot",
    ),
];

/// Mounts what is not mounted yet.
fn mount_once(source: &str, target: &str, kind: &str, options: &str) -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(target))
    {
        return Ok(());
    }
    fs::create_dir_all(target)?;
    let flags = if kind.starts_with("dev") {
        MountFlags::NOSUID
    } else {
        MountFlags::NOSUID | MountFlags::NODEV
    };
    let options = std::ffi::CString::new(options)?;
    mount(source, target, kind, flags, Some(options.as_c_str()))?;
    Ok(())
}

/// Sets up the hardware that is ours, as far as the image says how.
fn set_up() -> Option<Join> {
    modules::load();
    let join = Join::take()?;
    join.name_machine();
    disk::mount_data();
    Some(join)
}

/// Runs the daemon until a shutdown signal, then stops everything.
async fn live(join: Option<Join>) -> io::Result<()> {
    let mut children = signal(SignalKind::child())?;
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    tokio::select! {
        () = supervise(&mut children, join) => {}
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    say("stopping all processes");
    shutdown::end_all().await;
    Ok(())
}

/// Keeps a daemon running. Never returns.
async fn supervise(children: &mut signal::unix::Signal, join: Option<Join>) {
    let mut pause = Duration::from_millis(100);
    let address = match &join {
        Some(_) => ask_for_address().await,
        None => watch::channel(None).1,
    };
    loop {
        let started = Instant::now();
        let now = *address.borrow();
        let daemon = match start_daemon(join.as_ref(), now) {
            Ok(daemon) => daemon,
            Err(error) => {
                say(&format!("cannot start the node daemon: {error}"));
                pause = next_pause(pause, Duration::ZERO);
                rest(pause, children).await;
                continue;
            }
        };
        let how = loop {
            children.recv().await;
            if let Some((_, how)) = reap().into_iter().find(|(pid, _)| *pid == daemon) {
                break how;
            }
        };
        say(&format!("the node daemon exited ({how}), restarting it"));
        pause = next_pause(pause, started.elapsed());
        rest(pause, children).await;
    }
}

/// Starts DHCP and waits for an address, at most [`ADDRESS_TIMEOUT`].
async fn ask_for_address() -> watch::Receiver<Option<Ipv4Addr>> {
    let (told, mut address) = watch::channel(None);
    // PID 1 has no shutdown but that of the host.
    TaskGroup::from(CancellationToken::new())
        .restart("dhcp-client", move || dhcp::keep(told.clone()));
    let first = address.wait_for(Option::is_some);
    if tokio::time::timeout(ADDRESS_TIMEOUT, first).await.is_err() {
        say("no address yet: starting the node without one");
    }
    address
}

/// Waits, and reaps meanwhile.
async fn rest(pause: Duration, children: &mut signal::unix::Signal) {
    let reaps = async {
        while children.recv().await.is_some() {
            reap();
        }
    };
    let _ = tokio::time::timeout(pause, reaps).await;
}

/// Doubles up to ten seconds; a daemon that ran for a while starts afresh.
fn next_pause(pause: Duration, lived: Duration) -> Duration {
    if lived > Duration::from_secs(60) {
        return Duration::from_millis(100);
    }
    (pause * 2).min(Duration::from_secs(10))
}

/// The daemon is this program with the same arguments, and the configuration of
/// the machine.
fn start_daemon(join: Option<&Join>, address: Option<Ipv4Addr>) -> io::Result<Pid> {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments
        .first()
        .is_none_or(|first| first != "node" && first != "up")
    {
        arguments.insert(0, "node".into());
    }
    let mut daemon = Command::new("/proc/self/exe");
    daemon.arg0("strata").args(arguments).env(VARIABLE, "1");
    if let Some(join) = join {
        join.tell(&mut daemon, address)?;
    }
    // This process ends it; signals to the process group of this process do
    // not.
    let child = daemon.process_group(0).spawn()?;
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::Error::other("no pid"))
}

/// Everything that has ended.
fn reap() -> Vec<(Pid, String)> {
    let mut ended = Vec::new();
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        let how = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("exit {code}"),
            (_, Some(signal)) => format!("signal {signal}"),
            _ => "stopped".to_owned(),
        };
        ended.push((pid, how));
    }
    ended
}

/// There is no log yet when PID 1 writes a message: it goes to the console.
#[allow(clippy::print_stderr)]
fn say(text: &str) {
    eprintln!("strata: {text}");
}
