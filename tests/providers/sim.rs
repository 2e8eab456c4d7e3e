//! The suite, on machines that are only played.

use futures_util::FutureExt as _;
use strata_machines::sim::Sim;
use strata_machines::{Boot, Secret};

use crate::providers::conformance;

fn boot() -> Boot {
    Boot {
        server: "https://10.0.0.1:7700".into(),
        join_token: Secret::new("none"),
        labels: Default::default(),
    }
}

#[tokio::test]
async fn simulated_machines_hold_the_promises() {
    let sim = Sim::new(["m1", "m2"]);
    let boots = || std::future::ready(boot()).boxed();
    conformance::holds_its_promises(&sim, &boots).await;
    conformance::copes_with_dropped_calls(&sim, &boots).await;
}
