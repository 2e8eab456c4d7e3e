//! Panics on request, for tests of a running daemon: debug builds only. The
//! environment names a file; a test writes the name of a task into it, every
//! task of that name panics at the point where it waits, and the file is
//! removed. Release builds have nothing of this.

/// The environment variable that names the file.
pub const PANIC_FILE_VARIABLE: &str = "STRATA_TEST_PANIC_FILE";

#[cfg(not(debug_assertions))]
#[derive(Debug, Default)]
pub(crate) struct Faults;

#[cfg(not(debug_assertions))]
impl Faults {
    pub(crate) fn from_environment() -> Self {
        Self
    }

    pub(crate) async fn inject<F: Future>(&self, _name: &'static str, future: F) -> F::Output {
        future.await
    }
}

#[cfg(debug_assertions)]
pub(crate) use enabled::Faults;

#[cfg(debug_assertions)]
mod enabled {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::watch;

    const POLL_INTERVAL: Duration = Duration::from_millis(20);

    #[derive(Debug, Default)]
    pub(crate) struct Faults(Option<Arc<watch::Sender<String>>>);

    impl Faults {
        pub(crate) fn from_environment() -> Self {
            std::env::var_os(super::PANIC_FILE_VARIABLE)
                .map(|file| Self::from_file(file.into()))
                .unwrap_or_default()
        }

        /// A thread reads the file for as long as there are tasks.
        pub(crate) fn from_file(file: PathBuf) -> Self {
            let requests = Arc::new(watch::Sender::new(String::new()));
            let weak = Arc::downgrade(&requests);
            let reading = std::thread::Builder::new().name("strata-faults".into());
            let reading = reading.spawn(move || {
                while let Some(requests) = weak.upgrade() {
                    if let Some(task) = take(&file) {
                        requests.send_replace(task);
                    }
                    drop(requests);
                    std::thread::sleep(POLL_INTERVAL);
                }
            });
            Self(reading.ok().map(|_| requests))
        }

        /// Runs `future`, with a panic when its task's name is requested.
        pub(crate) async fn inject<F: Future>(&self, name: &'static str, future: F) -> F::Output {
            let Some(requests) = &self.0 else {
                return future.await;
            };
            let mut requested = requests.subscribe();
            tokio::select! {
                output = future => output,
                _ = async {
                    while requested.changed().await.is_ok() {
                        if *requested.borrow_and_update() == name {
                            return;
                        }
                    }
                    std::future::pending::<()>().await;
                } => panic!("requested by a test"),
            }
        }
    }

    fn take(file: &Path) -> Option<String> {
        let task = std::fs::read_to_string(file).ok()?;
        std::fs::remove_file(file).ok()?;
        Some(task.trim().to_owned())
    }
}
