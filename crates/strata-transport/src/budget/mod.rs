//! What one caller may take of the daemon at once and over time, so that the
//! weakest token cannot take it all: connections, requests under way (watches
//! and other streams included), requests a second, and bytes.
//!
//! | caller | what holds |
//! |---|---|
//! | without a proof | the budget of unauthenticated callers, by source, and one of bytes of requests for all of them |
//! | token | the caller's budget, by the id of the token |
//! | certificate | the caller's budget, by name and role: a certificate can be renewed with a new key, which must not bring a new budget |
//! | group of the Unix socket | the caller's budget, by user |
//! | admin, over TLS | connections and requests under way, [`ADMIN_FACTOR`] times as many, and bytes of requests in memory; no rate, no bytes over time |
//! | node | connections, requests under way, requests a second and bytes of requests in memory, by node, far above what one needs and apart from all others; no bytes over time |
//! | root on the Unix socket, the server through a tunnel | nothing |
//!
//! All but admins, root and the server also cause so many lines of the audit log
//! a second; what is a little beyond waits for its turn.
//!
//! A caller over its budget is answered with 429 and `Retry-After`, or
//! `RESOURCE_EXHAUSTED`; streams that send faster than the budget allows are
//! slowed down instead.

mod body;
mod bucket;
mod held;
mod key;
mod places;
mod request;
mod service;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use strata_audit::LineCharge;
use strata_identity::{Caller, Proof};
use strata_types::Role;

use crate::Limits;
use crate::source::Source;
use crate::table::ConnectionTable;
use bucket::Bucket;
use held::{HeldBytes, HeldCount};
pub(crate) use key::{CallerKey, TokenId};
pub(crate) use places::RequestSlots;
pub(crate) use service::{BudgetService, RequestHead, is_unauthenticated};

/// How many times the connections and requests of others an admin may have.
const ADMIN_FACTOR: usize = 16;
/// What a node may begin a second, over time. It needs two streams, and a
/// request now and then: one that was taken over must not keep the runtime of
/// nodes from answering the heartbeats of the others.
const NODE_REQUESTS_PER_SECOND: u32 = 500;
/// The same at once after a rest.
const NODE_REQUEST_BURST: u32 = 2000;
/// What a node may have under way at once.
const NODE_CONCURRENT_REQUESTS: usize = 256;
/// Bytes of requests that a node may hold: it has two streams of small messages.
const NODE_REQUEST_BYTES: usize = 4 << 20;
/// Bytes of requests that all callers without a credential may hold: one may
/// have many addresses.
const UNAUTHENTICATED_BYTES: usize = 64 << 20;
/// What the audit log takes of one caller a day: a quarter of all that it keeps.
const AUDITED_BYTES_PER_DAY: u64 = 256 << 20;
/// How long a request waits for its place in the audit log.
const AUDIT_WAIT: Duration = Duration::from_secs(2);
/// Accounts that are kept before those without a debt are dropped.
const MAX_IDLE_ACCOUNTS: usize = 1024;
/// A caller that is in debt for longer than this is refused, not slowed down.
const TOLERATED_DEBT: Duration = Duration::from_secs(1);

/// The budget of one caller. The defaults are far above what people, SDKs and
/// scripts need.
#[derive(Clone, Debug)]
pub struct CallerLimits {
    /// Maximum number of concurrent connections.
    pub connections: usize,
    /// Requests under way at once, on all connections; a watch is one for as
    /// long as it lasts.
    pub concurrent_requests: usize,
    /// Requests a second, over time.
    pub requests_per_second: u32,
    /// Requests at once after a rest.
    pub request_burst: u32,
    /// Bytes of requests and answers a second, over time.
    pub bytes_per_second: u64,
    /// Bytes at once after a rest.
    pub byte_burst: u64,
    /// Bytes of finished answers that wait for the caller to read them.
    pub unread_bytes: usize,
    /// Bytes of requests that are in memory: what has come of unfinished ones,
    /// and those that their handlers have not answered yet.
    pub request_bytes: usize,
    /// The same without a proof, by source.
    pub unauthenticated_request_bytes: usize,
    /// Requests under way at once without a proof, by source.
    pub unauthenticated_concurrent: usize,
    /// Requests that the audit log records, a second and over time. For all
    /// callers but admins: what one causes must not push the lines of others
    /// out of a log of bounded size.
    pub audited_per_second: u32,
    /// The same at once after a rest.
    pub audited_burst: u32,
    /// Bytes of lines that the audit log has of them, a second and over time:
    /// a session has a line of many times the usual length.
    pub audited_bytes_per_second: u64,
    /// The same at once after a rest.
    pub audited_byte_burst: u64,
    /// Requests a second without a proof, by source.
    pub unauthenticated_per_second: u32,
    /// The same at once after a rest.
    pub unauthenticated_burst: u32,
}

impl Default for CallerLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            concurrent_requests: 512,
            requests_per_second: 500,
            request_burst: 2000,
            bytes_per_second: 64 << 20,
            byte_burst: 512 << 20,
            unread_bytes: 16 << 20,
            request_bytes: 16 << 20,
            unauthenticated_request_bytes: 2 << 20,
            unauthenticated_concurrent: 32,
            audited_per_second: 20,
            audited_burst: 1000,
            audited_bytes_per_second: AUDITED_BYTES_PER_DAY / (24 * 3600),
            audited_byte_burst: 16 << 20,
            unauthenticated_per_second: 100,
            unauthenticated_burst: 1000,
        }
    }
}

/// Why a request goes no further, for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OverBudget {
    pub(crate) what: String,
    pub(crate) retry_after: Duration,
}

impl OverBudget {
    fn new(what: String, retry_after: Duration) -> Self {
        Self { what, retry_after }
    }
}

/// The budgets of all callers, and the connections there are. Listeners that
/// share them bound a caller once. Cheap to clone.
#[derive(Clone)]
pub struct Budgets(Arc<Inner>);

struct Inner {
    limits: CallerLimits,
    table: Arc<ConnectionTable>,
    accounts: Mutex<Accounts>,
    /// Of all callers without a proof.
    unauthenticated: Arc<HeldCount>,
    refused: AtomicU64,
}

#[derive(Default)]
struct Accounts {
    all: HashMap<CallerKey, Arc<Account>>,
    /// Number of accounts above which idle ones are dropped.
    prune_at: usize,
}

/// What one caller has taken.
struct Account {
    in_flight: AtomicUsize,
    unread: AtomicUsize,
    /// Bytes of requests in memory.
    held: Vec<Arc<HeldCount>>,
    requests: Mutex<Bucket>,
    audited: Mutex<Bucket>,
    audited_bytes: Mutex<Bucket>,
    bytes: Mutex<Bucket>,
}

impl fmt::Debug for Budgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budgets")
            .field("limits", &self.0.limits)
            .finish_non_exhaustive()
    }
}

impl Budgets {
    /// For listeners with these limits.
    pub fn new(listener: &Limits, caller: CallerLimits) -> Self {
        Self(Arc::new(Inner {
            limits: caller,
            table: ConnectionTable::new(listener.clone()),
            accounts: Mutex::default(),
            unauthenticated: Arc::new(HeldCount::new(UNAUTHENTICATED_BYTES)),
            refused: AtomicU64::new(0),
        }))
    }

    pub(crate) fn table(&self) -> &Arc<ConnectionTable> {
        &self.0.table
    }

    /// How many requests were refused because a budget was used up.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Counts a request that was refused after it was admitted.
    fn count_refusal(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn account(&self, key: &CallerKey) -> Arc<Account> {
        let limits = &self.0.limits;
        let mut accounts = self
            .0
            .accounts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.all.get(key) {
            return account.clone();
        }
        if accounts.all.len() >= accounts.prune_at.max(MAX_IDLE_ACCOUNTS) {
            let now = Instant::now();
            accounts.all.retain(|_, account| !account.is_at_rest(now));
            accounts.prune_at = accounts.all.len() * 2;
        }
        let (rate, burst) = match key {
            CallerKey::Source(_) => (
                limits.unauthenticated_per_second,
                limits.unauthenticated_burst,
            ),
            CallerKey::Name(Role::Node, _) => (NODE_REQUESTS_PER_SECOND, NODE_REQUEST_BURST),
            _ => (limits.requests_per_second, limits.request_burst),
        };
        let account = Arc::new(Account {
            in_flight: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            held: self.held_counts(key),
            requests: Mutex::new(Bucket::full(rate.into(), burst.into())),
            audited: Mutex::new(Bucket::full(
                limits.audited_per_second.into(),
                limits.audited_burst.into(),
            )),
            audited_bytes: Mutex::new(Bucket::full(
                limits.audited_bytes_per_second,
                limits.audited_byte_burst,
            )),
            bytes: Mutex::new(Bucket::full(limits.bytes_per_second, limits.byte_burst)),
        });
        accounts.all.insert(key.clone(), account.clone());
        account
    }

    /// What counts the bytes of requests of a caller.
    fn held_counts(&self, key: &CallerKey) -> Vec<Arc<HeldCount>> {
        let limits = &self.0.limits;
        let own = |limit| Arc::new(HeldCount::new(limit));
        match key {
            CallerKey::Source(_) => vec![
                own(limits.unauthenticated_request_bytes),
                self.0.unauthenticated.clone(),
            ],
            CallerKey::Name(Role::Node, _) => {
                vec![own(NODE_REQUEST_BYTES.min(limits.request_bytes))]
            }
            _ => vec![own(limits.request_bytes)],
        }
    }

    /// Takes one request out of a caller's budget, until the guard is dropped.
    /// None for callers that have no budget of requests.
    pub(crate) fn admit(
        &self,
        key: &CallerKey,
        caller: Option<&Caller>,
    ) -> Result<Option<Admitted>, OverBudget> {
        let plan = match caller {
            None => BudgetPlan::Metered(1),
            Some(caller) => BudgetPlan::of(caller),
        };
        if matches!(plan, BudgetPlan::Unbounded) {
            return Ok(None);
        }
        let admitted = self.take(key, plan);
        if admitted.is_err() {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        }
        admitted.map(Some)
    }

    fn take(&self, key: &CallerKey, plan: BudgetPlan) -> Result<Admitted, OverBudget> {
        let account = self.account(key);
        let limits = &self.0.limits;
        let (most, unread_limit) = match plan {
            BudgetPlan::Unbounded => (usize::MAX, usize::MAX),
            BudgetPlan::Node => (NODE_CONCURRENT_REQUESTS, usize::MAX),
            BudgetPlan::MeteredBody(_) | BudgetPlan::Metered(_)
                if matches!(key, CallerKey::Source(_)) =>
            {
                (limits.unauthenticated_concurrent, limits.unread_bytes)
            }
            BudgetPlan::MeteredBody(factor) | BudgetPlan::Metered(factor) => (
                limits.concurrent_requests.saturating_mul(factor),
                limits.unread_bytes.saturating_mul(factor),
            ),
        };
        let metered = matches!(plan, BudgetPlan::Metered(_));
        let before = account.in_flight.fetch_add(1, Ordering::Relaxed);
        // From here on the guard gives the place back.
        let admitted = Admitted {
            account,
            metered,
            unread_limit,
            key: key.clone(),
            is_admin: matches!(plan, BudgetPlan::MeteredBody(_)),
        };
        if before >= most {
            let what = format!("{key} has {before} concurrent requests, the limit is {most}");
            return Err(OverBudget::new(what, Duration::from_secs(1)));
        }
        let now = Instant::now();
        if metered {
            let debt = lock(&admitted.account.bytes).debt(now);
            if debt > TOLERATED_DEBT {
                let rate = self.0.limits.bytes_per_second;
                let what = format!("{key} exceeded its limit of {rate} bytes per second");
                return Err(OverBudget::new(what, debt));
            }
        }
        if (metered || matches!(plan, BudgetPlan::Node))
            && let Err(wait) = lock(&admitted.account.requests).take(now, 1)
        {
            let what = format!("{key} exceeded its limit of requests per second");
            return Err(OverBudget::new(what, wait));
        }
        Ok(admitted)
    }

    /// Charges one unauthenticated request to the budget of a source.
    pub(crate) fn admit_unauthenticated(&self, source: Source) -> Result<(), OverBudget> {
        let key = CallerKey::Source(source);
        let account = self.account(&key);
        let taken = lock(&account.requests).take(Instant::now(), 1);
        taken.map_err(|wait| {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            OverBudget::new(
                format!("{key} exceeded its limit of requests per second"),
                wait,
            )
        })
    }

    /// How many connections a caller may have.
    pub(crate) fn connections_of(&self, caller: &Caller) -> Option<usize> {
        let limit = self.0.limits.connections;
        match BudgetPlan::of(caller) {
            BudgetPlan::Node => Some(limit),
            BudgetPlan::Unbounded => None,
            BudgetPlan::MeteredBody(factor) | BudgetPlan::Metered(factor) => {
                Some(limit.saturating_mul(factor))
            }
        }
    }
}

/// What holds for a caller.
#[derive(Clone, Copy)]
enum BudgetPlan {
    Unbounded,
    /// Requests under way and a second, by numbers of their own.
    Node,
    /// Factor on the limit of concurrent requests.
    MeteredBody(usize),
    /// Those, requests a second, and bytes.
    Metered(usize),
}

impl BudgetPlan {
    fn of(caller: &Caller) -> Self {
        match (caller.role, caller.proof) {
            (_, Proof::Server) | (Role::Admin, Proof::Socket) => Self::Unbounded,
            (Role::Node, _) => Self::Node,
            (Role::Admin, _) => Self::MeteredBody(ADMIN_FACTOR),
            _ => Self::Metered(1),
        }
    }
}

/// A request within its budget; under way until this is dropped.
pub(crate) struct Admitted {
    account: Arc<Account>,
    metered: bool,
    unread_limit: usize,
    key: CallerKey,
    is_admin: bool,
}

impl Admitted {
    /// Has the lines of the request charged to its caller.
    fn pay_lines(&self, charge: &LineCharge) {
        if self.is_admin {
            return;
        }
        let account = self.account.clone();
        charge.pay_by(move |bytes| lock(&account.audited_bytes).charge(Instant::now(), bytes));
    }

    /// Waits until the caller may cause one more line of the audit log, if that
    /// is soon.
    async fn wait_for_audit(&self) -> Result<(), OverBudget> {
        if self.is_admin {
            return Ok(());
        }
        let debt = lock(&self.account.audited_bytes).debt(Instant::now());
        if debt > AUDIT_WAIT {
            let key = &self.key;
            let what = format!("{key} exceeded its limit of bytes that the audit log records");
            return Err(OverBudget::new(what, debt));
        }
        let reserved = lock(&self.account.audited).reserve(Instant::now(), AUDIT_WAIT);
        match reserved {
            Ok(wait) => {
                tokio::time::sleep(wait.max(debt)).await;
                Ok(())
            }
            Err(wait) => {
                let key = &self.key;
                let what = format!(
                    "{key} exceeded its limit of requests per second that the audit log records"
                );
                Err(OverBudget::new(what, wait))
            }
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.account.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Account {
    /// What a new request holds: nothing yet.
    fn held_bytes(&self) -> HeldBytes {
        HeldBytes::none(self.held.clone())
    }

    /// Whether the account is idle: dropping it changes nothing.
    fn is_at_rest(&self, now: Instant) -> bool {
        self.in_flight.load(Ordering::Relaxed) == 0
            && self.held.first().is_none_or(|own| own.is_zero())
            && lock(&self.requests).is_full(now)
            && lock(&self.audited).is_full(now)
            && lock(&self.audited_bytes).is_full(now)
            && lock(&self.bytes).is_full(now)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
