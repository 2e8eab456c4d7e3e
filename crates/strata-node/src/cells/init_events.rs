//! Listening to a cell's init for as long as it lives. A connection that breaks
//! is not an init that died: the process itself is checked, and where it lives
//! it is reached again.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use strata_cell::{CellInit, InitError, InitEvent, InitEvents, StartedInit};
use strata_types::Result;
use tokio::io::unix::AsyncFd;

use super::Phase;
use super::cell::{Cell, guard, internal};
use crate::blocking::blocking;

/// Between two tries to reach an init that does not answer.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);

impl Cell {
    /// Sets an init as this cell's, and subscribes to it.
    pub(super) fn adopt_init(self: &Arc<Self>, started: StartedInit) -> Result<()> {
        let news = self.take_init(started)?;
        self.listen(Some(news))
    }

    /// Keeps trying to reach an init that should be there.
    pub(super) fn await_init(self: &Arc<Self>) {
        // Refused when the daemon ends, and then nothing is to be reached.
        let _ = self.listen(None);
    }

    /// Listens to its init; without a connection, or after a panic, by a new
    /// one, which also reports what ended meanwhile.
    fn listen(self: &Arc<Self>, mut news: Option<AsyncFd<InitEvents>>) -> Result<()> {
        let listener = Arc::new(Listener::of(self));
        self.shared()?.tasks.restart("cell-events", move || {
            let (listener, news) = (listener.clone(), news.take());
            async move {
                let news = match news {
                    Some(news) => Some(news),
                    None => listener.reach_again().await,
                };
                if let Some(news) = news {
                    listen(&listener, news).await;
                }
            }
        });
        Ok(())
    }

    fn take_init(&self, started: StartedInit) -> Result<AsyncFd<InitEvents>> {
        let news = started.events.readable();
        let news = news.map_err(|e| internal("watch the cell's init", e))?;
        let init = Arc::new(started.init);
        // Before anything is started in it.
        let shared = self.shared()?;
        if shared.shim.is_fenced(&self.cgroup) {
            blocking(|| shared.shim.watch_lease(&self.cgroup, &init));
        }
        *guard(&self.init) = Some(init);
        Ok(news)
    }

    fn on_exit(self: &Arc<Self>, run: u64) {
        let known = guard(&self.runs).ended(run);
        if let Some(run) = known {
            self.conclude(&run);
        }
    }

    async fn on_init_gone(self: &Arc<Self>, epoch: u64) {
        let _starting = self.starting.lock().await;
        if self.epoch.load(Ordering::Relaxed) != epoch {
            return;
        }
        guard(&self.init).take();
        if self.set_phase(Phase::Dead("its init ended".into())) {
            tracing::warn!(cell = %self.spec.name, "cell init exited with all its processes");
        }
        for run in self.runs() {
            self.conclude(&run);
        }
    }

    /// Reached again: what ended meanwhile is recorded.
    async fn catch_up(self: &Arc<Self>, started: StartedInit) -> Result<AsyncFd<InitEvents>> {
        // None is started meanwhile, so what is not listed has ended.
        let _starting = self.starting.lock().await;
        let news = self.take_init(started)?;
        let init = self.init()?;
        let running = blocking(|| init.runs()).map_err(|e| internal("list the cell's runs", e))?;
        for run in self.runs() {
            if !running.iter().any(|(number, _)| *number == run.run) {
                self.conclude(&run);
            }
        }
        Ok(news)
    }

    /// Whether its init is certainly no more.
    fn init_has_ended(&self) -> bool {
        let init = guard(&self.init).clone();
        init.is_some_and(|init| !init.is_alive())
    }
}

/// Whose init is listened to, and which one of it.
struct Listener {
    cell: Weak<Cell>,
    epoch: u64,
}

impl Listener {
    fn of(cell: &Arc<Cell>) -> Self {
        Self {
            cell: Arc::downgrade(cell),
            epoch: cell.epoch.load(Ordering::Relaxed),
        }
    }

    /// The cell, for as long as it has the init that is listened to.
    fn cell(&self) -> Option<Arc<Cell>> {
        let cell = self.cell.upgrade()?;
        let current = cell.epoch.load(Ordering::Relaxed) == self.epoch;
        (current && cell.phase() != Phase::Gone).then_some(cell)
    }
}

async fn listen(listener: &Listener, mut news: AsyncFd<InitEvents>) {
    loop {
        let event = next_event(&news).await;
        match event {
            InitEvent::Exited(run) => match listener.cell.upgrade() {
                Some(cell) => cell.on_exit(run),
                None => return,
            },
            InitEvent::Gone => match listener.reach_again().await {
                Some(again) => news = again,
                None => return,
            },
        }
    }
}

impl Listener {
    /// A new connection to an init that lives; none when it, or the cell, is
    /// gone.
    async fn reach_again(&self) -> Option<AsyncFd<InitEvents>> {
        loop {
            let cell = self.cell()?;
            let reached = match cell.init_has_ended() {
                true => None,
                false => Some(blocking(|| CellInit::connect_soon(&cell.dir))),
            };
            match reached {
                Some(Ok(started)) => match cell.catch_up(started).await {
                    Ok(news) => return Some(news),
                    Err(error) => {
                        tracing::warn!(cell = %cell.spec.name, %error, "cell init lost again");
                    }
                },
                Some(Err(InitError::Link(error))) if !error.is_nobody() => {
                    tracing::warn!(cell = %cell.spec.name, %error, "cell init does not answer; retrying");
                }
                _ => {
                    cell.on_init_gone(self.epoch).await;
                    return None;
                }
            }
            drop(cell);
            tokio::time::sleep(RECONNECT_INTERVAL).await;
        }
    }
}

async fn next_event(news: &AsyncFd<InitEvents>) -> InitEvent {
    loop {
        let Ok(mut ready) = news.readable().await else {
            return InitEvent::Gone;
        };
        match ready.try_io(|news| news.get_ref().next()) {
            Ok(Ok(event)) => return event,
            Ok(Err(_)) => return InitEvent::Gone,
            Err(_would_block) => {}
        }
    }
}
