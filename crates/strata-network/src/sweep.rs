//! Removing interfaces. The kernel takes some 25 ms for one, because it waits
//! until nobody can be using it, and as long for a hundred at once. So an
//! interface is first condemned: cut off from the bridge and marked, which
//! takes no time. A thread removes all condemned ones together. The mark is
//! in the kernel, so that a daemon that starts knows them too.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::io::Errno;

use crate::error::{NetworkError, Result, kernel};
use crate::link::{self, Link};
use crate::netlink::{Batch, Family, Socket};

/// The group that condemned interfaces are put into. The kernel removes a
/// group in one go.
const CONDEMNED: u32 = u32::from_be_bytes(*b"stDY");

impl Link {
    /// Whether it is only waiting to be removed.
    pub(crate) fn is_condemned(&self) -> bool {
        self.group == CONDEMNED
    }
}

/// Cuts an interface off and marks it. One that is gone is no error.
fn condemn(socket: &mut Socket, link: &Link) -> Result<()> {
    let mut batch = Batch::default();
    link::set_group(&mut batch, link.index, CONDEMNED);
    match socket.talk(&mut batch) {
        Err(error) if error.is(Errno::NODEV) => return Ok(()),
        done => done.map_err(kernel(format!("remove the interface {}", link.name)))?,
    };
    if link.master.is_some() {
        let mut batch = Batch::default();
        link::cut_off(&mut batch, link.index);
        if let Err(error) = socket.talk(&mut batch) {
            tracing::debug!(interface = link.name, %error, "not cut off");
        }
    }
    Ok(())
}

/// Removes interfaces of ours, all at once.
pub(crate) fn remove_now(socket: &mut Socket, links: &[Link]) -> Result<()> {
    for link in links {
        condemn(socket, link)?;
    }
    sweep(socket)
}

/// Removes all condemned interfaces, of other runs too: nobody needs them.
fn sweep(socket: &mut Socket) -> Result<()> {
    let mut condemned = link::all(socket)?;
    condemned.retain(Link::is_condemned);
    // Somebody else using this very number would be a strange chance; then
    // they go one by one.
    let all_ours = condemned.iter().all(|link| link.name.starts_with("st-"));
    if all_ours && condemned.len() > 1 {
        return match link::delete_group(socket, CONDEMNED) {
            Err(error) if !error.is(Errno::NODEV) => {
                Err(kernel("remove condemned interfaces")(error))
            }
            _ => Ok(()),
        };
    }
    condemned.retain(|link| link.name.starts_with("st-"));
    condemned
        .iter()
        .try_for_each(|link| link::delete_index(socket, link))
}

/// The thread that removes, and what it has to do.
#[derive(Debug)]
pub(crate) struct Sweeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    work: Mutex<Work>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Work {
    /// Something was condemned.
    wanted: bool,
    /// It is being removed.
    under_way: bool,
    stop: bool,
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, work: MutexGuard<'a, Work>) -> MutexGuard<'a, Work> {
        self.changed
            .wait(work)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sweeper {
    /// Starts the thread, in the network namespace of this one.
    pub(crate) fn start() -> Result<Self> {
        let socket = Socket::open(Family::Route).map_err(kernel("open a netlink socket"))?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("net-sweep".into())
            .spawn(move || run(&theirs, socket))
            .map_err(NetworkError::Namespace)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Condemns interfaces, to be removed soon.
    pub(crate) fn condemn(&self, socket: &mut Socket, links: &[Link]) -> Result<()> {
        for link in links.iter().filter(|link| !link.is_condemned()) {
            condemn(socket, link)?;
            self.shared.work().wanted = true;
        }
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits until everything condemned is gone.
    pub(crate) fn settle(&self) {
        let mut work = self.shared.work();
        while work.wanted || work.under_way {
            work = self.shared.wait(work);
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.shared.work().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, mut socket: Socket) {
    let mut work = shared.work();
    loop {
        while !work.wanted {
            if work.stop {
                return;
            }
            work = shared.wait(work);
        }
        work.wanted = false;
        work.under_way = true;
        drop(work);
        if let Err(error) = sweep(&mut socket) {
            tracing::warn!(%error, "left for the next time");
        }
        work = shared.work();
        work.under_way = false;
        shared.changed.notify_all();
    }
}
