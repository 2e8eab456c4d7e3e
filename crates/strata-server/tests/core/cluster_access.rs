//! Access to clusters: who is granted it, as what, and how it is revoked.

use strata_clusters::sim::Fault;
use strata_server::core::Principal;
use strata_server::reconcile::look_at_clusters;
use strata_types::{ErrorKind, Role};

use crate::cluster_world::{ClusterWorld, NAME};
use crate::world::admin;

fn principal(name: &str, role: Role) -> Principal {
    Principal {
        name: name.into(),
        role,
        projects: None,
    }
}

#[tokio::test(start_paused = true)]
async fn access_is_granted_by_role_and_revoked_for_good() {
    let world = ClusterWorld::running(2, 1, &[("w", 1)]).await;
    let own = &world.clusters;
    let (reads, runs) = (
        principal("eve", Role::Viewer),
        principal("bob", Role::Operator),
    );
    let eve = own.kubeconfig(&reads, NAME, None).await.unwrap();
    let bob = own.kubeconfig(&runs, NAME, Some(600)).await.unwrap();
    let users = || world.kubernetes.cluster(NAME).unwrap().users;
    assert_eq!(users()[&eve.user], "view");
    assert_eq!(users()[&bob.user], "cluster-admin");
    assert!(eve.kubeconfig.contains(&own.get(NAME).unwrap().server));
    for wrong in [0, 599, 7 * 24 * 3600 + 1] {
        let refused = own.kubeconfig(&reads, NAME, Some(wrong)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let again = own.kubeconfig(&reads, NAME, None).await.unwrap();
    assert_eq!(again.user, eve.user, "the same while it is not revoked");

    let refused = own.revoke(&reads, NAME, Some("bob")).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
    own.revoke(&reads, NAME, None).await.unwrap();
    own.revoke(&reads, NAME, None).await.unwrap();
    own.revoke(&admin(), NAME, Some("bob")).await.unwrap();
    assert!(users().is_empty());
    let back = own.kubeconfig(&reads, NAME, None).await.unwrap();
    assert_ne!(back.user, eve.user, "what was revoked stays so");

    // What a certificate does not reach any more ends.
    end_admissions(&world).await;
    look_at_clusters(own).await;
    assert!(users().is_empty(), "{:?}", users());
    assert!(world.cluster(NAME).access_grants.is_empty());
    let last = own.kubeconfig(&reads, NAME, None).await.unwrap();
    assert!(last.user != back.user && last.user != eve.user);
}

/// A privileged pod on a nested node is root of the host.
#[tokio::test(start_paused = true)]
async fn operator_is_no_cluster_admin_where_machines_share_a_kernel_with_the_host() {
    let world = ClusterWorld::running(2, 1, &[("w", 1)]).await;
    let own = &world.clusters;
    let (runs, boss) = (
        principal("bob", Role::Operator),
        principal("ann", Role::Admin),
    );
    let spec = serde_json::json!({ "provider": "local", "cpu": 4, "ram": 8000 });
    let spec = serde_json::from_value(spec).unwrap();
    let id = "nested".parse().unwrap();
    world.core.add_machine(&admin(), &id, spec).await.unwrap();
    let users = || world.kubernetes.cluster(NAME).unwrap().users;
    let bob = own.kubeconfig(&runs, NAME, None).await.unwrap();
    assert_eq!(users()[&bob.user], "edit");
    let ann = own.kubeconfig(&boss, NAME, None).await.unwrap();
    assert_eq!(users()[&ann.user], "cluster-admin");
    own.revoke(&runs, NAME, None).await.unwrap();
    assert!(!users().contains_key(&bob.user));
    // Where pods are held to nothing, an operator makes none.
    for level in ["privileged".into(), serde_json::Value::Null] {
        let held = |record: &mut serde_json::Value| {
            record["spec"]["controlPlane"]["podSecurity"] = level.clone();
        };
        world.rewrite(NAME, held).await;
        let bob = own.kubeconfig(&runs, NAME, None).await.unwrap();
        assert_eq!(users()[&bob.user], "view", "{level}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_an_admin_lets_the_pods_of_a_cluster_be_privileged() {
    let world = ClusterWorld::running(3, 1, &[("w", 1)]).await;
    let own = &world.clusters;
    let control_plane = serde_json::json!({ "count": 1, "podSecurity": "privileged" });
    let plan = |principal: &Principal| {
        let control_plane = serde_json::from_value(control_plane.clone()).unwrap();
        own.plan_create(principal, "other", "1.35", &control_plane, &[])
    };
    let refused = plan(&principal("bob", Role::Operator)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{refused}");
    let allowed = plan(&principal("ann", Role::Admin));
    let denied = |error: &strata_types::Error| error.kind() == ErrorKind::PermissionDenied;
    assert!(!allowed.is_err_and(|error| denied(&error)));
}

/// Has all that was granted access be over.
async fn end_admissions(world: &ClusterWorld) {
    let over = |record: &mut serde_json::Value| {
        for admission in record["admissions"].as_object_mut().unwrap().values_mut() {
            admission["untilMs"] = 1.into();
        }
    };
    world.rewrite(NAME, over).await;
}

/// While access is granted and revoked at the same time, every user name with a
/// binding is in the record.
#[tokio::test(start_paused = true)]
async fn no_access_is_granted_during_revocation() {
    let world = ClusterWorld::running(2, 1, &[("w", 1)]).await;
    let (own, eve) = (world.clusters.clone(), principal("eve", Role::Viewer));
    for _ in 0..50 {
        let (made, revoked, _) = tokio::join!(
            own.kubeconfig(&eve, NAME, None),
            own.revoke(&eve, NAME, None),
            own.kubeconfig(&eve, NAME, None),
        );
        made.unwrap();
        revoked.unwrap();
        let known = world.cluster(NAME).access_grants;
        let known = known
            .iter()
            .map(|(principal, it)| format!("strata:{principal}:{}", it.generation));
        let known: Vec<_> = known.collect();
        let users = world.kubernetes.cluster(NAME).unwrap().users;
        let users: Vec<_> = users.into_keys().collect();
        assert!(
            users.iter().all(|user| known.contains(user)),
            "{users:?} {known:?}"
        );
    }
}

/// A user requests credentials again after the grant expired, while the
/// reconciler revokes it.
#[tokio::test(start_paused = true)]
async fn concurrently_issued_credentials_are_not_revoked() {
    let world = ClusterWorld::running(2, 1, &[("w", 1)]).await;
    let (own, eve) = (world.clusters.clone(), principal("eve", Role::Viewer));
    let users = || world.kubernetes.cluster(NAME).unwrap().users;
    let before = own.kubeconfig(&eve, NAME, None).await.unwrap().user;
    end_admissions(&world).await;
    // The reconciler has observed that, and is delayed before it revokes.
    world
        .kubernetes
        .set_faults(|call, _| match call == "observe" {
            true => Fault::CrashBefore,
            false => Fault::None,
        });
    let (made, ()) = tokio::join!(own.kubeconfig(&eve, NAME, None), look_at_clusters(&own));
    let made = made.unwrap().user;
    assert_eq!(users().into_keys().collect::<Vec<_>>(), [&*made]);
    assert_eq!(world.cluster(NAME).access_grants.len(), 1);
    assert_ne!(made, before, "what is over stays so");
}
