//! The rules of the control plane over a store in memory, with nodes that are
//! played by the test.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod clusters_accepted;
mod clusters_asserts;
mod clusters_given_up;
mod clusters_heals;
mod clusters_keys;
mod clusters_lives;
mod clusters_plans;
mod clusters_rules;
mod clusters_sight;
mod clusters_stage;
mod clusters_trials;
mod clusters_users;
mod clusters_versions;
mod clusters_ways_back;
mod containment;
mod hypervisors;
mod instances;
mod nodes;
mod operations;
mod schedules;
mod schema;
mod storage;
mod world;
