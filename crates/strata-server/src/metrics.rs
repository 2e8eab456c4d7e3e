//! What monitoring reads: the build, the process, the requests. Other parts
//! of the product register their own figures beside these.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use strata_tasks::{TaskStatus, Tasks};
use strata_transport::{Budgets, Refusals};

use crate::Build;

/// One request that was answered. Calls are those of the routes, so there are
/// as many series as routes, whatever paths unauthenticated clients try.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    api: &'static str,
    call: String,
    code: String,
}

/// The figures of this process.
pub struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<Answered, Counter>,
    build: Build,
}

impl Metrics {
    /// The build that runs.
    pub fn build(&self) -> &Build {
        &self.build
    }

    /// The media type of [`Metrics::render`].
    pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// With the figures that every daemon has; `refusals` are those of its auth
    /// layer.
    pub fn new(refusals: Arc<Refusals>, build: Build) -> Self {
        let mut registry = Registry::default();
        let requests = Family::default();
        let labels = [
            ("version", build.version.clone()),
            ("commit", build.commit.clone()),
        ];
        registry.register("strata_build", "The build that runs", Info::new(labels));
        registry.register("strata_requests", "Requests answered", requests.clone());
        registry.register_collector(Box::new(Refused(refusals)));
        registry.register_collector(Box::new(Process));
        Self {
            registry: Mutex::new(registry),
            requests,
            build,
        }
    }

    /// Adds figures of another part of the product.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds how many requests were over the budget of their caller.
    pub fn count_budgets(&self, budgets: Budgets) {
        self.register(|registry| registry.register_collector(Box::new(OverBudget(budgets))));
    }

    /// Adds how the supervised tasks of the daemon fare.
    pub fn watch_tasks(&self, tasks: Tasks) {
        self.register(|registry| registry.register_collector(Box::new(TaskFigures(tasks))));
    }

    /// All figures as text.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// Counts a request by its route and its answer.
pub(crate) async fn count(
    State(metrics): State<Arc<Metrics>>,
    request: Request,
    next: Next,
) -> Response {
    let grpc = request
        .headers()
        .get(http::header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    let route = request.extensions().get::<MatchedPath>();
    let call = match route {
        None => "unknown".to_owned(),
        Some(_) if grpc => request.uri().path().to_owned(),
        Some(route) => format!("{} {}", request.method(), route.as_str()),
    };
    let response = next.run(request).await;
    let code = match response.headers().get(tonic::Status::GRPC_STATUS) {
        Some(code) => String::from_utf8_lossy(code.as_bytes()).into_owned(),
        // An answer that began well; how a stream ends is not known yet.
        None if grpc => "0".to_owned(),
        None => response.status().as_str().to_owned(),
    };
    let api = if grpc { "grpc" } else { "http" };
    metrics
        .requests
        .get_or_create(&Answered { api, call, code })
        .inc();
    response
}

/// What the auth layer turned away.
#[derive(Debug)]
struct Refused(Arc<Refusals>);

impl Collector for Refused {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut family = encoder.encode_descriptor(
            "strata_requests_refused",
            "Requests turned away before any handler saw them",
            None,
            MetricType::Counter,
        )?;
        for (reason, count) in [
            ("unauthenticated", &self.0.unauthenticated),
            ("denied", &self.0.denied),
        ] {
            let count = ConstCounter::new(count.load(Ordering::Relaxed));
            count.encode(family.encode_family(&[("reason", reason)])?)?;
        }
        Ok(())
    }
}

/// What budgets turned away.
#[derive(Debug)]
struct OverBudget(Budgets);

impl Collector for OverBudget {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let family = encoder.encode_descriptor(
            "strata_requests_over_budget",
            "Requests turned away because their caller had used up its budget",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(self.0.refused()).encode(family)
    }
}

/// Long-lived tasks, by name.
#[derive(Debug)]
struct TaskFigures(Tasks);

impl Collector for TaskFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.0.status();
        let mut running = encoder.encode_descriptor(
            "strata_task_running",
            "Tasks of this name that run, and what follows a panic",
            None,
            MetricType::Gauge,
        )?;
        for task in &all {
            let labels = [("task", task.name), ("on_panic", task.on_panic.as_str())];
            ConstGauge::new(task.running).encode(running.encode_family(&labels)?)?;
        }
        type Figure = fn(&TaskStatus) -> u64;
        let counters: [(&str, &str, Figure); 2] = [
            (
                "strata_task_restarts",
                "Restarts of a task after a panic",
                |task| task.restarts,
            ),
            ("strata_task_panics", "Panics of a task", |task| task.panics),
        ];
        for (name, help, figure) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for task in &all {
                let labels = [("task", task.name)];
                ConstCounter::new(figure(task)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// The process as the kernel sees it, read for each scrape.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(bytes) = resident_bytes() else {
            return Ok(());
        };
        let family = encoder.encode_descriptor(
            "process_resident_memory_bytes",
            "Memory of this process that is in use",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(bytes).encode(family)
    }
}

/// `VmRSS:     1234 kB`
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
