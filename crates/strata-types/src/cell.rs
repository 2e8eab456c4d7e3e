//! Cells: what one is called, what it is asked to be, which state it is in.
//!
//! ```text
//!   (none) ──Allocate──▶ Ready ──Free──▶ Freeing ──▶ (none)
//!                        │  ▲               ▲
//!              init dies │  │ Start,        │ Free
//!                        ▼  │ Allocate      │
//!                        Dead ──────────────┘
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Label, Limits};

/// The name of a cell: labels from the outermost cell inwards, joined by `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CellName(Vec<Label>);

impl CellName {
    /// How deep cells nest. cgroup depth costs on every accounting event.
    pub const MAX_DEPTH: usize = 8;

    /// The cell this one sits in; none for an outermost cell.
    pub fn parent(&self) -> Option<Self> {
        let (_, outer) = self.0.split_last()?;
        (!outer.is_empty()).then(|| Self(outer.to_vec()))
    }

    /// The labels from the outermost cell inwards; never empty.
    pub fn labels(&self) -> &[Label] {
        &self.0
    }

    /// Whether this cell is `other` or sits in it at any depth.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// How many labels the name has.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// Reads a name from the field `field` of a request.
    pub fn from_field(field: &str, text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error::invalid(field, "must not be empty"));
        }
        let depth = text.split('/').count();
        if depth > Self::MAX_DEPTH {
            let most = Self::MAX_DEPTH;
            return Err(Error::invalid(
                field,
                format!("nests {depth} deep; {most} is the most"),
            ));
        }
        text.split('/')
            .map(|part| {
                part.parse().map_err(|why| {
                    let part: String = part.chars().take(80).collect();
                    Error::invalid(field, format!("{part:?} {why}"))
                })
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl From<Label> for CellName {
    fn from(label: Label) -> Self {
        Self(vec![label])
    }
}

impl FromStr for CellName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::from_field("cell_name", text)
    }
}

impl TryFrom<String> for CellName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<CellName> for String {
    fn from(name: CellName) -> Self {
        name.to_string()
    }
}

impl fmt::Display for CellName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, label) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("/")?;
            }
            f.write_str(label.as_str())?;
        }
        Ok(())
    }
}

/// The weight of a cell when cpus are short: 2 to 262,144.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuShares(u64);

impl CpuShares {
    const MIN: u64 = 2;
    const MAX: u64 = 262_144;

    /// Reads shares from the field `field`; 0 is the default of 1024.
    pub fn from_field(field: &str, shares: u64) -> Result<Self, Error> {
        match shares {
            0 => Ok(Self::default()),
            Self::MIN..=Self::MAX => Ok(Self(shares)),
            _ => Err(Error::invalid(
                field,
                format!("is {shares}; 2 to 262144 are allowed, and 0 for the default of 1024"),
            )),
        }
    }

    /// As `cpu.shares` of cgroup v1 takes it.
    pub fn get(self) -> u64 {
        self.0
    }

    /// As `cpu.weight` of cgroup v2 takes it.
    ///
    /// The curve runs through (2, 1), (1024, 100) and (262144, 10000), so
    /// that the default of one is the default of the other; it is the one
    /// runc, crun and Kubernetes settled on.
    pub fn weight(self) -> u64 {
        let l = (self.0 as f64).log2();
        let exponent = (l * l + 125.0 * l) / 612.0 - 7.0 / 34.0;
        (10f64.powf(exponent).ceil() as u64).clamp(1, 10_000)
    }
}

impl Default for CpuShares {
    fn default() -> Self {
        Self(1024)
    }
}

/// Which files a cell sees as its root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootMode {
    /// The machine's own files.
    #[default]
    Host,
    /// The machine's own files, unchangeable.
    ReadOnly,
    /// The machine's own files; changes stay in the cell and vanish with it.
    Private,
    /// A directory of the machine.
    #[serde(rename = "folder")]
    Directory(String),
    /// Mounts that the node hands over once the cell is there: a pod's.
    Handed,
}

/// Which users of the machine the users of a cell are: those from 0 on are
/// `count` users from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMap {
    /// The machine's user that is root in the cell.
    pub first: u32,
    /// How many there are.
    pub count: u32,
}

/// What a cell is asked to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSpec {
    pub name: CellName,
    /// Its weight when cpus are short.
    #[serde(default)]
    pub cpu_shares: CpuShares,
    /// What it may use at most.
    #[serde(default)]
    pub limits: Limits,
    /// A network namespace of its own.
    #[serde(default)]
    pub isolated_network: bool,
    /// The machine's control groups are its own to see.
    #[serde(default)]
    pub host_cgroups: bool,
    /// Which files it sees.
    #[serde(default)]
    pub root: RootMode,
    /// A user namespace of its own.
    #[serde(default)]
    pub id_map: Option<IdMap>,
}

impl CellSpec {
    /// A cell with nothing but a name.
    pub fn named(name: CellName) -> Self {
        Self {
            name,
            cpu_shares: CpuShares::default(),
            limits: Limits::default(),
            isolated_network: false,
            host_cgroups: false,
            root: RootMode::Host,
            id_map: None,
        }
    }
}

/// Where a cell is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState {
    /// Executables can be started.
    Ready,
    /// On its way out.
    Freeing,
    /// Its init died and took all processes along.
    Dead,
}

impl CellState {
    /// Every state, for tables and tests.
    pub const ALL: [Self; 3] = [Self::Ready, Self::Freeing, Self::Dead];

    /// Whether a cell may go from this state to `next`.
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Ready, Self::Freeing | Self::Dead) | (Self::Dead, Self::Ready | Self::Freeing)
        )
    }
}

impl fmt::Display for CellState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ready => "ready",
            Self::Freeing => "freeing",
            Self::Dead => "dead",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_nested_name_knows_its_parent() {
        let name: CellName = "a/b/c".parse().unwrap();
        assert_eq!(name.parent().unwrap().to_string(), "a/b");
        assert!(name.is_within(&"a".parse().unwrap()));
        assert!(!name.is_within(&"b".parse().unwrap()));
        assert!("a".parse::<CellName>().unwrap().parent().is_none());
    }

    #[test]
    fn bad_names_are_refused_with_the_field() {
        for bad in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            "..",
            "a/../b",
            "A",
            "a\0b",
            "a/b/c/d/e/f/g/h/i",
        ] {
            let error = CellName::from_field("cell.name", bad).unwrap_err();
            assert_eq!(error.field(), Some("cell.name"), "{bad:?}");
        }
    }

    #[test]
    fn an_error_does_not_echo_a_huge_name() {
        let error = CellName::from_field("cell.name", &"x".repeat(1 << 20)).unwrap_err();
        assert!(error.to_string().len() < 300);
    }

    #[test]
    fn shares_match_weights_at_the_three_agreed_points() {
        for (shares, weight) in [(2, 1), (1024, 100), (262_144, 10_000)] {
            assert_eq!(CpuShares::from_field("f", shares).unwrap().weight(), weight);
        }
        assert_eq!(CpuShares::from_field("f", 0).unwrap().get(), 1024);
        for bad in [1, 262_145, u64::MAX] {
            assert!(CpuShares::from_field("f", bad).is_err());
        }
    }

    proptest! {
        #[test]
        fn names_come_back_as_they_were(text in "[a-z0-9]{1,8}(/[a-z0-9]{1,8}){0,7}") {
            prop_assert_eq!(text.parse::<CellName>().unwrap().to_string(), text);
        }

        #[test]
        fn any_text_is_refused_or_survives_a_round_trip(text in ".{0,300}") {
            if let Ok(name) = text.parse::<CellName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }

        #[test]
        fn weights_grow_with_shares(a in 2u64..=262_144, b in 2u64..=262_144) {
            let weight = |s| CpuShares::from_field("f", s).unwrap().weight();
            prop_assert!((1..=10_000).contains(&weight(a)));
            prop_assert!((a <= b) == (weight(a) <= weight(b)) || weight(a) == weight(b));
        }

        #[test]
        fn a_freeing_cell_never_comes_back(path in proptest::collection::vec(0usize..3, 1..20)) {
            let mut state = CellState::Ready;
            let mut freed = false;
            for next in path.into_iter().map(|i| CellState::ALL[i]) {
                if state.may_become(next) {
                    prop_assert!(!freed);
                    state = next;
                }
                freed |= state == CellState::Freeing;
            }
        }
    }
}
