//! Reasons against a node, for people.

use std::borrow::Cow;
use std::fmt;

use crate::resources::MIB;
use crate::{HostPort, InstanceId, Kind, Score};

/// The first reason against a node for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is being emptied.
    Draining,
    /// The node is silent.
    Lost,
    Starting,
    /// It reports its status and takes nothing that is assigned to it.
    StatusOnly,
    /// It cannot run this kind.
    WrongKind(Kind),
    /// It does not meet this constraint.
    Constraint(String),
    /// It does not see the storage pool, of which the instance has a volume.
    NoPool,
    /// It has not as many GPUs of one kind that would do.
    NoSuchGpus {
        /// How many are missing.
        short: u32,
    },
    /// Not enough cpu is free.
    Cpu {
        /// Thousandths of a core that are missing.
        short: u64,
        /// Whether it would be enough by reservations alone.
        measured: bool,
    },
    /// Not enough memory is free.
    Memory {
        /// Bytes that are missing.
        short: u64,
        /// Whether it would be enough by reservations alone.
        measured: bool,
    },
    /// Not enough disk is free.
    Disk {
        /// Bytes that are missing.
        short: u64,
        /// Whether it would be enough by reservations alone.
        measured: bool,
    },
    /// It has enough free itself, but the host that it shares has not.
    Host,
    /// It has the GPUs, but others use them.
    Gpus {
        /// How many are missing.
        short: u32,
    },
    /// The port is taken.
    Port {
        port: HostPort,
        /// The holder; the node itself when none.
        holder: Option<InstanceId>,
    },
    /// No instance of this selector is there.
    AffinityUnmet(String),
    /// An instance of this selector is there.
    AntiAffinityViolated(String),
    /// It lacks the label over which instances are spread.
    NoDomain(String),
    /// Its domain would exceed the emptiest by too much.
    Skew {
        /// Over what instances are spread.
        over: String,
        /// Instances in its domain.
        count: u32,
        /// Instances in the emptiest domain.
        least: u32,
    },
    /// It would do, but another is better.
    Worse {
        score: Score,
        /// What the best reached.
        best: Score,
    },
    /// It is as good as the chosen one, which comes first.
    Later,
}

impl Reason {
    /// Whether the two are of one sort, amounts aside.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Constraint(one), Self::Constraint(other)) => one == other,
            (Self::Port { port: one, .. }, Self::Port { port: other, .. }) => one == other,
            (
                Self::Cpu { measured: one, .. },
                Self::Cpu {
                    measured: other, ..
                },
            )
            | (
                Self::Memory { measured: one, .. },
                Self::Memory {
                    measured: other, ..
                },
            )
            | (
                Self::Disk { measured: one, .. },
                Self::Disk {
                    measured: other, ..
                },
            ) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// The same without the instance that holds a port, and without amounts,
    /// which report what others use.
    pub fn without_names(&self) -> Cow<'static, str> {
        match self {
            Self::Cpu { .. } => "not enough cpu".into(),
            Self::Memory { .. } => "not enough memory".into(),
            Self::Disk { .. } => "not enough disk".into(),
            Self::Gpus { .. } => "not enough GPUs".into(),
            Self::Port { port, .. } => format!("port {port} is taken").into(),
            Self::Skew { over, .. } => format!("too many instances in this {over}").into(),
            Self::Worse { .. } => "another node suits better".into(),
            other => other.to_string().into(),
        }
    }

    /// How far from fitting; the example that is shown is the nearest.
    pub(crate) fn distance(&self) -> u64 {
        match self {
            Self::Cpu { short, .. } | Self::Memory { short, .. } | Self::Disk { short, .. } => {
                *short
            }
            Self::Gpus { short } | Self::NoSuchGpus { short } => u64::from(*short),
            _ => 0,
        }
    }
}

fn why(measured: bool) -> &'static str {
    if measured { " by measured use" } else { "" }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draining => f.write_str("draining"),
            Self::Lost => f.write_str("lost"),
            Self::Starting => f.write_str("starting"),
            Self::StatusOnly => f.write_str(
                "reports its status only: it neither reads nor takes instances assigned to it",
            ),
            Self::WrongKind(Kind::Container) => f.write_str("cannot run containers"),
            Self::WrongKind(Kind::Vm) => f.write_str("cannot run virtual machines"),
            Self::Constraint(test) => write!(f, "constraint {test} not met"),
            Self::NoPool => f.write_str("does not reach the storage pool"),
            Self::NoSuchGpus { short } => write!(f, "has {short} GPUs too few of such a kind"),
            Self::Cpu { short, measured } => {
                let (cores, rest) = (short / 1000, short % 1000);
                write!(f, "cpu short by {cores}.{rest:03}{}", why(*measured))
            }
            Self::Memory { short, measured } => {
                write!(
                    f,
                    "memory short by {} MiB{}",
                    short.div_ceil(MIB),
                    why(*measured)
                )
            }
            Self::Disk { short, measured } => {
                write!(
                    f,
                    "disk short by {} MiB{}",
                    short.div_ceil(MIB),
                    why(*measured)
                )
            }
            Self::Host => {
                f.write_str("too little is left of its host, which it shares with other nodes")
            }
            Self::Gpus { short } => write!(f, "GPUs short by {short}"),
            Self::Port {
                port,
                holder: Some(holder),
            } => {
                write!(f, "port {port} taken by instance {holder}")
            }
            Self::Port { port, holder: None } => write!(f, "port {port} taken by the node itself"),
            Self::AffinityUnmet(selector) => write!(f, "no instance with {selector} there"),
            Self::AntiAffinityViolated(selector) => {
                write!(f, "an instance with {selector} is there")
            }
            Self::NoDomain(label) => write!(f, "has no label {label} to spread over"),
            Self::Skew { over, count, least } => {
                write!(
                    f,
                    "{count} instances in this {over}, {least} in the emptiest"
                )
            }
            Self::Worse { score, best } if score.preference != best.preference => write!(
                f,
                "preferences sum up to {}, {} on the chosen node",
                score.preference, best.preference
            ),
            Self::Worse { .. } => f.write_str("its free room suits the policy less"),
            Self::Later => f.write_str("as good as the chosen node, which comes first"),
        }
    }
}

/// How many nodes have a reason of one sort against them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonCount {
    /// The reason, as it is on the node that is nearest to fitting.
    pub reason: Reason,
    /// On how many nodes.
    pub nodes: usize,
    /// Names of some of them, the nearest first.
    pub examples: Vec<String>,
}
