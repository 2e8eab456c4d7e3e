//! Random transactions, held against a model that shares no code with any
//! engine.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use strata_store::{Change, Revision, StoreError, Transaction};

use crate::world::{World, next};

const KEYS: [&str; 5] = ["a", "a/", "a/b", "b", "ab"];

#[derive(Clone, Debug)]
enum ModelOp {
    Put(usize, u8),
    Delete(usize),
}

/// On which key, and whether it is as it should be for the condition to hold.
#[derive(Clone, Debug)]
enum If {
    Absent(usize),
    Unchanged(usize, bool),
}

type Step = (Vec<If>, Vec<ModelOp>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..KEYS.len();
    let op = prop_oneof![
        3 => (key(), any::<u8>()).prop_map(|(key, value)| ModelOp::Put(key, value)),
        1 => key().prop_map(ModelOp::Delete),
    ];
    let condition = prop_oneof![
        key().prop_map(If::Absent),
        (key(), prop::bool::weighted(0.8)).prop_map(|(key, right)| If::Unchanged(key, right)),
    ];
    let step = (
        prop::collection::vec(condition, 0..3),
        prop::collection::vec(op, 0..4),
    );
    prop::collection::vec(step, 1..24)
}

#[derive(Default)]
struct Model {
    entries: BTreeMap<&'static str, (Vec<u8>, Revision, Revision)>,
    told: Vec<(Revision, Vec<Option<u8>>)>,
}

impl Model {
    fn transaction(&self, (conditions, ops): &Step) -> (Transaction, Result<(), &'static str>) {
        let mut transaction = Transaction::new();
        let mut expected = Ok(());
        for condition in conditions {
            let (key, holds) = match condition {
                If::Absent(key) => {
                    transaction = transaction.if_absent(KEYS[*key]);
                    (*key, !self.entries.contains_key(KEYS[*key]))
                }
                If::Unchanged(key, right) => {
                    let changed = self.entries.get(KEYS[*key]).map(|it| it.2);
                    let wrong = 1_000_000;
                    let at = changed.filter(|_| *right).unwrap_or(wrong);
                    transaction = transaction.if_unchanged(KEYS[*key], at);
                    (*key, changed == Some(at))
                }
            };
            if !holds && expected.is_ok() {
                expected = Err(KEYS[key]);
            }
        }
        for op in ops {
            transaction = match op {
                ModelOp::Put(key, value) => transaction.put(KEYS[*key], vec![*value]),
                ModelOp::Delete(key) => transaction.delete(KEYS[*key]),
            };
        }
        (transaction, expected)
    }

    fn apply(&mut self, ops: &[ModelOp], revision: Revision) {
        let mut told = BTreeMap::new();
        for op in ops {
            match op {
                ModelOp::Put(key, value) => {
                    let created = self.entries.get(KEYS[*key]).map_or(revision, |it| it.1);
                    self.entries
                        .insert(KEYS[*key], (vec![*value], created, revision));
                    told.insert(KEYS[*key], Some(*value));
                }
                ModelOp::Delete(key) => {
                    if self.entries.remove(KEYS[*key]).is_some() {
                        told.insert(KEYS[*key], None);
                    }
                }
            }
        }
        if !told.is_empty() {
            self.told.push((revision, told.into_values().collect()));
        }
    }
}

fn twice(ops: &[ModelOp]) -> bool {
    let mut keys: Vec<_> = ops
        .iter()
        .map(|it| match it {
            ModelOp::Put(key, _) | ModelOp::Delete(key) => *key,
        })
        .collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}

/// Does the steps on a store that may have been used before.
async fn check(world: &World, steps: &[Step]) {
    let store = &world.store;
    let clear = KEYS
        .iter()
        .fold(Transaction::new(), |it, key| it.delete(*key));
    let base = store.commit(clear).await.unwrap();
    let mut watch = store.watch("", base).await.unwrap();
    let (mut model, mut last) = (Model::default(), base);
    for step in steps {
        let (transaction, expected) = model.transaction(step);
        match (store.commit(transaction).await, expected) {
            (Err(StoreError::Invalid(_)), _) => assert!(twice(&step.1)),
            (Ok(revision), Ok(())) => {
                let told = model.told.len();
                model.apply(&step.1, revision);
                let changed = model.told.len() > told;
                assert!(if changed {
                    revision > last
                } else {
                    revision == last
                });
                last = revision;
            }
            (Err(StoreError::Conflict { key }), Err(expected)) => assert_eq!(key, expected),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }
    let listing = store.list("").await.unwrap();
    let found = listing.entries.iter();
    let found = found.map(|it| (it.key.as_str(), (it.value.to_vec(), it.created, it.changed)));
    assert!(found.eq(model.entries.iter().map(|(key, held)| (*key, held.clone()))));
    assert_eq!(listing.revision, last);
    for (revision, values) in &model.told {
        let item = next(&mut watch).await.unwrap();
        let found = item.changes.iter().map(|change| match change {
            Change::Put(entry) => Some(entry.value[0]),
            Change::Deleted { .. } => None,
        });
        assert_eq!(
            (item.revision, found.collect::<Vec<_>>()),
            (*revision, values.clone())
        );
    }
}

fn run(world: &World, runtime: &tokio::runtime::Runtime, cases: u32) {
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(cases)
    };
    let held = TestRunner::new(config).run(&steps(), |steps| {
        runtime.block_on(check(world, &steps));
        Ok(())
    });
    held.unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}

#[test]
fn memory_does_as_the_model() {
    run(&World::memory(), &runtime(), 500);
}

#[test]
fn embedded_does_as_the_model() {
    run(&World::embedded(), &runtime(), 100);
}

#[test]
fn etcd_does_as_the_model() {
    let runtime = runtime();
    if let Some(world) = runtime.block_on(World::etcd()) {
        run(&world, &runtime, 40);
    }
}
