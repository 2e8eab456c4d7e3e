//! The way to the API servers on this machine: the balancer, where and for
//! which clients the configuration says.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::follow::Configs;
use crate::{Balancer, Connections};

/// The retry interval for an address that another process has.
const BIND_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Serves until the configurations end.
pub(crate) async fn run(mut configs: Configs) {
    let (sender, servers) = watch::channel(Vec::new());
    let connections = Connections::of_process();
    let mut told = false;
    loop {
        let Some(config) = configs.borrow_and_update().clone() else {
            if configs.changed().await.is_err() {
                return;
            }
            continue;
        };
        sender.send_replace(config.servers.clone());
        let listener = match TcpListener::bind(config.listen).await {
            Ok(listener) => listener,
            Err(error) => {
                if !told {
                    tracing::error!(listen = %config.listen, %error, "API server address not bound; retrying");
                }
                told = true;
                tokio::select! {
                    () = sleep(BIND_RETRY_INTERVAL) => {}
                    Ok(()) = configs.changed() => told = false,
                }
                continue;
            }
        };
        told = false;
        tracing::info!(listen = %config.listen, "API server address bound");
        let balancer = Balancer::default().run(listener, servers.clone(), connections.clone());
        tokio::pin!(balancer);
        loop {
            tokio::select! {
                () = &mut balancer => break,
                Ok(()) = configs.changed() => {}
            }
            let now = configs.borrow_and_update().clone();
            let Some(now) = now.filter(|now| now.listen == config.listen) else {
                configs.mark_changed();
                break;
            };
            sender.send_if_modified(|servers| {
                let other = *servers != now.servers;
                servers.clone_from(&now.servers);
                other
            });
        }
    }
}
