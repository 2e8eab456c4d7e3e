//! A real server to load from outside, and what loads it: nodes that only
//! pretend, clients on connections of their own, an etcd.
//!
//! All of it is in this process, on the same cores as the server, so what a
//! client costs is part of every figure.

mod etcd;
mod fleet;
mod https;
mod load;
mod puts;

pub(crate) use etcd::Etcd;
pub(crate) use fleet::{Fleet, Instances};
pub(crate) use https::KeptAlive;
pub(crate) use load::{Loaded, create_for, create_many, repeat_for};
pub(crate) use puts::{PutTarget, put_for};

use std::path::Path;
use std::time::Duration;

use strata_client::{Connection, Target};
use strata_identity::{Ca, CertificateSpec, Credentials};
use strata_testkit::Daemon;
use strata_types::Role;

use crate::Result;

/// Requests at once on one connection: a server takes 256, and one connection
/// is one task on either side.
const ON_ONE: usize = 32;

pub(crate) struct Server {
    pub(crate) daemon: Daemon,
    authority: Ca,
    pub(crate) admin: Credentials,
    pub(crate) url: String,
}

impl Server {
    /// `strata server` on a directory and a port of its own.
    pub(crate) async fn start(binary: &Path, config: &str) -> Result<Self> {
        let daemon = Daemon::build(binary).role("server").config(config);
        Self::of(daemon.start().await)
    }

    fn of(daemon: Daemon) -> Result<Self> {
        let dir = daemon.data_dir();
        Ok(Self {
            authority: Ca::open(&dir.join("ca"))?,
            admin: Credentials::read(&dir.join("client"))?,
            url: daemon.endpoints().server.ok_or("there is no server")?,
            daemon,
        })
    }

    /// A certificate for a node, made here: by the command it would take
    /// longer than what is measured.
    pub(crate) fn node(&self, name: &str) -> Result<Credentials> {
        let spec = CertificateSpec::caller(name.parse()?, Role::Node);
        Ok(self.authority.issue(&spec)?)
    }

    /// A connection with these credentials.
    pub(crate) async fn connect(&self, credentials: Credentials) -> Result<Connection> {
        let target = Target::Tls {
            address: self.url.parse()?,
            credentials,
        };
        Ok(Connection::open(&target).await?)
    }

    /// As many connections of the admin as so many requests at once need.
    pub(crate) async fn admins(&self, at_once: usize) -> Result<Vec<Connection>> {
        let mut connections = Vec::new();
        for _ in 0..at_once.div_ceil(ON_ONE) {
            connections.push(self.connect(self.admin.clone()).await?);
        }
        Ok(connections)
    }

    /// What it has used of the processors so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        cpu(self.daemon.pid())
    }
}

/// What a process has used of the processors so far.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the name, which may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<std::result::Result<u64, _>>()?;
    let second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64(ticks as f64 / second as f64))
}

/// An error that may go from one task to another.
#[allow(clippy::needless_pass_by_value)] // for map_err
pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
