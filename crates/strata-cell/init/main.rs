//! The init of a cell: PID 1 of its PID namespace, and all that stays with a
//! cell's processes when the daemon is away. It starts executables at the
//! request of the daemon, moves their output from pipes to log files, reaps,
//! writes down how each run ended, and forwards signals.
//!
//! One process of it without namespaces, the shim (`shim` in the code), is
//! the parent of all outermost cells, so that those too outlive the daemon. It
//! also holds the lease of what a server assigned (`lease.rs`): when that
//! ends, it ends those cells, whatever became of the daemon. Should it be gone
//! as well, the init of each of them ends with the lease (`watched_lease.rs`).
//!
//! One thread, one epoll loop, no allocation: all memory is in statics whose
//! untouched pages cost nothing. No C library and no standard library, which
//! is why an idle cell costs a few dozen kilobytes.

#![no_std]
#![no_main]

mod confine;
mod first;
mod setup_root;
mod lease;
mod link;
mod log;
mod resolve;
mod setup;
mod spawn;
mod start;
mod sys;
mod watched_lease;
#[path = "../src/wire.rs"]
#[allow(dead_code)]
mod wire;

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};

use lease::Lease;
use link::{Inbox, Link};
use spawn::Run;
use watched_lease::WatchedLease;
use wire::{MAX_RUNS, Reply};

const MAX_LINKS: usize = 8;
const MOMENT_MS: isize = 100;
const LISTEN: u64 = 0;
const SIGNALS: u64 = 1;
const LEASE: u64 = 2;
const WATCHED_LEASE: u64 = 3;
const LINKS: u64 = 0x100;
const PIPES: u64 = 0x1_0000;

/// Signals that are passed on: to the main run, or where there is none to every
/// executable of the cell.
const FORWARDED: [i32; 7] = [1, 2, 3, 10, 12, sys::SIGTERM, 28];

/// Memory that exists once. The init has one thread, and `main` takes each
/// of these once, so no two references to the same one ever live.
pub struct Once<T>(UnsafeCell<T>);

// SAFETY: there is one thread.
unsafe impl<T> Sync for Once<T> {}

impl<T> Once<T> {
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    #[allow(clippy::mut_from_ref)]
    pub fn take(&self) -> &mut T {
        // SAFETY: see the type.
        unsafe { &mut *self.0.get() }
    }
}

static RUNS: Once<[Run; MAX_RUNS]> = Once::new([const { Run::FREE }; MAX_RUNS]);
static INBOX: Once<Inbox> = Once::new(Inbox::EMPTY);

pub struct Init {
    epoll: i32,
    signals: i32,
    /// `/dev/null`, opened before the root changes.
    null: i32,
    links: [Option<Link>; MAX_LINKS],
    /// No connection can be accepted for a moment.
    deaf: bool,
    runs: &'static mut [Run; MAX_RUNS],
    /// Why the set-up failed: step and errno.
    failure: Option<(u32, i32)>,
    lease: Lease,
    /// Of the init of a cell.
    watched: WatchedLease,
}

fn main(argc: usize, argv: *const usize) -> ! {
    let argument = |i: usize| -> &'static CStr {
        if i >= argc {
            return c"";
        }
        // SAFETY: the kernel ends each argument with a NUL and keeps it.
        unsafe { CStr::from_ptr(*argv.add(i) as *const c_char) }
    };
    let flags = decimal(argument(2).to_bytes());
    match Init::new(argument(1), flags, argument(3)) {
        Ok(mut init) => init.run(INBOX.take()),
        Err(errno) => sys::exit(errno),
    }
}

fn decimal(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |n, digit| n * 10 + u32::from(digit.wrapping_sub(b'0')))
}

impl Init {
    fn new(name: &CStr, flags: u32, root: &CStr) -> sys::Result<Self> {
        let mask = FORWARDED
            .iter()
            .fold(sys::signal_bit(sys::SIGCHLD), |mask, s| mask | sys::signal_bit(*s));
        sys::signal_mask(sys::SIG_BLOCK, mask);
        // Other descriptors that the daemon's parent process had open are not
        // ours.
        sys::close_from(wire::LISTEN_FD + 1);
        sys::set_name(c"strata-init");
        sys::set_undumpable();
        sys::limit_cores();
        let null = sys::openat(sys::AT_FDCWD, c"/dev/null", sys::O_RDWR | sys::O_CLOEXEC, 0)?;
        let epoll = sys::epoll_create()?;
        let signals = sys::signalfd(mask)?;
        sys::epoll_add(epoll, wire::LISTEN_FD, LISTEN)?;
        sys::epoll_add(epoll, signals, SIGNALS)?;
        sys::set_nonblocking(wire::LISTEN_FD)?;
        sys::set_close_on_exec(wire::LISTEN_FD)?;
        let failure = setup::cell(name, flags, root).err();
        Ok(Self {
            epoll,
            signals,
            null,
            links: [const { None }; MAX_LINKS],
            deaf: false,
            runs: RUNS.take(),
            failure,
            lease: Lease::UNSET,
            watched: WatchedLease::NONE,
        })
    }

    fn run(&mut self, inbox: &mut Inbox) -> ! {
        let mut events = [sys::Event::default(); 32];
        loop {
            let max_wait = if self.deaf { MOMENT_MS } else { -1 };
            let n = sys::epoll_wait(self.epoll, &mut events, max_wait);
            if core::mem::take(&mut self.deaf) {
                let _ = sys::epoll_add(self.epoll, wire::LISTEN_FD, LISTEN);
            }
            for event in &events[..n] {
                match event.data {
                    LISTEN => self.accept(),
                    SIGNALS => self.on_signals(),
                    LEASE => self.lease.on_timer(),
                    WATCHED_LEASE => self.watched.on_timer(),
                    link @ LINKS..PIPES => self.on_request((link - LINKS) as usize, inbox),
                    pipe => self.on_output((pipe - PIPES) as usize),
                }
            }
        }
    }

    /// Accepts connections. When there is no place, they wait in the queue
    /// until one is free.
    fn accept(&mut self) {
        loop {
            let Some(i) = self.links.iter().position(Option::is_none) else {
                return sys::epoll_remove(self.epoll, wire::LISTEN_FD);
            };
            let fd = match sys::accept(wire::LISTEN_FD) {
                Ok(fd) => fd,
                Err(sys::EAGAIN | sys::EINTR) => return,
                // No memory, most likely: this process lives under the limit of
                // its cell. The waiting connection is still there in a moment.
                Err(_) => {
                    self.deaf = true;
                    return sys::epoll_remove(self.epoll, wire::LISTEN_FD);
                }
            };
            match sys::epoll_add(self.epoll, fd, LINKS + i as u64) {
                Ok(()) => self.links[i] = Some(Link::new(fd)),
                Err(_) => sys::close(fd),
            }
        }
    }

    fn close_link(&mut self, i: usize) {
        if let Some(link) = self.links[i].take() {
            link.close();
            // In vain when it listens already.
            let _ = sys::epoll_add(self.epoll, wire::LISTEN_FD, LISTEN);
        }
    }

    fn on_signals(&mut self) {
        let mut info = [0u8; 128];
        while let Ok(128) = sys::read(self.signals, &mut info) {
            let signal = i32::from(info[0]);
            if signal != sys::SIGCHLD {
                self.forward(signal);
            }
        }
        while let Some((pid, status, usage)) = sys::reap() {
            if let Some(i) = self.runs.iter().position(|run| run.pid == pid) {
                self.runs[i].on_exit(status, &usage);
                self.announce(self.runs[i].id);
                self.recycle(i);
            }
        }
    }

    /// Passes a signal on. A main run gets it as PID 1 would: its process
    /// alone, whatever else runs here.
    fn forward(&self, signal: i32) {
        let running = || self.runs.iter().filter(|run| run.pid > 0);
        if let Some(main) = running().find(|run| run.main) {
            let _ = sys::kill(main.pid, signal);
            return;
        }
        for run in running() {
            let _ = sys::kill(-run.pid, signal);
        }
    }

    /// Notifies every subscriber that a run has ended. One that does not keep
    /// up is cut off: it reconnects and requests the list.
    fn announce(&mut self, run: u64) {
        let news = Reply { kind: wire::EXITED, run, ..link::ok() };
        for i in 0..MAX_LINKS {
            let cut_off = |l: &Link| l.subscribed && l.send(&news, sys::pid(), None).is_err();
            if self.links[i].as_ref().is_some_and(cut_off) {
                self.close_link(i);
            }
        }
    }

    fn on_output(&mut self, pipe: usize) {
        let (i, channel) = (pipe / 2, pipe % 2);
        if self.runs[i].pump(channel) {
            self.runs[i].close_pipe(channel);
            self.recycle(i);
        }
    }

    /// Frees the slot of a run that has ended and has no more output.
    fn recycle(&mut self, i: usize) {
        if self.runs[i].is_over() {
            self.runs[i].release();
        }
    }

    fn on_request(&mut self, i: usize, inbox: &mut Inbox) {
        let Some(link) = self.links[i].as_ref() else { return };
        let reply = match link.receive(inbox) {
            Ok(true) => self.answer(i, inbox),
            Ok(false) => return,
            Err(_) => Err(()),
        };
        inbox.close_fds();
        if reply.is_err() {
            self.close_link(i);
        }
    }

    /// Serves a request and answers; an error ends the connection.
    fn answer(&mut self, i: usize, inbox: &Inbox) -> Result<(), ()> {
        let request = inbox.request().ok_or(())?;
        let mut reply = Reply { kind: request.kind, run: request.run, ..link::ok() };
        let (mut pid, mut pidfd) = (sys::pid(), None);
        match request.kind {
            wire::HELLO => {
                if let Some((step, error)) = self.failure {
                    (reply.step, reply.error) = (step, error);
                    let _ = self.link(i)?.send(&reply, pid, None);
                    sys::exit(1);
                }
                self.links[i].as_mut().ok_or(())?.subscribed = true;
                // Its own, so that the daemon can watch and end this very
                // process whichever process started it.
                pidfd = sys::pidfd_open(pid).ok();
                reply.detail = wire::WATCHES_LEASE;
            }
            wire::SIGNAL => match self.signal(&request) {
                Ok(()) => {}
                Err(error) => (reply.step, reply.error) = (wire::STEP_RUN, error),
            },
            wire::END_INPUT => match self.runs.iter_mut().find(|run| run.id == request.run) {
                Some(run) => run.end_input(),
                None => (reply.step, reply.error) = (wire::STEP_RUN, sys::ESRCH),
            },
            wire::LIST => {
                self.list(i, reply)?;
                reply.run = 0;
            }
            wire::SETUP_ROOT => match setup_root::setup_root(&request, inbox) {
                Ok(()) => {}
                Err((text, error)) => {
                    (reply.step, reply.error) = (wire::STEP_SETUP_ROOT, error);
                    reply.detail = text;
                }
            },
            wire::CONFINE => match confine::CONFINEMENT.take().read(inbox) {
                Ok(()) => {}
                Err(error) => (reply.step, reply.error) = (wire::STEP_CONFINE, error),
            },
            wire::SET_LEASE => match self.lease.set(self.epoll, request.run, inbox.fds()) {
                Ok(()) => {}
                Err(error) => (reply.step, reply.error) = (wire::STEP_LEASE, error),
            },
            wire::WATCH_LEASE => match self.watched.watch(self.epoll, inbox.fds()) {
                Ok(()) => {}
                Err(error) => (reply.step, reply.error) = (wire::STEP_LEASE, error),
            },
            wire::GET_LEASE => reply.run = self.lease.deadline(),
            wire::SPAWN | wire::SPAWN_CELL => match self.spawn(&request, inbox) {
                // Its zombie is not reaped before this reply is sent, so the
                // pid means something even if it has ended.
                Ok((child, fd)) => (pid, pidfd) = (child, (fd != sys::NONE).then_some(fd)),
                Err((step, error)) => (reply.step, reply.error) = (step, error),
            },
            _ => return Err(()),
        }
        let sent = self.link(i)?.send(&reply, pid, pidfd);
        pidfd.map(sys::close);
        sent.map_err(drop)
    }

    fn link(&self, i: usize) -> Result<&Link, ()> {
        self.links[i].as_ref().ok_or(())
    }

    fn signal(&self, request: &wire::Request) -> sys::Result<()> {
        let mut running = self.runs.iter().filter(|run| run.pid > 0);
        let pid = running.find(|run| run.id == request.run).ok_or(sys::ESRCH)?.pid;
        let alone = request.flags & wire::ALONE != 0;
        sys::kill(if alone { pid } else { -pid }, request.signal)
    }

    fn list(&self, i: usize, template: Reply) -> Result<(), ()> {
        for run in self.runs.iter().filter(|run| run.pid > 0) {
            let reply = Reply { run: run.id, ..template };
            self.link(i)?.send(&reply, run.pid, None).map_err(drop)?;
        }
        Ok(())
    }
}
