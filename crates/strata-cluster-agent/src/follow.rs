//! Following the file: it is read when it comes, when it changes, and every so
//! often in case that a change was not received. A file that is broken or gone
//! leaves the last good one in force.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::AgentConfig;

/// The configuration in force; none before the first.
pub(crate) type Configs = watch::Receiver<Option<Arc<AgentConfig>>>;

/// A cluster of a thousand machines needs a tenth of this.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// How soon a directory that is not there is looked for again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Follows the file forever.
pub(crate) async fn run(
    path: &Path,
    sender: watch::Sender<Option<Arc<AgentConfig>>>,
    every: Duration,
) -> io::Result<Infallible> {
    let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
    let news = strata_cell::readable(inotify::init(flags)?)?;
    let mut file = ConfigWatch {
        path: path.to_owned(),
        last: None,
    };
    let mut watched = None;
    loop {
        // Watched before it is read: what is written in between is an event.
        // Every time, since the directory can be another one by now.
        let heard = watch_dir(&news, path, &mut watched);
        if let Some(config) = file.read() {
            sender.send_replace(Some(Arc::new(config)));
        }
        let until = Instant::now()
            + if heard {
                every
            } else {
                RETRY_INTERVAL.min(every)
            };
        tokio::select! {
            done = hear_of(&news, path) => done?,
            () = sleep_until(until) => {}
        }
    }
}

/// Whether changes in the file's directory will be received.
fn watch_dir(news: &AsyncFd<OwnedFd>, path: &Path, watched: &mut Option<i32>) -> bool {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let what = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
    let now = inotify::add_watch(news.get_ref(), dir, what).ok();
    if let Some(before) = watched.filter(|before| Some(*before) != now) {
        // An error means that it is gone already.
        let _ = inotify::remove_watch(news.get_ref(), before);
    }
    *watched = now;
    now.is_some()
}

/// Waits for changes of the file.
async fn hear_of(news: &AsyncFd<OwnedFd>, path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    loop {
        let mut ready = news.readable().await?;
        let mut space = [const { MaybeUninit::uninit() }; 4096];
        let mut reader = inotify::Reader::new(news.get_ref(), &mut space);
        let mut concerned = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let lost = ReadFlags::QUEUE_OVERFLOW | ReadFlags::IGNORED;
                    let ours = event.file_name().is_some_and(|it| it.to_bytes() == name);
                    concerned |= ours || event.events().intersects(lost);
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        ready.clear_ready();
        if concerned {
            return Ok(());
        }
    }
}

struct ConfigWatch {
    path: PathBuf,
    /// What was in it the last time, good or not.
    last: Option<Result<Vec<u8>, ErrorKind>>,
}

impl ConfigWatch {
    /// The configuration, when it is another one than before and good.
    fn read(&mut self) -> Option<AgentConfig> {
        let read = self.bytes();
        let now = read.as_ref().map_err(io::Error::kind).cloned();
        if self.last.as_ref() == Some(&now) {
            return None;
        }
        self.last = Some(now);
        let path = self.path.display();
        let text = match read {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                tracing::info!(%path, "configuration file missing; waiting for it");
                return None;
            }
            Err(error) => {
                tracing::error!(%path, %error, "configuration file not readable");
                return None;
            }
        };
        match AgentConfig::parse(&text) {
            Ok(config) => {
                tracing::info!(%path, servers = config.servers.len(), "configuration loaded");
                Some(config)
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::error!(%path, error, "configuration invalid; the previous one stays in force");
                None
            }
        }
    }

    fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let file = File::open(&self.path)?;
        file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut text)?;
        if text.len() as u64 > MAX_CONFIG_BYTES {
            return Err(ErrorKind::FileTooLarge.into());
        }
        Ok(text)
    }
}
