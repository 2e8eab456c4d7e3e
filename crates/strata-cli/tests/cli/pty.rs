//! Commands in processes of their own: with a real terminal, and with real
//! signals. The process is this very test binary, told to be the command
//! line.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use clap::Parser as _;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};
use strata_cli::{Session, run_in};
use strata_testkit::{TEST_TIMEOUT, holds, wait_for_blocking};

use crate::common::operations::BEGUN;
use crate::common::{Cli, World, shell_words};

const LINE: &str = "STRATA_TEST_LINE";
const TERMINAL: &str = "STRATA_TEST_TERMINAL";

/// The command line as a process; nothing unless it is told what to be.
#[test]
#[ignore = "what the others here start"]
fn as_a_process() {
    let Ok(line) = std::env::var(LINE) else {
        return;
    };
    if std::env::var_os(TERMINAL).is_some() {
        rustix::process::setsid().unwrap();
        rustix::process::ioctl_tiocsctty(std::io::stdin()).unwrap();
    }
    let cli = Cli::parse_from(shell_words(&line));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let exit = runtime.block_on(async {
        let mut session = Session::of_process(&cli.global);
        run_in(cli.command(), &mut session).await
    });
    std::process::exit(exit.code().into());
}

pub(crate) fn command(world: &World, line: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let socket = world.path("node.sock");
    let node = format!("strata --node unix:{}", socket.display());
    command
        .args(["--exact", "pty::as_a_process", "--ignored", "--nocapture"])
        .env(LINE, line.replacen("strata", &node, 1))
        .env("HOME", world.directory.path())
        .env("TERM", "xterm-test")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A process that does not outlive the test.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn exit(&mut self) -> Option<i32> {
        let mut code = None;
        wait_for("its end", || {
            let ended = self.0.try_wait().unwrap();
            code = ended.and_then(|status| status.code());
            ended.is_some()
        });
        code
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for_blocking(what, TEST_TIMEOUT, || holds(condition()));
}

fn called(world: &World, call: &str) -> bool {
    let state = world.node.state.lock();
    state.calls.iter().any(|made| made.starts_with(call))
}

/// What comes out of `source`, as it comes.
pub(crate) fn collected(mut source: impl std::io::Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let all = bytes.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = source.read(&mut buffer) {
            all.lock().unwrap().extend_from_slice(&buffer[..read]);
        }
    });
    bytes
}

pub(crate) fn contains(bytes: &Mutex<Vec<u8>>, text: &str) -> bool {
    String::from_utf8_lossy(&bytes.lock().unwrap()).contains(text)
}

/// A terminal of 80 columns and 24 rows, and somebody who looks at it.
pub(crate) struct Terminal {
    person: File,
    /// The side of programs.
    own: OwnedFd,
    pub(crate) seen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap();
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        let own = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
        let person = File::from(person);
        let seen = collected(person.try_clone().unwrap());
        let terminal = Self { person, own, seen };
        terminal.resize(24, 80);
        terminal
    }

    fn resize(&self, ws_row: u16, ws_col: u16) {
        let size = Winsize {
            ws_row,
            ws_col,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.person, size).unwrap();
    }

    fn modes(&self) -> Termios {
        tcgetattr(self.own.as_fd()).unwrap()
    }

    fn is_raw(&self) -> bool {
        let cooked = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        !self.modes().local_modes.intersects(cooked)
    }

    fn type_in(&mut self, keys: &[u8]) {
        self.person.write_all(keys).unwrap();
    }

    pub(crate) fn run(&self, world: &World, line: &str) -> Process {
        self.start(command(world, line))
    }

    pub(crate) fn start(&self, mut command: Command) -> Process {
        let side = || Stdio::from(self.own.try_clone().unwrap());
        command.env(TERMINAL, "1");
        command.stdin(side()).stdout(side()).stderr(side());
        Process(command.spawn().unwrap())
    }
}

/// All of what a terminal remembers, in comparable form.
fn settings(modes: &Termios) -> String {
    format!("{modes:?}")
}

#[test]
fn the_terminal_is_handed_over_resized_and_given_back() {
    let world = World::new();
    let mut terminal = Terminal::open();
    let before = settings(&terminal.modes());
    assert!(!terminal.is_raw());
    let mut process = terminal.run(&world, "strata pod exec -it web -- shell");
    wait_for("the first output", || contains(&terminal.seen, "ready"));
    assert!(terminal.is_raw());
    assert!(called(
        &world,
        "exec shell stdin=true terminal=Some((24, 80))"
    ));
    assert!(
        world
            .node
            .state
            .lock()
            .environment
            .contains(&"TERM=xterm-test".to_owned()),
        "it is told what kind of terminal it has"
    );
    terminal.resize(40, 120);
    wait_for("the new size", || called(&world, "resize 120x40"));
    // Ctrl-C is a key like any other: the process here lives on.
    terminal.type_in(b"a\x03b");
    wait_for("the echo", || contains(&terminal.seen, "a\x03b"));
    assert!(!called(&world, "signal"));
    terminal.type_in(b"q");
    assert_eq!(process.exit(), Some(5));
    assert_eq!(settings(&terminal.modes()), before);
}

#[test]
fn terminal_is_restored_on_sigterm() {
    let world = World::new();
    let terminal = Terminal::open();
    let before = settings(&terminal.modes());
    let mut process = terminal.run(&world, "strata pod exec -it web -- shell");
    wait_for("the first output", || contains(&terminal.seen, "ready"));
    assert!(terminal.is_raw());
    process.signal(Signal::TERM);
    assert_eq!(process.exit(), Some(143));
    assert_eq!(settings(&terminal.modes()), before);
    wait_for("the other side's notice", || called(&world, "left"));
}

#[test]
fn the_terminal_is_given_back_when_the_node_vanishes() {
    let world = World::new();
    let terminal = Terminal::open();
    let before = settings(&terminal.modes());
    let mut process = terminal.run(&world, "strata pod exec -it web -- shell");
    wait_for("the first output", || contains(&terminal.seen, "ready"));
    world.node.vanish();
    assert_eq!(process.exit(), Some(3));
    assert_eq!(settings(&terminal.modes()), before);
    let lost = || contains(&terminal.seen, "lost the connection");
    wait_for("the reason", lost);
}

#[test]
fn a_refusal_leaves_the_terminal_alone() {
    let world = World::new();
    let terminal = Terminal::open();
    let before = settings(&terminal.modes());
    let mut process = terminal.run(&world, "strata pod exec -it nobody -- shell");
    assert_eq!(process.exit(), Some(6));
    assert_eq!(settings(&terminal.modes()), before);
}

#[test]
fn the_console_is_left_by_its_escape() {
    let world = World::new();
    let mut terminal = Terminal::open();
    let before = settings(&terminal.modes());
    let mut process = terminal.run(&world, "strata vm console build");
    wait_for("the first output", || contains(&terminal.seen, "login: "));
    assert!(contains(&terminal.seen, "Ctrl-] detaches"));
    assert!(terminal.is_raw());
    terminal.type_in(b"root\r");
    wait_for("the echo", || contains(&terminal.seen, "root\r"));
    terminal.type_in(b"\x1d");
    assert_eq!(process.exit(), Some(0));
    assert_eq!(settings(&terminal.modes()), before);
    wait_for("the other side's notice", || called(&world, "console left"));
}

#[test]
fn the_first_interrupt_goes_to_the_command() {
    let world = World::new();
    let mut child = command(&world, "strata pod exec web -- signal")
        .spawn()
        .unwrap();
    let seen = collected(child.stdout.take().unwrap());
    let said = collected(child.stderr.take().unwrap());
    let mut process = Process(child);
    wait_for("the first output", || contains(&seen, "ready"));
    process.signal(Signal::INT);
    assert_eq!(process.exit(), Some(130));
    assert!(called(&world, "signal 2"));
    wait_for("the reason", || contains(&said, "killed by signal 2"));
}

#[test]
fn the_second_interrupt_leaves_the_command() {
    let world = World::new();
    let mut child = command(&world, "strata pod exec web -- deaf")
        .spawn()
        .unwrap();
    let seen = collected(child.stdout.take().unwrap());
    let mut process = Process(child);
    wait_for("the first output", || contains(&seen, "ready"));
    process.signal(Signal::INT);
    wait_for("the signal", || called(&world, "signal 2"));
    process.signal(Signal::INT);
    assert_eq!(process.exit(), Some(130));
    wait_for("the other side's notice", || called(&world, "left"));
}

#[test]
fn an_interrupt_leaves_an_attached_pod_running() {
    let world = World::new();
    let mut child = command(&world, "strata pod attach web").spawn().unwrap();
    let seen = collected(child.stdout.take().unwrap());
    let said = collected(child.stderr.take().unwrap());
    let mut process = Process(child);
    wait_for("the first output", || contains(&seen, "ready"));
    process.signal(Signal::INT);
    assert_eq!(process.exit(), Some(130));
    wait_for("the detach message", || {
        contains(&said, "web keeps running.")
    });
}

#[test]
fn an_interrupt_of_a_run_that_is_to_be_removed_removes_it() {
    let world = World::with(|state| state.endless = true);
    let line = "strata pod run job2 nginx:1.27 --attach --rm";
    let mut child = command(&world, line).spawn().unwrap();
    let seen = collected(child.stdout.take().unwrap());
    let mut process = Process(child);
    wait_for("the first output", || contains(&seen, "first"));
    process.signal(Signal::INT);
    assert_eq!(process.exit(), Some(130));
    assert!(called(&world, "destroy job2"));
}

#[test]
fn a_terminal_without_input_stays_as_it_is() {
    let world = World::new();
    let mut terminal = Terminal::open();
    let mut process = terminal.run(&world, "strata pod exec -t web -- signal");
    wait_for("the first output", || contains(&terminal.seen, "ready"));
    assert!(!terminal.is_raw());
    assert!(called(
        &world,
        "exec signal stdin=false terminal=Some((24, 80))"
    ));
    // The terminal makes a signal of it, and we pass that on.
    terminal.type_in(b"\x03");
    assert_eq!(process.exit(), Some(130));
    assert!(called(&world, "signal 2"));
}

#[test]
fn a_pod_is_run_on_our_terminal_and_its_end_is_ours() {
    let world = World::with(|state| state.exit_code = 5);
    let mut terminal = Terminal::open();
    let before = settings(&terminal.modes());
    let line = "strata pod run -it --rm new alpine -- shell";
    let mut process = terminal.run(&world, line);
    wait_for("the pod to be ready", || {
        contains(&terminal.seen, "ready") && terminal.is_raw()
    });
    {
        let state = world.node.state.lock();
        assert!(state.created[0].terminal && state.created[0].stdin);
    }
    terminal.resize(50, 132);
    process.signal(Signal::WINCH);
    wait_for("the new size", || called(&world, "resize 132x50"));
    // Ctrl-C is a key like others.
    terminal.type_in(b"\x03q");
    assert_eq!(process.exit(), Some(5));
    assert!(called(&world, "destroy new"));
    assert_eq!(settings(&terminal.modes()), before);
}

#[test]
fn leaving_a_new_instance_says_how_to_come_back() {
    let world = World::with(|state| {
        state.objects.unending = true;
        state.objects.journey.truncate(2);
    });
    let line = "strata instance create web2 --image nginx --project shop";
    let mut process = Process(command(&world, line).spawn().unwrap());
    let said = collected(process.0.stderr.take().unwrap());
    wait_for("a step", || contains(&said, "web2: scheduled"));
    process.signal(Signal::INT);
    assert_eq!(process.exit(), Some(130));
    wait_for("the way back", || {
        contains(&said, "`strata instance show shop/web2`")
    });
}

#[test]
fn leaving_a_drain_says_how_to_come_back() {
    let world = World::with(|state| state.objects.watches = 100);
    let mut terminal = Terminal::open();
    let mut process = terminal.run(&world, "strata node drain rack1-7");
    wait_for("its progress", || {
        contains(&terminal.seen, "  empty: running, 50%, 1 on it still")
    });
    terminal.type_in(b"\x03");
    assert_eq!(process.exit(), Some(130));
    let back = format!("`strata operation wait {BEGUN}`");
    wait_for("the way back", || contains(&terminal.seen, &back));
    let off = format!("`strata operation cancel {BEGUN}`");
    wait_for("the way out", || contains(&terminal.seen, &off));
}
