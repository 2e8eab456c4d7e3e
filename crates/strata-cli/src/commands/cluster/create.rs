//! `strata cluster create`: takes machines of the inventory and makes
//! Kubernetes of them.

use clap::Args;
use strata_api::rest::{ControlPlane, InstanceType, NewCluster, NodePool, PodSecurityLevel};

use super::plan;
use crate::commands::operation_wait::WaitArgs;
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::{LabelArg, PoolArg, label_name};

/// The pool that `--workers` makes.
const WORKERS: &str = "workers";

/// Create a Kubernetes cluster on machines of the inventory
#[derive(Args, Debug)]
#[command(after_help = "\
Machines are booted and joined; if that fails, all of them are released.
Ctrl-C detaches; the operation continues on the server.

Examples:
  strata cluster create dev --workers 2
  strata cluster create prod --version v1.34.4 --control-planes 3 \\
    --pool web=4 --pool train=2:gpu --label team=shop
  strata cluster create dev --version 1.34 --workers 2 --dry-run")]
pub struct Create {
    /// Name
    #[arg(value_parser = label_name)]
    name: String,

    /// Kubernetes version, e.g. v1.34.4 or 1.34 [default: the newest available]
    #[arg(long, add = complete::kubernetes())]
    version: Option<String>,

    /// Number of control-plane machines: 1, 3 or 5
    #[arg(long, value_name = "N", default_value_t = 1)]
    control_planes: u32,

    /// Size of the node pool `workers`
    #[arg(long, value_name = "N")]
    workers: Option<u32>,

    /// Add a node pool, with or without GPUs; repeatable
    #[arg(long = "pool", value_name = "NAME=COUNT[:gpu]")]
    pools: Vec<PoolArg>,

    /// Label of all its nodes
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<LabelArg>,

    /// Pod Security level of namespaces without labels of their own:
    /// privileged, baseline or restricted [default: baseline]
    #[arg(long, value_name = "LEVEL")]
    pod_security: Option<PodSecurityLevel>,

    /// Show which machines would be allocated, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.name;
        let failed = || unable(format!("create the cluster {name}"));
        let asked = self.requested();
        if self.dry_run {
            let would = rest.plan_cluster(&asked).await.map_err(failed())?;
            return plan::print(session, self.wait.output().format(), &would);
        }
        let begun = rest.create_cluster(&asked).await.map_err(failed())?;
        let told = (
            &*format!("creating the cluster {name}"),
            &*format!(
                "created the cluster {name}; get credentials with `strata cluster kubeconfig {name} --merge`"
            ),
        );
        self.wait.one(session, &rest, &begun, told).await
    }

    fn requested(&self) -> NewCluster {
        let labels = self.labels.iter().cloned();
        let labels: std::collections::BTreeMap<String, String> =
            labels.map(|LabelArg(key, value)| (key, value)).collect();
        let workers = self.workers.map(|count| PoolArg {
            name: WORKERS.to_owned(),
            count,
            instance_type: InstanceType::Standard,
        });
        let pools = workers.into_iter().chain(self.pools.iter().cloned());
        let pools = pools.map(|pool| NodePool {
            name: pool.name,
            count: pool.count,
            instance_type: pool.instance_type,
            labels: labels.clone(),
        });
        NewCluster {
            name: self.name.clone(),
            version: self.version.clone().unwrap_or_default(),
            pools: pools.collect(),
            control_plane: ControlPlane {
                count: self.control_planes,
                instance_type: InstanceType::Standard,
                labels,
                pod_security: self.pod_security,
            },
        }
    }
}
