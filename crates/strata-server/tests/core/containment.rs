//! What is in a project or of a workload is not left behind when that is
//! deleted at the same moment.

use strata_server::core::{NewInstance, NewWorkload, Precondition, ProjectSettings, Wanted};
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
    let (core, who, blue) = (&world.core, admin(), label("blue"));
    let mut created = 0;
    for round in 0..40 {
        core.create_project(&who, &blue, ProjectSettings::default())
            .await
            .unwrap();
        let wanted = NewInstance {
            project: blue.clone(),
            wanted: Some(Wanted::Stopped),
            ..new("web", spec(100, 16))
        };
        let create = core.create_instance(&who, wanted);
        let delete = core.delete_project(&who, &blue, Precondition::default());
        at_once(create, delete, round % 2 == 0).await;
        let there = world.core.instance(&who, Some(&blue), "web").ok();
        created += usize::from(there.is_some());
        let project = core.project(&blue);
        assert!(
            there.is_none() || project.is_ok(),
            "an instance without its project"
        );
        if let Some(there) = there {
            core.delete_instance(&who, &there.id, Precondition::default())
                .await
                .unwrap();
        }
        if project.is_ok() {
            core.delete_project(&who, &blue, Precondition::default())
                .await
                .unwrap();
        }
    }
    assert!(created > 0, "neither order came about");
}

#[tokio::test(flavor = "multi_thread")]
async fn workload_is_not_deleted_from_under_a_new_instance() {
    let world = World::over(Memory::new()).await;
    let (core, who, default) = (&world.core, admin(), label("default"));
    let mut created = 0;
    for round in 0..40 {
        let wanted = NewWorkload {
            id: None,
            name: label("webs"),
            project: default.clone(),
            spec: spec(100, 16),
        };
        let (workload, _) = core.create_workload(&who, wanted).await.unwrap();
        let wanted = NewInstance {
            workload: Some(workload.id.to_string()),
            wanted: Some(Wanted::Stopped),
            ..new("web", spec(100, 16))
        };
        let create = core.create_instance(&who, wanted);
        let delete = core.delete_workload(&who, &workload.id, false, Precondition::default());
        at_once(create, delete, round % 2 == 0).await;
        let there = core.instance(&who, Some(&default), "web").ok();
        created += usize::from(there.is_some());
        let left = core.workload(&who, None, workload.id.as_str());
        assert!(
            there.is_none() || left.is_ok(),
            "an instance without its workload"
        );
        if left.is_ok() {
            core.delete_workload(&who, &workload.id, true, Precondition::default())
                .await
                .unwrap();
        }
    }
    assert!(created > 0, "neither order came about");
}
