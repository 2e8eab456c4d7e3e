//! Waking readers when a log grows: one inotify descriptor for the whole
//! daemon (the kernel allows a user few of them), one watch per folder that
//! somebody follows.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// All folders that are being followed.
#[derive(Clone)]
pub(crate) struct LogWatch {
    shared: Arc<Shared>,
}

struct Shared {
    inotify: AsyncFd<OwnedFd>,
    folders: Mutex<HashMap<PathBuf, Folder>>,
}

struct Folder {
    descriptor: i32,
    followers: usize,
    changed: watch::Sender<()>,
}

impl Shared {
    fn folders(&self) -> MutexGuard<'_, HashMap<PathBuf, Folder>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogWatch {
    /// Starts the task that reads the kernel's news.
    pub(crate) fn start() -> io::Result<Self> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let inotify = strata_cell::readable(inotify::init(flags)?)?;
        let shared = Arc::new(Shared {
            inotify,
            folders: Mutex::default(),
        });
        let weak = Arc::downgrade(&shared);
        tokio::spawn(async move {
            while let Some(shared) = weak.upgrade() {
                if dispatch(&shared).await.is_err() {
                    tracing::error!("news of log files cannot be read any more");
                    return;
                }
            }
        });
        Ok(Self { shared })
    }

    /// News of a folder until the subscription is dropped.
    pub(crate) fn subscribe(&self, folder: &Path) -> io::Result<Subscription> {
        let mut folders = self.shared.folders();
        let known = folders.get_mut(folder).map(|known| {
            known.followers += 1;
            known.changed.subscribe()
        });
        let changed = match known {
            Some(changed) => changed,
            None => {
                let what = inotify::WatchFlags::MODIFY
                    | inotify::WatchFlags::CREATE
                    | inotify::WatchFlags::DELETE_SELF;
                let descriptor = inotify::add_watch(&self.shared.inotify, folder, what)?;
                let (sender, changed) = watch::channel(());
                let new = Folder {
                    descriptor,
                    followers: 1,
                    changed: sender,
                };
                folders.insert(folder.to_owned(), new);
                changed
            }
        };
        Ok(Subscription {
            shared: self.shared.clone(),
            folder: folder.to_owned(),
            changed,
        })
    }
}

/// Reads one batch of news and wakes whom it concerns.
async fn dispatch(shared: &Shared) -> io::Result<()> {
    let mut ready = shared.inotify.readable().await?;
    let mut space = [const { MaybeUninit::uninit() }; 4096];
    let mut reader = inotify::Reader::new(shared.inotify.get_ref(), &mut space);
    loop {
        match reader.next() {
            Ok(event) => {
                let descriptor = event.wd();
                let is_overflow = event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW);
                let folders = shared.folders();
                for folder in folders.values() {
                    if is_overflow || folder.descriptor == descriptor {
                        folder.changed.send_replace(());
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

/// News of one folder.
pub(crate) struct Subscription {
    shared: Arc<Shared>,
    folder: PathBuf,
    changed: watch::Receiver<()>,
}

impl Subscription {
    /// Waits for news that came after the last call, or after the beginning.
    pub(crate) async fn changed(&mut self) {
        if self.changed.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut folders = self.shared.folders();
        let Some(folder) = folders.get_mut(&self.folder) else {
            return;
        };
        folder.followers -= 1;
        if folder.followers == 0 {
            let _ = inotify::remove_watch(&self.shared.inotify, folder.descriptor);
            folders.remove(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn followers_are_woken_and_leave_no_watch_behind() {
        let folder = tempfile::tempdir().unwrap();
        let watch = LogWatch::start().unwrap();
        let mut first = watch.subscribe(folder.path()).unwrap();
        let mut second = watch.subscribe(folder.path()).unwrap();
        fs::write(folder.path().join("stdout.0"), "x").unwrap();
        first.changed().await;
        second.changed().await;
        drop(first);
        assert_eq!(watch.shared.folders().len(), 1);
        drop(second);
        assert!(watch.shared.folders().is_empty());
    }
}
