//! The faults of the other modules with the other lease: five seconds where they
//! have ten, ten where they have five. At full length only (`tests/suites.toml`).

use super::control_plane_outage::one_way_partition;
use super::leases::{Fault, exclusive_through, full_disk, restarts};
use super::servers::{frozen_etcd, next_leader, paused_leader};

#[tokio::test(flavor = "multi_thread")]
async fn node_that_is_cut_off_leaves_no_second_run() {
    exclusive_through(Fault::Cut, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_restarted_again_and_again_does_not_stretch_its_lease() {
    restarts(5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_does_not_keep_a_node_from_stopping() {
    full_disk(10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_way_partition_causes_no_second_run() {
    one_way_partition(10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_find_the_server_that_leads_next_and_go_on() {
    next_leader(5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_leader_runs_nothing_on_nodes_that_follow_another() {
    paused_leader(5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_etcd_stops_nothing() {
    frozen_etcd(10).await;
}
