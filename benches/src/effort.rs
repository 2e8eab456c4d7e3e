//! How often things are repeated, and how large they are.

/// For a figure that counts, or for a first look.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) starts: usize,
    pub(crate) log_bytes: u64,
    pub(crate) idle_cells: usize,
    pub(crate) pods: usize,
    pub(crate) pods_at_once: usize,
    pub(crate) rounds_at_once: usize,
    pub(crate) cold_pods: usize,
    /// Of the large image, unpacked.
    pub(crate) image_bytes: usize,
    pub(crate) image_rounds: usize,
    pub(crate) vm_rounds: usize,
    pub(crate) network_rounds: usize,
    pub(crate) network_seconds: u64,
    pub(crate) pings: usize,
    pub(crate) placement_ms: u64,
    /// For each number of requests at once, of creating and of REST.
    pub(crate) request_seconds: u64,
    /// Simulated nodes that report their status.
    pub(crate) nodes: usize,
    pub(crate) status_seconds: u64,
    /// Started through the whole API, one after the other.
    pub(crate) instances: usize,
    /// Kept in the memory of a server.
    pub(crate) kept_instances: usize,
    /// Nested nodes, brought up and taken down.
    pub(crate) machine_rounds: usize,
    /// The same with virtual ones.
    pub(crate) guest_rounds: usize,
    pub(crate) pool_rounds: usize,
    /// On the pool while its devices change.
    pub(crate) pool_bytes: usize,
    /// Saved and brought back.
    pub(crate) backup_bytes: usize,
    pub(crate) backup_rounds: usize,
    /// Clusters from nothing to nothing, beside one by hand each.
    pub(crate) cluster_rounds: usize,
    pub(crate) cluster_upgrade: bool,
}

impl Effort {
    pub(crate) fn full() -> Self {
        Self {
            starts: 300,
            log_bytes: 1 << 30,
            idle_cells: 200,
            pods: 100,
            pods_at_once: 100,
            rounds_at_once: 5,
            cold_pods: 10,
            image_bytes: 500 << 20,
            image_rounds: 5,
            vm_rounds: 10,
            network_rounds: 5,
            network_seconds: 5,
            pings: 20_000,
            placement_ms: 1500,
            request_seconds: 10,
            nodes: 10_000,
            status_seconds: 30,
            instances: 100,
            kept_instances: 10_000,
            machine_rounds: 30,
            guest_rounds: 5,
            pool_rounds: 7,
            pool_bytes: 600 << 20,
            backup_bytes: 2 << 30,
            backup_rounds: 3,
            cluster_rounds: 3,
            cluster_upgrade: true,
        }
    }

    pub(crate) fn quick() -> Self {
        Self {
            starts: 40,
            log_bytes: 100 << 20,
            idle_cells: 50,
            pods: 15,
            pods_at_once: 20,
            rounds_at_once: 2,
            cold_pods: 2,
            image_bytes: 50 << 20,
            image_rounds: 2,
            vm_rounds: 2,
            network_rounds: 2,
            network_seconds: 1,
            pings: 2_000,
            placement_ms: 300,
            request_seconds: 2,
            nodes: 2_000,
            status_seconds: 8,
            instances: 20,
            kept_instances: 10_000,
            machine_rounds: 10,
            guest_rounds: 3,
            pool_rounds: 3,
            pool_bytes: 600 << 20,
            backup_bytes: 400 << 20,
            backup_rounds: 1,
            cluster_rounds: 1,
            cluster_upgrade: false,
        }
    }
}
