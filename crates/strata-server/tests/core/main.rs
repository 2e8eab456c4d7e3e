//! The rules of the control plane over a store in memory, with nodes that are
//! simulated by the test.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cluster_abandoned_operations;
mod cluster_accepted_changes;
mod cluster_access;
mod cluster_asserts;
mod cluster_crash_trials;
mod cluster_encryption_keys;
mod cluster_observation;
mod cluster_plans;
mod cluster_random_lifecycles;
mod cluster_remediation;
mod cluster_rollback;
mod cluster_rules;
mod cluster_upgrade;
mod cluster_world;
mod containment;
mod hypervisors;
mod instances;
mod nodes;
mod operations;
mod schedules;
mod schema;
mod storage;
mod world;
