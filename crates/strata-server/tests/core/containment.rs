//! What is in a project or of a workload is not left behind when that is
//! deleted at the same moment.

use strata_server::core::{DesiredState, NewInstance, NewWorkload, Precondition, ProjectSettings};
use strata_store::Memory;

use crate::world::{World, admin, label, new, spec};

/// Both at once, in either order of their first steps.
async fn at_once<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>, a_first: bool) {
    match a_first {
        true => drop(tokio::join!(a, b)),
        false => drop(tokio::join!(b, a)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn project_is_not_deleted_from_under_a_new_instance() {
    let world = World::over(Memory::new()).await;
    let (core, principal, blue) = (&world.core, admin(), label("blue"));
    let mut created = 0;
    for round in 0..40 {
        core.projects()
            .create(&principal, &blue, ProjectSettings::default())
            .await
            .unwrap();
        let requested = NewInstance {
            project: blue.clone(),
            desired_state: Some(DesiredState::Stopped),
            ..new("web", spec(100, 16))
        };
        let create = core.create_instance(&principal, requested);
        let delete = core
            .projects()
            .delete(&principal, &blue, Precondition::default());
        at_once(create, delete, round % 2 == 0).await;
        let there = world.core.instance(&principal, Some(&blue), "web").ok();
        created += usize::from(there.is_some());
        let project = core.projects().get(&blue);
        assert!(
            there.is_none() || project.is_ok(),
            "an instance without its project"
        );
        if let Some(there) = there {
            core.delete_instance(&principal, &there.id, Precondition::default())
                .await
                .unwrap();
        }
        if project.is_ok() {
            core.projects()
                .delete(&principal, &blue, Precondition::default())
                .await
                .unwrap();
        }
    }
    assert!(created > 0, "neither order came about");
}

#[tokio::test(flavor = "multi_thread")]
async fn workload_is_not_deleted_from_under_a_new_instance() {
    let world = World::over(Memory::new()).await;
    let (core, principal, default) = (&world.core, admin(), label("default"));
    let mut created = 0;
    for round in 0..40 {
        let requested = NewWorkload {
            id: None,
            name: label("webs"),
            project: default.clone(),
            spec: spec(100, 16),
        };
        let (workload, _) = core
            .workloads()
            .create(&principal, requested)
            .await
            .unwrap();
        let requested = NewInstance {
            workload: Some(workload.id.to_string()),
            desired_state: Some(DesiredState::Stopped),
            ..new("web", spec(100, 16))
        };
        let create = core.create_instance(&principal, requested);
        let delete =
            core.workloads()
                .delete(&principal, &workload.id, false, Precondition::default());
        at_once(create, delete, round % 2 == 0).await;
        let there = core.instance(&principal, Some(&default), "web").ok();
        created += usize::from(there.is_some());
        let left = core
            .workloads()
            .find(&principal, None, workload.id.as_str());
        assert!(
            there.is_none() || left.is_ok(),
            "an instance without its workload"
        );
        if left.is_ok() {
            core.workloads()
                .delete(&principal, &workload.id, true, Precondition::default())
                .await
                .unwrap();
        }
    }
    assert!(created > 0, "neither order came about");
}
