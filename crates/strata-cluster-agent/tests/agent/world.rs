//! Network namespaces, and the few things that are done in them: listen,
//! connect, run the tools that people have.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::Shutdown;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A network namespace, held by a process that sleeps.
pub(crate) struct Namespace(Child);

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Namespace {
    pub(crate) fn new() -> Self {
        let holder = Command::new("unshare")
            .args(["--net", "sleep", "infinity"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let namespace = Self(holder);
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        wait_until("a namespace", || {
            std::fs::read_link(namespace.path()).is_ok_and(|other| other != own)
        });
        namespace.sh("ip link set lo up");
        namespace
    }

    /// A file that stands for it.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    /// The process that holds it.
    pub(crate) fn holder(&self) -> u32 {
        self.0.id()
    }

    /// Does something in it.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                let file = File::open(self.path()).unwrap();
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind).unwrap();
                work()
            });
            there
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A program in it, not yet started.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg(program);
        command
    }

    /// Runs a line of shell, which must succeed; what it printed.
    pub(crate) fn sh(&self, line: &str) -> String {
        let output = self
            .command("sh")
            .args(["-ec", line])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Connects and reads what is sent.
    pub(crate) fn ask(&self, to: impl Into<IpAddr>, port: u16) -> io::Result<String> {
        let to = SocketAddr::new(to.into(), port);
        self.run(|| {
            let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
            stream.set_read_timeout(Some(TEST_TIMEOUT))?;
            // Clients begin, as those of an API server do.
            stream.write_all(b"?")?;
            let mut said = String::new();
            stream.read_to_string(&mut said)?;
            Ok(said)
        })
    }

    /// Whether nothing answers within a moment.
    pub(crate) fn is_cut_off(&self, to: impl Into<IpAddr>, port: u16) -> bool {
        let to = SocketAddr::new(to.into(), port);
        self.run(|| TcpStream::connect_timeout(&to, Duration::from_millis(300)).is_err())
    }

    /// Answers every client that sends something with its address, until dropped.
    pub(crate) fn serve(&self, port: u16) -> Server {
        let listener = self.run(|| TcpListener::bind(("0.0.0.0", port)).unwrap());
        let stop = Arc::new(OwnedFd::from(listener.try_clone().unwrap()));
        let thread = std::thread::spawn(move || {
            while let Ok((mut stream, from)) = listener.accept() {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
                if stream.read(&mut [0]).is_ok_and(|length| length > 0) {
                    let _ = write!(stream, "{}", from.ip());
                }
            }
        });
        Server {
            stop,
            thread: Some(thread),
        }
    }
}

/// A server, until dropped.
pub(crate) struct Server {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&*self.stop, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + TEST_TIMEOUT;
    while !so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::yield_now();
    }
}
