//! What goes wrong, and when.

use super::Sim;
use crate::DriverError;

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None.
    None,
    /// It fails, may work the next time, and nothing has happened.
    Before,
    /// It has happened, and the answer is lost.
    After,
    /// It fails permanently, and nothing has happened.
    Refused,
    /// Nothing has happened, and no answer ever comes.
    CrashBefore,
    /// It has happened, and no answer ever comes.
    CrashAfter,
}

/// Called at every call.
type FaultRule = Box<dyn FnMut(&str, &str) -> Fault + Send>;

/// All that goes wrong, and what was called.
#[derive(Default)]
pub(super) struct Faults {
    rule: Option<FaultRule>,
    calls: Vec<(String, String)>,
}

/// Calls that only read are not counted: the observer makes them at any time,
/// and they would shift the numbers of those that count.
fn counts(name: &str) -> bool {
    !matches!(name, "observe" | "snapshots")
}

impl Faults {
    pub(super) fn next(&mut self, name: &str, machine: &str) -> Fault {
        if counts(name) {
            self.calls.push((name.into(), machine.into()));
        }
        let rule = self.rule.as_mut();
        rule.map_or(Fault::None, |rule| rule(name, machine))
    }
}

impl Sim {
    /// Has `rule` called at every call, with its name and its machine (empty
    /// for those to the cluster), for what goes wrong. `observe` and
    /// `snapshots` are included.
    pub fn set_faults(&self, rule: impl FnMut(&str, &str) -> Fault + Send + 'static) {
        self.guard().faults.rule = Some(Box::new(rule));
    }

    /// Nothing goes wrong any more.
    pub fn clear_faults(&self) {
        self.guard().faults.rule = None;
    }

    /// The next calls go wrong.
    pub fn fail_next(&self, calls: u64, fault: Fault) {
        self.fail_by_number(fault, move |number| number <= calls);
    }

    /// Every so many-th call goes wrong.
    pub fn fail_every(&self, calls: u64, fault: Fault) {
        self.fail_by_number(fault, move |number| number.is_multiple_of(calls.max(1)));
    }

    /// One call goes wrong: the so many-th from now, the next being 1.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        self.fail_by_number(fault, move |number| number == call);
    }

    fn fail_by_number(&self, fault: Fault, strikes: impl Fn(u64) -> bool + Send + 'static) {
        let mut number = 0;
        self.set_faults(move |name, _| {
            number += u64::from(counts(name));
            match counts(name) && strikes(number) {
                true => fault,
                false => Fault::None,
            }
        });
    }

    /// So many of a thousand calls go wrong, in one of these ways; the same
    /// seed is the same luck.
    pub fn fail_randomly(&self, seed: u64, per_mille: u64, faults: &[Fault]) {
        let faults = faults.to_vec();
        let mut state = seed | 1;
        self.set_faults(move |name, _| {
            if !counts(name) || faults.is_empty() {
                return Fault::None;
            }
            // Marsaglia's xorshift: luck that can be repeated.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            match (state >> 11) % 1000 < per_mille {
                true => faults[(state >> 32) as usize % faults.len()],
                false => Fault::None,
            }
        });
    }

    /// The calls that were made so far, and to which machine.
    pub fn calls(&self) -> Vec<(String, String)> {
        self.guard().faults.calls.clone()
    }
}

pub(super) fn lost(name: &str, machine: &str) -> DriverError {
    let why = format!("simulated failure at {name}");
    match machine {
        "" => DriverError::Silent(why),
        machine => DriverError::Unreachable {
            machine: machine.into(),
            why,
        },
    }
}
