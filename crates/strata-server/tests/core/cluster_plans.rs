//! Plans, and what comes of them.

use rand::{Rng as _, SeedableRng as _};
use strata_server::operations::Clusters;
use strata_types::ErrorKind;

use crate::cluster_world::{ClusterWorld, NAME, plane};
use crate::world::admin;

/// What a plan shows is what is done then, whatever is requested.
#[tokio::test(start_paused = true)]
async fn cluster_plan_matches_the_result() {
    let mut chance = rand::rngs::StdRng::seed_from_u64(6);
    let world = ClusterWorld::running(9, 1, &[("a", 2), ("b", 1)]).await;
    for _ in 0..40 {
        let sizes = ["a", "b"].map(|pool| (pool.to_owned(), chance.random_range(0..7u32)));
        let before = world.cluster(NAME);
        let planned = world.clusters.plan_scale(NAME, &sizes).await;
        let asked = world
            .clusters
            .scale_pools(&admin(), NAME, sizes.to_vec())
            .await;
        let fits = sizes.iter().map(|(_, count)| count).sum::<u32>() <= 8;
        // What grows is brought up before what shrinks is free.
        let grows = |(pool, count): &(String, u32)| {
            (*count as usize).saturating_sub(world.of_pool(NAME, pool).len())
        };
        let free = 9 - before.members.len();
        let fits = fits && sizes.iter().map(grows).sum::<usize>() <= free;
        assert_eq!(planned.is_ok(), fits, "{sizes:?}: {planned:?}");
        let (Ok(planned), Ok(asked)) = (planned, asked) else {
            assert_eq!(world.cluster(NAME), before, "all or nothing");
            continue;
        };
        world.completes(asked).await;
        world.assert_whole(NAME);
        let now = world.cluster(NAME);
        let came = now.members.iter().map(|it| it.machine.to_string());
        let came = came
            .filter(|id| before.member(id).is_none())
            .collect::<Vec<_>>();
        let went = before.members.iter().map(|it| it.machine.to_string());
        let went = went
            .filter(|id| now.member(id).is_none())
            .collect::<Vec<_>>();
        let sorted = |machines: Vec<strata_api::rest::PlannedMachine>| {
            let mut all: Vec<_> = machines.into_iter().map(|it| it.machine).collect();
            all.sort();
            all
        };
        let mut done = (came, went);
        done.0.sort();
        done.1.sort();
        assert_eq!((sorted(planned.add), sorted(planned.remove)), done);
        for (pool, count) in &sizes {
            assert_eq!(world.of_pool(NAME, pool).len(), *count as usize);
        }
    }
}

/// Without a driver for Kubernetes, none is simulated either.
#[tokio::test(start_paused = true)]
async fn server_without_a_cluster_driver_refuses() {
    let world = ClusterWorld::new(2).await;
    let own = Clusters {
        catalogue: world.clusters.catalogue.clone(),
        ..Clusters::none(world.core.clone())
    };
    let asked = own.create(&admin(), NAME, "", plane(1), Vec::new()).await;
    let refused = asked.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WrongState);
    assert!(
        refused.to_string().contains("makes no clusters"),
        "{refused}"
    );
    assert!(world.core.clusters().is_empty());
    world.assert_nothing();
}
