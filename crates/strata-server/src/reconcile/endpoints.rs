//! One address for the API of each cluster, on this server: connections to it
//! are passed on to whichever member of the control plane is well. Where it
//! leads changes when members come and go; the address does not.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use strata_balancer::{Balancer, Connections};
use strata_tasks::{TaskGroup, spawn_detached};
use strata_types::cluster::ClusterRole;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::core::{Cluster, TableChange, Work};
use crate::operations::Clusters;

/// For changes that were missed, and ports that were taken.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(5);
/// Where API servers listen.
const API_PORT: u16 = 6443;

/// Starts to listen for clusters.
pub fn start(clusters: Clusters, tasks: &TaskGroup) {
    // Of all endpoints together: they share the descriptors of this process.
    let connections = Connections::of_process();
    tasks.restart("cluster-endpoints", move || {
        let (clusters, connections) = (clusters.clone(), Arc::clone(&connections));
        async move { run(&clusters, &connections).await }
    });
}

struct Endpoint {
    port: u16,
    servers: watch::Sender<Vec<SocketAddr>>,
    task: AbortHandle,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(own: &Clusters, connections: &Arc<Connections>) {
    let mut changes = own.core.watch_all();
    let mut open: HashMap<String, Endpoint> = HashMap::new();
    loop {
        sync_listeners(own, connections, &mut open).await;
        loop {
            tokio::select! {
                changed = changes.recv() => match changed {
                    Ok(changed) if !matches!(changed, TableChange::Cluster(_)) => {}
                    _ => break,
                },
                () = tokio::time::sleep(RECONCILE_INTERVAL) => break,
            }
        }
    }
}

async fn sync_listeners(
    own: &Clusters,
    connections: &Arc<Connections>,
    open: &mut HashMap<String, Endpoint>,
) {
    let all = own.core.clusters();
    open.retain(|name, endpoint| {
        let mut all = all.iter();
        let found = all.find(|cluster| cluster.name.as_str() == name);
        let is_current = |cluster: &Cluster| cluster.port == endpoint.port && is_open(cluster);
        // An endpoint whose balancer panicked is opened again.
        !endpoint.task.is_finished() && found.is_some_and(|cluster| is_current(cluster))
    });
    for cluster in all.iter().filter(|cluster| is_open(cluster)) {
        let servers = servers(cluster);
        if let Some(endpoint) = open.get(cluster.name.as_str()) {
            endpoint.servers.send_if_modified(|now| {
                let changed = *now != servers;
                *now = servers;
                changed
            });
            continue;
        }
        let address = SocketAddr::new(own.settings.listen, cluster.port);
        let listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(cluster = %cluster.name, %address, %error, "cluster API endpoint cannot listen");
                continue;
            }
        };
        let (sender, receiver) = watch::channel(servers);
        let task = spawn_detached(
            "cluster-balancer",
            Balancer::default().run(listener, receiver, Arc::clone(connections)),
        );
        let endpoint = Endpoint {
            port: cluster.port,
            servers: sender,
            task: task.abort_handle(),
        };
        open.insert(cluster.name.to_string(), endpoint);
    }
}

fn is_open(cluster: &Cluster) -> bool {
    cluster.work != Work::Deleting && cluster.members.iter().any(|member| member.joined)
}

fn servers(cluster: &Cluster) -> Vec<SocketAddr> {
    let control = cluster.members.iter();
    let control = control.filter(|it| it.joined && it.role == ClusterRole::ControlPlane);
    control
        .filter_map(|member| Some(SocketAddr::new(member.address.parse().ok()?, API_PORT)))
        .collect()
}
