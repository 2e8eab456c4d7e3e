//! Which member is called.
//!
//! All calls go to one member until it does not answer. A call that changes
//! nothing then tries the others in turn. A call that changes something is
//! not repeated, as it may have had its effect: it fails, and the next one
//! first looks for a member that answers.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use strata_etcd::etcdserverpb::RangeRequest;
use strata_etcd::{ChannelOptions, KvClient};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::options::EtcdOptions;
use super::status::fault;
use super::tls;
use crate::StoreError;

#[derive(Debug)]
pub(super) struct Members {
    channels: Vec<Channel>,
    current: AtomicUsize,
    // Whether the current one failed when it was last used.
    doubtful: AtomicBool,
    timeout: Duration,
}

impl Members {
    pub(super) fn new(options: &EtcdOptions) -> Result<Self, StoreError> {
        Ok(Self {
            channels: channels(options)?,
            current: AtomicUsize::new(0),
            doubtful: AtomicBool::new(true),
            timeout: options.timeout,
        })
    }

    /// A call that changes nothing, to whichever member answers.
    pub(super) async fn read<T, F>(&self, call: impl Fn(Channel) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut tried = 0;
        loop {
            let at = self.current.load(Ordering::Relaxed);
            let answer = self.limited(call(self.channels[at].clone())).await;
            tried += 1;
            match answer {
                Err(status) if no_answer(&status) && tried < self.channels.len() => {
                    tracing::debug!(%status, member = at, "etcd member does not answer");
                    self.pass_over(at);
                }
                Err(status) if no_answer(&status) => {
                    self.pass_over(at);
                    return Err(status);
                }
                answer => {
                    self.doubtful.store(false, Ordering::Relaxed);
                    return answer;
                }
            }
        }
    }

    /// A call that changes something: made once, to a member that answered when
    /// it was last called.
    pub(super) async fn write<T, F>(&self, call: impl FnOnce(Channel) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<T, Status>>,
    {
        if self.doubtful.load(Ordering::Relaxed) {
            self.look().await?;
        }
        let at = self.current.load(Ordering::Relaxed);
        let answer = self.limited(call(self.channels[at].clone())).await;
        if answer.as_ref().is_err_and(no_answer) {
            self.pass_over(at);
        }
        answer
    }

    /// Finds a member that answers.
    pub(super) async fn look(&self) -> Result<(), Status> {
        let ask = |channel| async move {
            let request = RangeRequest {
                key: b"\0".to_vec(),
                count_only: true,
                ..RangeRequest::default()
            };
            KvClient::new(channel).range(request).await
        };
        self.read(ask).await.map(drop)
    }

    /// That the current member failed in a stream of its own.
    pub(super) fn doubt(&self) {
        self.doubtful.store(true, Ordering::Relaxed);
    }

    async fn limited<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let answer = tokio::time::timeout(self.timeout, call).await;
        answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")))
    }

    fn pass_over(&self, at: usize) {
        let next = (at + 1) % self.channels.len();
        // Others may have noticed before.
        let order = Ordering::Relaxed;
        let _ = self.current.compare_exchange(at, next, order, order);
        self.doubt();
    }
}

/// A channel to each member.
fn channels(options: &EtcdOptions) -> Result<Vec<Channel>, StoreError> {
    if options.endpoints.is_empty() {
        return Err(StoreError::Invalid("no member of etcd is named".to_owned()));
    }
    let settings = ChannelOptions {
        tls: options.tls.as_ref().map(tls::config).transpose()?,
        timeout: options.timeout,
    };
    let channel = |member: &String| {
        strata_etcd::channel(member, &settings)
            .map_err(|error| StoreError::Invalid(format!("etcd member {member}: {}", error.0)))
    };
    options.endpoints.iter().map(channel).collect()
}

/// Whether another member may do better.
fn no_answer(status: &Status) -> bool {
    matches!(fault(status), StoreError::Unavailable(_)) && status.code() != Code::Aborted
}
