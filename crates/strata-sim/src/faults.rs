//! The faults of a run, all chosen before it begins, so that it can be run
//! again without some of them.

use std::fmt;
use std::time::Duration;

use crate::chance::Chance;
use crate::net::Place;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    KillAgent(usize),
    PauseAgent(usize),
    PowerCut(usize),
    CrashUnit(usize),
    FullDisk(usize),
    KillServer(usize),
    StopServer(usize),
    PauseServer(usize),
    /// The wall clock of a server is ahead by so many milliseconds.
    Clock(usize, i64),
    /// One direction.
    Cut(Place, Place),
    /// Both directions, to all others.
    Isolate(Place),
    ResetConnections(Place),
    SlowStore(u64),
    LoseAnswers,
    BreakWatches,
    Compact,
    EndLease,
}

/// A fault, and how long it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    pub(crate) kind: Kind,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, lasts, kind } = self;
        write!(f, "{kind:?} at {at:?} for {lasts:?}")
    }
}

/// The faults of a seed, in the order of their times.
pub(crate) fn choose(
    chance: &Chance,
    servers: usize,
    nodes: usize,
    within: Duration,
) -> Vec<Fault> {
    let count = 2 + chance.below(9);
    let most = u64::try_from(within.as_millis()).unwrap_or(0);
    let mut all: Vec<Fault> = (0..count)
        .map(|_| Fault {
            at: chance.millis(1000..=most),
            lasts: match chance.below(3) {
                0 => chance.millis(10..=1000),
                1 => chance.millis(500..=6000),
                _ => chance.millis(2000..=25_000),
            },
            kind: kind(chance, servers, nodes),
        })
        .collect();
    all.sort_by_key(|fault| fault.at);
    all
}

fn kind(chance: &Chance, servers: usize, nodes: usize) -> Kind {
    let (node, server) = (chance.index(nodes), chance.index(servers));
    let mut places = vec![Place::Store];
    places.extend((0..servers).map(Place::Server));
    places.extend((0..nodes).map(Place::Node));
    let place = places[chance.index(places.len())];
    match chance.below(22) {
        0 | 1 => Kind::KillAgent(node),
        2 => Kind::PauseAgent(node),
        3 => Kind::PowerCut(node),
        4 => Kind::CrashUnit(node),
        5 => Kind::FullDisk(node),
        6 | 7 => Kind::KillServer(server),
        8 => Kind::StopServer(server),
        9 => Kind::PauseServer(server),
        10 => {
            // An idempotency key that was claimed by a clock that is ahead is
            // busy for as long.
            let ms = i64::try_from(chance.below(600_000)).unwrap_or(0);
            Kind::Clock(server, ms - 300_000)
        }
        11..=13 => {
            let (node, server) = (Place::Node(node), Place::Server(server));
            match chance.below(4) {
                0 => Kind::Cut(node, server),
                1 => Kind::Cut(server, node),
                2 => Kind::Cut(server, Place::Store),
                _ => Kind::Cut(Place::Store, server),
            }
        }
        14 | 15 => Kind::Isolate(place),
        16 => Kind::ResetConnections(place),
        17 => Kind::SlowStore(50 + chance.below(3000)),
        18 => Kind::LoseAnswers,
        19 => Kind::BreakWatches,
        20 => Kind::Compact,
        _ => Kind::EndLease,
    }
}
