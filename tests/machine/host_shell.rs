//! A hand in the machine that is in no cell: a shell that the start hook
//! leaves behind. It runs what cells order, with the view of PID 1.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use strata_testkit::guest::Guest;
use strata_testkit::{Node, executable_with, wait_for};
use strata_types::Role;
use tonic::Status;

/// Lines for the start hook: a disk to lose, and the hand. Every order has an
/// answer of its own, so that one is never taken for the end of another.
/// The node's own files are on a file system with idmapped mounts, which the
/// root of this machine is not.
pub(crate) const START: &str = "\
mkdir /data && mount /dev/nvme0n1 /data
mkdir -p -m 0700 /data/node /var/lib/strata/node && mount --bind /data/node /var/lib/strata/node
mkfifo /run/orders
while :; do
  read -r n </run/orders && sh /run/order.$n >/run/answer.$n 2>&1
done &
";

const ORDER: &str = "sh -c 'mkfifo /run/answer.$N; echo \"$ORDER\" >/run/order.$N; \
    echo $N >/run/orders; exec cat /run/answer.$N'";

pub(crate) struct Machine {
    pub(crate) guest: Guest,
    pub(crate) node: Node,
    orders: AtomicU32,
}

impl Machine {
    pub(crate) async fn new(mut guest: Guest) -> Self {
        let (node, after) = guest.connect(Role::Admin).await;
        println!("answers after {:.1} s", after.as_secs_f64());
        node.allocate("hand").await.unwrap();
        Self {
            guest,
            node,
            orders: AtomicU32::new(0),
        }
    }

    /// Has a script run outside of all cells; answers the pid of who waits
    /// for it in a cell.
    pub(crate) async fn order(&self, script: &str) -> i64 {
        self.try_order(script).await.unwrap()
    }

    /// The same for a script that ends the daemon: the reply may be lost with
    /// it.
    pub(crate) async fn order_that_ends_the_daemon(&self, script: &str) {
        if let Err(status) = self.try_order(script).await {
            assert!(status.message().contains("transport"), "{status:?}");
        }
    }

    async fn try_order(&self, script: &str) -> Result<i64, Status> {
        let n = self.orders.fetch_add(1, Ordering::Relaxed);
        let order = executable_with("hand", "order", ORDER, |options| {
            options.environment = vec![format!("N={n}"), format!("ORDER={script}")];
        });
        self.node.start_as(order).await
    }

    /// Runs a script outside of all cells, and gives what it printed.
    pub(crate) async fn outside(&self, script: &str) -> String {
        let pid = self.order(script).await;
        let lines = self.node.stdout(pid).await.unwrap();
        let ended = self.node.wait("hand", "order").await.unwrap();
        assert_eq!(ended.exit_code, Some(0), "{script}: {ended:?}");
        lines.join("\n")
    }

    /// Waits until a script outside of all cells prints what is wanted.
    pub(crate) async fn wait_outside(&self, what: &str, script: &str, wanted: &str) {
        wait_for(what, Duration::from_secs(20), async || {
            match self.outside(script).await {
                printed if printed == wanted => Ok(()),
                printed => Err(format!("{printed:?}, not {wanted:?}")),
            }
        })
        .await;
    }
}
