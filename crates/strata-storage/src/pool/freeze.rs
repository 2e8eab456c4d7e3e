//! All volumes as they are at one moment, for a backup.
//!
//! The kernel makes snapshots when it commits, and makes all that were
//! requested by then in the same commit. So they are requested by many threads
//! at once, each in a directory of its own, because a directory takes one at a
//! time. Whether they came into one commit can be read afterwards; if not, they
//! are made again.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, PoisonError};

use rustix::io::Errno;
use strata_types::Label;

use super::{Shared, StoragePool, tree, volumes};
use crate::btrfs::{self, Fs};
use crate::{Result, StorageError};

/// So often it is tried to have all of one moment.
const ATTEMPTS: usize = 8;
/// A thread's second snapshot comes into a later commit, so more volumes than
/// this cannot be frozen at one moment.
const MAX_THREADS: usize = 512;
/// They do little more than call the kernel.
const STACK: usize = 256 << 10;
const SNAPSHOT: &str = "snapshot";

impl StoragePool {
    /// Keeps every volume as it is at this moment under `tag`, and gives the
    /// directory with one read-only subvolume for each. Repeated, it gives the
    /// same again, of the same moment.
    pub async fn freeze(&self, tag: &str) -> Result<PathBuf> {
        let tag = check_tag(tag)?;
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            let fs = pool.fs()?;
            freeze(pool, &fs, &tag)?;
            Ok(pool.mount.join(tree::FROZEN).join(tag.as_str()))
        })
        .await
    }

    /// Takes away what [`StoragePool::freeze`] kept. Gone already is no error.
    pub async fn thaw(&self, tag: &str) -> Result<()> {
        let tag = check_tag(tag)?;
        self.run(move |pool| {
            let _one = pool.volumes.lock().unwrap_or_else(PoisonError::into_inner);
            let fs = pool.fs()?;
            drop_dir(&fs, tree::FROZEN, &tag).map_err(StorageError::at("thaw", &pool.mount))
        })
        .await
    }
}

/// Tags become names of directories and of snapshots.
pub(super) fn check_tag(tag: &str) -> Result<Label> {
    const MAX_TAG_LEN: usize = Label::MAX - "before-".len();
    let label = tag.parse::<Label>().ok();
    label.filter(|_| tag.len() <= MAX_TAG_LEN).ok_or_else(|| {
        let why = format!("{tag:?} must be 1 to {MAX_TAG_LEN} of a-z, 0-9 and -");
        StorageError::invalid("tag", why)
    })
}

/// Out of sight first, so that half of it is never taken for the whole.
pub(super) fn drop_dir(fs: &Fs, parent: &str, tag: &Label) -> Result<(), Errno> {
    let parent = tree::open_dir(&fs.root, parent)?;
    let making = tree::open_dir(&fs.root, tree::MAKING)?;
    let gone = format!("gone-{}", tag.as_str());
    tree::clear(making.as_fd(), &gone)?;
    match tree::rename(&parent, tag.as_str(), &making, &gone) {
        Ok(()) => tree::clear(making.as_fd(), &gone),
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn freeze(pool: &Shared, fs: &Fs, tag: &Label) -> Result<()> {
    let failed = || StorageError::at::<Errno>("freeze", &pool.mount);
    let frozen = tree::open_dir(&fs.root, tree::FROZEN).map_err(failed())?;
    if tree::open_dir(&frozen, tag.as_str()).is_ok() {
        return Ok(());
    }
    let making = tree::open_dir(&fs.root, tree::MAKING).map_err(failed())?;
    let name = format!("freeze-{}", tag.as_str());
    let names = volumes::list(fs)?;
    let sources = names
        .iter()
        .map(|name| volumes::open(fs, name))
        .collect::<Result<Vec<_>>>()?;
    for attempt in 1..=ATTEMPTS {
        tree::clear(making.as_fd(), &name).map_err(failed())?;
        let new = tree::make_dir(&making, &name, 0o700).map_err(failed())?;
        // With little left to write, the threads meet.
        fs.sync().map_err(failed())?;
        let apart = all_at_once(&new, &names, &sources).map_err(failed())?;
        if apart == 0 {
            break;
        }
        if attempt == ATTEMPTS {
            tracing::warn!(
                commits = apart,
                "volumes were frozen in more than one commit"
            );
        }
    }
    let new = tree::open_dir(&making, &name).map_err(failed())?;
    settle(&new, &names).map_err(failed())?;
    fs.sync().map_err(failed())?;
    tree::rename(&making, &name, &frozen, tag.as_str()).map_err(failed())?;
    fs.sync().map_err(failed())
}

fn holder(name: &Label) -> String {
    format!("{}.holder", name.as_str())
}

/// Takes all snapshots; returns how many commits lie between the first and the
/// last of them.
fn all_at_once(new: &OwnedFd, names: &[Label], sources: &[OwnedFd]) -> Result<u64, Errno> {
    let mut holders = Vec::new();
    for name in names {
        holders.push(tree::make_dir(new, &holder(name), 0o700)?);
    }
    let pairs: Vec<_> = sources.iter().zip(&holders).collect();
    let each = pairs.len().div_ceil(MAX_THREADS).max(1);
    let take = |share: &[(&OwnedFd, &OwnedFd)]| -> Result<(), Errno> {
        for (source, holder) in share {
            btrfs::snapshot(source.as_fd(), holder.as_fd(), SNAPSHOT, false)?;
        }
        Ok(())
    };
    together(pairs.chunks(each), take)?;
    let mut commits = Vec::new();
    for holder in &holders {
        commits.push(btrfs::info(tree::open_dir(holder, SNAPSHOT)?)?.made_in);
    }
    let first = commits.iter().min().copied().unwrap_or_default();
    Ok(commits.iter().max().copied().unwrap_or_default() - first)
}

/// Does the work of each share in a thread of its own, all from one moment on;
/// none of it if one of the threads cannot be had.
fn together<T: Send>(
    shares: impl Iterator<Item = T>,
    work: impl Fn(T) -> Result<(), Errno> + Sync,
) -> Result<(), Errno> {
    let (gate, work) = (Gate::default(), &work);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut had = Ok(());
        for share in shares {
            let wait = || gate.wait();
            let run = move || if wait() { work(share) } else { Ok(()) };
            let builder = std::thread::Builder::new().stack_size(STACK);
            match builder.spawn_scoped(scope, run) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    had = Err(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN));
                    break;
                }
            }
        }
        gate.open(threads.len(), had.is_ok());
        for thread in threads {
            had = had.and(thread.join().unwrap_or(Err(Errno::IO)));
        }
        had
    })
}

/// Where threads wait for each other. Unlike a barrier it need not know before
/// how many come, and can send them away.
#[derive(Default)]
struct Gate {
    /// How many came, and whether they may go on, once that is known.
    state: Mutex<(usize, Option<bool>)>,
    changed: Condvar,
}

impl Gate {
    /// Whether to go on.
    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
        let opened = self.changed.wait_while(state, |state| state.1.is_none());
        opened.unwrap_or_else(PoisonError::into_inner).1 == Some(true)
    }

    /// Lets all go when so many have come.
    fn open(&self, count: usize, go: bool) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let came = self.changed.wait_while(state, |state| state.0 < count);
        came.unwrap_or_else(PoisonError::into_inner).1 = Some(go);
        self.changed.notify_all();
    }
}

/// Each to its place, and read-only: a read-only one cannot be moved.
fn settle(new: &OwnedFd, names: &[Label]) -> Result<(), Errno> {
    for name in names {
        let dir = tree::open_dir(new, &holder(name))?;
        tree::rename(&dir, SNAPSHOT, new, name.as_str())?;
        drop(dir);
        tree::clear(new.as_fd(), &holder(name))?;
        btrfs::make_read_only(tree::open_dir(new, name.as_str())?.as_fd())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_go_on_together_or_not_at_all() {
        for go in [true, false] {
            let gate = Gate::default();
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| gate.wait())).collect();
                gate.open(threads.len(), go);
                for thread in threads {
                    assert_eq!(thread.join().unwrap(), go);
                }
            });
        }
        let seen = Mutex::new(Vec::new());
        let keep = |number: i32| {
            seen.lock().unwrap().push(number);
            if number == 1 { Err(Errno::IO) } else { Ok(()) }
        };
        assert_eq!(together(0..3, keep), Err(Errno::IO));
        seen.lock().unwrap().sort_unstable();
        assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
        assert_eq!(together(0..0, keep), Ok(()));
    }
}
