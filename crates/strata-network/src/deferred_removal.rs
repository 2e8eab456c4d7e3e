//! Removing interfaces. The kernel takes some 25 ms for one, because it waits
//! until nothing can be using it, and as long for a hundred at once. So an
//! interface is first marked for removal: cut off from the bridge and marked,
//! which takes no time. A thread removes all marked ones together. The mark is
//! in the kernel, so that a daemon that starts knows them too.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::io::Errno;

use crate::error::{NetworkError, Result, kernel};
use crate::link::{self, Link};
use crate::netlink::{Batch, Family, Socket};

/// The group that interfaces marked for removal are put into. The kernel
/// removes a group in one go.
const PENDING_REMOVAL: u32 = u32::from_be_bytes(*b"stDY");

impl Link {
    /// Whether it is only waiting to be removed.
    pub(crate) fn is_pending_removal(&self) -> bool {
        self.group == PENDING_REMOVAL
    }
}

/// Cuts an interface off and marks it. One that is gone is no error.
fn mark_for_removal(socket: &mut Socket, link: &Link) -> Result<()> {
    let mut batch = Batch::default();
    link::set_group(&mut batch, link.index, PENDING_REMOVAL);
    match socket.talk(&mut batch) {
        Err(error) if error.is(Errno::NODEV) => return Ok(()),
        done => done.map_err(kernel(format!("remove the interface {}", link.name)))?,
    };
    if link.master.is_some() {
        let mut batch = Batch::default();
        link::cut_off(&mut batch, link.index);
        if let Err(error) = socket.talk(&mut batch) {
            tracing::debug!(interface = link.name, %error, "interface not taken down");
        }
    }
    Ok(())
}

/// Removes interfaces of ours, all at once.
pub(crate) fn remove_now(socket: &mut Socket, links: &[Link]) -> Result<()> {
    for link in links {
        mark_for_removal(socket, link)?;
    }
    sweep(socket)
}

/// Removes all interfaces marked for removal, of other runs too: nothing needs
/// them.
fn sweep(socket: &mut Socket) -> Result<()> {
    let mut pending_removal = link::all(socket)?;
    pending_removal.retain(Link::is_pending_removal);
    // Another program using this very number would be a strange coincidence;
    // then they go one by one.
    let all_ours = pending_removal
        .iter()
        .all(|link| link.name.starts_with("st-"));
    if all_ours && pending_removal.len() > 1 {
        return match link::delete_group(socket, PENDING_REMOVAL) {
            Err(error) if !error.is(Errno::NODEV) => {
                Err(kernel("remove the interfaces pending removal")(error))
            }
            _ => Ok(()),
        };
    }
    pending_removal.retain(|link| link.name.starts_with("st-"));
    pending_removal
        .iter()
        .try_for_each(|link| link::delete_index(socket, link))
}

/// The thread that removes, and what it has to do.
#[derive(Debug)]
pub(crate) struct RemovalWorker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    work: Mutex<RemovalWork>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RemovalWork {
    /// Something was marked for removal.
    wanted: bool,
    /// It is being removed.
    under_way: bool,
    stop: bool,
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, RemovalWork> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, work: MutexGuard<'a, RemovalWork>) -> MutexGuard<'a, RemovalWork> {
        self.changed
            .wait(work)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl RemovalWorker {
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

    /// Marks interfaces for removal, to be removed soon.
    pub(crate) fn mark_for_removal(&self, socket: &mut Socket, links: &[Link]) -> Result<()> {
        for link in links.iter().filter(|link| !link.is_pending_removal()) {
            mark_for_removal(socket, link)?;
            self.shared.work().wanted = true;
        }
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits until everything marked for removal is gone.
    pub(crate) fn settle(&self) {
        let mut work = self.shared.work();
        while work.wanted || work.under_way {
            work = self.shared.wait(work);
        }
    }
}

impl Drop for RemovalWorker {
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
            tracing::warn!(%error, "network removal postponed");
        }
        work = shared.work();
        work.under_way = false;
        shared.changed.notify_all();
    }
}
