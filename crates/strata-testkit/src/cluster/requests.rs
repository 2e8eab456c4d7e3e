//! Instances as clients of the published scheduler request them, and the
//! updates that they receive.

use strata_api::scheduler::{Instance, InstanceIdentifier, InstanceStatus, Port, Status as State};
use tonic::{Status, Streaming};

use super::{Cluster, TEST_TIMEOUT};

type Result<T> = std::result::Result<T, Status>;

/// A state, and its message.
pub type ObservedState = (State, String);

/// The updates of an instance, one after the other.
pub struct Updates {
    stream: Streaming<InstanceStatus>,
    /// All states so far, each once while it lasts.
    pub seen: Vec<ObservedState>,
    /// The latest.
    pub last: Option<InstanceStatus>,
}

impl Updates {
    /// The next update; none at the end.
    ///
    /// # Panics
    /// When none comes for long.
    pub async fn next(&mut self) -> Result<Option<InstanceStatus>> {
        let next = tokio::time::timeout(TEST_TIMEOUT, self.stream.message()).await;
        let next = next.unwrap_or_else(|_| panic!("no update after {:?}", self.seen))?;
        if let Some(update) = &next {
            let told = (update.status(), update.status_description.clone());
            if self.seen.last() != Some(&told) {
                self.seen.push(told);
            }
            self.last = next.clone();
        }
        Ok(next)
    }

    /// Reads until an update meets the condition.
    ///
    /// # Panics
    /// When the stream ends before.
    #[track_caller]
    pub fn until(
        &mut self,
        wanted: impl Fn(&InstanceStatus) -> bool,
    ) -> impl Future<Output = InstanceStatus> {
        let caller = std::panic::Location::caller();
        async move {
            loop {
                match self.next().await {
                    Ok(Some(update)) if wanted(&update) => return update,
                    Ok(Some(_)) => {}
                    other => panic!("{caller}: {other:?} after {:?}", self.seen),
                }
            }
        }
    }

    /// Reads until it is in a state.
    #[track_caller]
    pub fn until_state(&mut self, state: State) -> impl Future<Output = InstanceStatus> {
        self.until(move |update| update.status() == state)
    }

    /// Reads until it runs.
    #[track_caller]
    pub fn until_running(&mut self) -> impl Future<Output = InstanceStatus> {
        self.until_state(State::Running)
    }

    /// Reads to the end; all states from the beginning.
    ///
    /// # Panics
    /// When it breaks.
    pub async fn to_end(mut self) -> Vec<ObservedState> {
        while self.next().await.expect("the updates go on").is_some() {}
        self.seen
    }

    /// The states so far.
    pub fn states(&self) -> Vec<State> {
        let mut states: Vec<State> = self.seen.iter().map(|(state, _)| *state).collect();
        // The progress of a pull is reported in one and the same state.
        states.dedup();
        states
    }
}

impl Cluster {
    /// An instance that does nothing.
    pub fn instance(&self, name: &str) -> Instance {
        Instance {
            id: format!("id-{name}"),
            name: name.into(),
            uri: self.image.clone(),
            ..Instance::default()
        }
    }

    /// An instance that runs a shell script.
    pub fn script(&self, name: &str, script: &str) -> Instance {
        Instance {
            environnement: vec![format!("SCRIPT={script}")],
            ..self.instance(name)
        }
    }

    /// An instance that answers HTTP on port 80, `/name` with its name and
    /// `/env` with its environment.
    pub fn web(&self, name: &str) -> Instance {
        self.script(
            name,
            "mkdir -p /tmp/www; hostname > /tmp/www/name; env > /tmp/www/env; \
             httpd -p 80 -h /tmp/www; trap exit TERM; while :; do sleep 60 & wait; done",
        )
    }

    /// Creates an instance; also attaches to one that is there already.
    pub async fn create(&self, instance: Instance) -> Result<Updates> {
        let mut scheduler = self.client().await.scheduler();
        Ok(Updates {
            stream: scheduler.create(instance).await?.into_inner(),
            seen: Vec::new(),
            last: None,
        })
    }

    /// Creates an instance and waits until it runs.
    ///
    /// # Panics
    /// When it does not.
    pub async fn run(&self, instance: Instance) -> Updates {
        let mut updates = self.create(instance).await.expect("it is accepted");
        updates.until_running().await;
        updates
    }

    /// Stops an instance.
    pub async fn stop(&self, id: &str) -> Result<()> {
        let id = InstanceIdentifier { id: id.into() };
        self.client().await.scheduler().stop(id).await.map(drop)
    }

    /// Starts an instance.
    pub async fn start_again(&self, id: &str) -> Result<()> {
        let id = InstanceIdentifier { id: id.into() };
        self.client().await.scheduler().start(id).await.map(drop)
    }

    /// Destroys an instance.
    pub async fn destroy(&self, id: &str) -> Result<()> {
        let id = InstanceIdentifier { id: id.into() };
        self.client().await.scheduler().destroy(id).await.map(drop)
    }
}

/// A port of the node that leads to one of the instance.
pub fn port(source: i32, destination: i32) -> Port {
    Port {
        source,
        destination,
    }
}
