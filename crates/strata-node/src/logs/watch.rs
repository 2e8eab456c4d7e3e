//! Waking readers when a log grows: one inotify descriptor for the whole daemon
//! (the kernel allows a user few of them), one watch per directory that a
//! reader follows.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify;
use strata_tasks::TaskGroup;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// All directories that are being followed.
#[derive(Clone)]
pub(crate) struct LogWatch {
    shared: Arc<Shared>,
}

struct Shared {
    inotify: AsyncFd<OwnedFd>,
    dirs: Mutex<HashMap<PathBuf, WatchedDir>>,
}

struct WatchedDir {
    descriptor: i32,
    followers: usize,
    changed: watch::Sender<()>,
}

impl Shared {
    fn dirs(&self) -> MutexGuard<'_, HashMap<PathBuf, WatchedDir>> {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogWatch {
    /// Starts the task that reads the kernel's events.
    pub(crate) fn start(tasks: &TaskGroup) -> io::Result<Self> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let inotify = strata_cell::readable(inotify::init(flags)?)?;
        let shared = Arc::new(Shared {
            inotify,
            dirs: Mutex::default(),
        });
        let weak = Arc::downgrade(&shared);
        tasks.restart("log-watcher", move || {
            let weak = weak.clone();
            async move {
                while let Some(shared) = weak.upgrade() {
                    if dispatch(&shared).await.is_err() {
                        tracing::error!("inotify of log files failed");
                        return;
                    }
                }
            }
        });
        Ok(Self { shared })
    }

    /// Events of a directory until the subscription is dropped.
    pub(crate) fn subscribe(&self, dir: &Path) -> io::Result<Subscription> {
        let mut dirs = self.shared.dirs();
        let known = dirs.get_mut(dir).map(|known| {
            known.followers += 1;
            known.changed.subscribe()
        });
        let changed = match known {
            Some(changed) => changed,
            None => {
                let what = inotify::WatchFlags::MODIFY
                    | inotify::WatchFlags::CREATE
                    | inotify::WatchFlags::DELETE_SELF;
                let descriptor = inotify::add_watch(&self.shared.inotify, dir, what)?;
                let (sender, changed) = watch::channel(());
                let new = WatchedDir {
                    descriptor,
                    followers: 1,
                    changed: sender,
                };
                dirs.insert(dir.to_owned(), new);
                changed
            }
        };
        Ok(Subscription {
            shared: self.shared.clone(),
            dir: dir.to_owned(),
            changed,
        })
    }
}

/// Reads one batch of events and wakes the tasks they concern.
async fn dispatch(shared: &Shared) -> io::Result<()> {
    let mut ready = shared.inotify.readable().await?;
    let mut space = [const { MaybeUninit::uninit() }; 4096];
    let mut reader = inotify::Reader::new(shared.inotify.get_ref(), &mut space);
    loop {
        match reader.next() {
            Ok(event) => {
                let descriptor = event.wd();
                let is_overflow = event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW);
                let dirs = shared.dirs();
                for dir in dirs.values() {
                    if is_overflow || dir.descriptor == descriptor {
                        dir.changed.send_replace(());
                    }
                }
            }
            Err(rustix::io::Errno::AGAIN) => {
                ready.clear_ready();
                return Ok(());
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Events of one directory.
pub(crate) struct Subscription {
    shared: Arc<Shared>,
    dir: PathBuf,
    changed: watch::Receiver<()>,
}

impl Subscription {
    /// Waits for events that came after the last call, or after the beginning.
    pub(crate) async fn changed(&mut self) {
        if self.changed.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut dirs = self.shared.dirs();
        let Some(dir) = dirs.get_mut(&self.dir) else {
            return;
        };
        dir.followers -= 1;
        if dir.followers == 0 {
            let _ = inotify::remove_watch(&self.shared.inotify, dir.descriptor);
            dirs.remove(&self.dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn followers_are_woken_and_leave_no_watch_behind() {
        let dir = tempfile::tempdir().unwrap();
        let watch = LogWatch::start(&tokio_util::sync::CancellationToken::new().into()).unwrap();
        let mut first = watch.subscribe(dir.path()).unwrap();
        let mut second = watch.subscribe(dir.path()).unwrap();
        fs::write(dir.path().join("stdout.0"), "x").unwrap();
        first.changed().await;
        second.changed().await;
        drop(first);
        assert_eq!(watch.shared.dirs().len(), 1);
        drop(second);
        assert!(watch.shared.dirs().is_empty());
    }
}
