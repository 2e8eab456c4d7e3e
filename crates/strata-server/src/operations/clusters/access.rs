//! Access grants: a user gets a short-lived client certificate for a user name
//! that has its own role binding in the cluster. Kubernetes cannot revoke
//! certificates, so revoking deletes the binding of the name. The name has a
//! generation (`strata:USER:ROLE:GENERATION`); after a revocation the next
//! grant uses the next generation, so an old certificate never works again.
//!
//! Order of writes. Granting writes the grant into the record *before* the
//! binding is created, so that every binding is known and can be deleted.
//! Revoking deletes the binding *before* the grant leaves the record, and once
//! more after it: a grant of the same generation that ran concurrently may have
//! created the binding in between. `kubeconfig` therefore reads the record
//! again after granting, and starts over with the next generation when the
//! grant was revoked meanwhile.
//!
//! | role | in the cluster |
//! |---|---|
//! | admin | `cluster-admin` |
//! | operator | `cluster-admin`, where every machine of the inventory has a kernel of its own |
//! | operator, where there are nested nodes | `view`, and `edit` in the namespace `default` where its pods are held to a level: a privileged pod there is root of the host, which only admins are |
//! | viewer | `view` |

use std::time::Duration;

use strata_api::rest::Kubeconfig;
use strata_types::cluster::PodSecurityLevel;
use strata_types::machine::ProviderKind;
use strata_types::{Error, ErrorKind, Result, Role};

use super::{Clusters, driver_public};
use crate::core::{AccessGrant, Cluster, Principal, Versioned, Work, now_ms};

const ADMIN: &str = "cluster-admin";
const VIEW: &str = "view";
/// In the namespace `default`, and `view` elsewhere.
const EDIT: &str = "edit";
const DEFAULT_LIFETIME_SECONDS: u64 = 12 * 3600;
const MIN_LIFETIME_SECONDS: u64 = 600;
const MAX_LIFETIME_SECONDS: u64 = 7 * 24 * 3600;
/// How often a grant is repeated that is revoked at the same time.
const MAX_ATTEMPTS: usize = 4;
/// The expiry of a grant is recorded in steps of that.
const EXPIRY_ROUNDING_MS: i64 = 10 * 60 * 1000;
/// How long the cluster may take to grant access.
const GRANT_TIMEOUT: Duration = Duration::from_secs(20);

impl Clusters {
    /// Issues credentials for the principal that calls.
    pub async fn kubeconfig(
        &self,
        principal: &Principal,
        name: &str,
        ttl_seconds: Option<u64>,
    ) -> Result<Kubeconfig> {
        principal.require_all_projects()?;
        let seconds = ttl_seconds.unwrap_or(DEFAULT_LIFETIME_SECONDS);
        if !(MIN_LIFETIME_SECONDS..=MAX_LIFETIME_SECONDS).contains(&seconds) {
            let why = format!("must be {MIN_LIFETIME_SECONDS} to {MAX_LIFETIME_SECONDS} seconds");
            return Err(Error::invalid("ttlSeconds", why));
        }
        let cluster = self.core.cluster(name)?;
        if matches!(cluster.work, Work::Creating | Work::Deleting) || cluster.members.is_empty() {
            let why = format!("cluster {name} cannot be used now");
            return Err(Error::wrong_state(why)
                .with_hint(format!("see how it stands: strata cluster show {name}")));
        }
        let role = self.role_in(&cluster, principal.role);
        let key = grant_key(&principal.name, role);
        let until_ms = now_ms() + i64::try_from(seconds).unwrap_or(0) * 1000;
        // Expiry is rounded up, so that frequent requests do not write each time.
        let written_ms = until_ms - until_ms.rem_euclid(EXPIRY_ROUNDING_MS) + EXPIRY_ROUNDING_MS;
        let mut admitted = None;
        // A grant counts when the record still has its generation *after* the
        // binding was created. A `revoke` that drops the grant later than this
        // read deletes the binding once more after that, so it also deletes
        // this one. If the generation is gone, the last deletion of `revoke`
        // may have come before this binding was created: this attempt deletes
        // its own binding. `drop_grant` has recorded the generation as revoked,
        // so the next attempt gets the next one. When all attempts lose, none
        // of their bindings is left. (The reconciler deletes a binding once: it
        // only revokes expired generations, which no grant extends.)
        for _ in 0..MAX_ATTEMPTS {
            let grant = self.grant_access(&cluster, &key, role, written_ms).await?;
            let now = self.core.newest_cluster(name).await?;
            let known = now.access_grants.get(&key);
            if known.is_some_and(|it| it.generation == grant.generation) {
                admitted = Some(grant);
                break;
            }
            self.revoke_binding(name, &key, grant.generation).await?;
        }
        let Some(grant) = admitted else {
            return Err(Error::unavailable("it is being revoked; try again"));
        };
        let user = user_name(&key, grant.generation);
        let facts = self.facts(name).await?;
        let server = self.server_of(&cluster);
        let made = self.driver.kubeconfig(&facts, &user, &server, seconds);
        let made = made.map_err(driver_public)?;
        Ok(Kubeconfig {
            kubeconfig: made.expose().to_owned(),
            user,
            expires_at_ms: until_ms,
        })
    }

    /// The role of a caller in a cluster.
    fn role_in(&self, cluster: &Cluster, role: Role) -> &'static str {
        let held_to_a_level = || match cluster.spec.control_plane.pod_security {
            // Clusters of earlier releases have no level.
            None | Some(PodSecurityLevel::Privileged) => false,
            Some(PodSecurityLevel::Baseline | PodSecurityLevel::Restricted) => true,
        };
        match role {
            Role::Admin => ADMIN,
            Role::Operator if !self.may_share_a_kernel(cluster) => ADMIN,
            Role::Operator if held_to_a_level() => EDIT,
            _ => VIEW,
        }
    }

    /// Whether a machine of the cluster is a nested node, or may become or have
    /// been one: operators add pools, of any machine of the inventory.
    fn may_share_a_kernel(&self, cluster: &Cluster) -> bool {
        let tables = self.core.tables();
        let mut machines = tables.machines.values();
        let mut members = cluster.members.iter();
        machines.any(|machine| machine.spec.provider == ProviderKind::Local)
            || members.any(|member| !tables.machines.contains_key(member.machine.as_str()))
    }

    /// URL of the API of a cluster.
    pub(super) fn server_of(&self, cluster: &Cluster) -> String {
        format!("https://{}:{}", self.settings.host, cluster.port)
    }

    /// Records the grant, then creates the binding.
    async fn grant_access(
        &self,
        cluster: &Versioned<Cluster>,
        key: &str,
        role: &str,
        until_ms: i64,
    ) -> Result<AccessGrant> {
        let name = cluster.name.as_str();
        let mut over = None;
        let changed = self.core.change_cluster(name, |now| {
            let mut next = now.clone();
            // An expired generation is not extended: the reconciler may be
            // revoking it concurrently.
            over = next
                .access_grants
                .get(key)
                .filter(|it| it.is_over(0))
                .cloned();
            if let Some(over) = &over {
                next.revoked.insert(key.to_owned(), over.generation);
                next.access_grants.remove(key);
            }
            let fresh = AccessGrant {
                generation: next.revoked.get(key).map_or(1, |last| last + 1),
                role: role.to_owned(),
                until_ms,
            };
            let entry = next.access_grants.entry(key.to_owned()).or_insert(fresh);
            entry.until_ms = entry.until_ms.max(until_ms);
            Ok(next)
        });
        let now = changed.await?;
        let grant = now.access_grants.get(key).cloned();
        let grant = grant.ok_or_else(|| Error::internal("access not granted"))?;
        if let Some(over) = over {
            self.revoke_binding(name, key, over.generation).await?;
        }
        let facts = self.facts(name).await?;
        let user = user_name(key, grant.generation);
        let admitted = self.driver.grant_access(&facts, &user, Some(role));
        match tokio::time::timeout(GRANT_TIMEOUT, admitted).await {
            Ok(admitted) => admitted.map_err(driver_public)?,
            Err(_) => {
                return Err(Error::unavailable(format!(
                    "cluster {name} does not answer"
                )));
            }
        }
        Ok(grant)
    }

    /// Revokes all credentials of a user. Default: the caller.
    pub async fn revoke(
        &self,
        principal: &Principal,
        name: &str,
        user: Option<&str>,
    ) -> Result<()> {
        principal.require_all_projects()?;
        let whose = user.unwrap_or(&principal.name);
        if whose != principal.name && principal.role != Role::Admin {
            let why = "only an admin may revoke what others have";
            return Err(Error::new(ErrorKind::PermissionDenied, why));
        }
        let cluster = self.core.cluster(name)?;
        for role in [ADMIN, EDIT, VIEW] {
            let key = grant_key(whose, role);
            let Some(grant) = cluster.access_grants.get(&key).cloned() else {
                continue;
            };
            self.revoke_binding(name, &key, grant.generation).await?;
            let any = |_: &AccessGrant| true;
            self.drop_grant(name, &key, grant.generation, any).await?;
            // A concurrent grant may have created the binding again.
            self.revoke_binding(name, &key, grant.generation).await?;
        }
        Ok(())
    }

    async fn revoke_binding(&self, name: &str, principal: &str, generation: u32) -> Result<()> {
        let facts = self.facts(name).await?;
        let user = user_name(principal, generation);
        let gone = self.driver.grant_access(&facts, &user, None);
        let gone = tokio::time::timeout(GRANT_TIMEOUT, gone).await;
        let silent = |_| Error::unavailable(format!("cluster {name} does not answer"));
        gone.map_err(silent)?.map_err(driver_public)
    }

    /// Drops the grant from the record, after its binding was deleted, if the
    /// grant is still the same generation and `is_reason` holds.
    pub(crate) async fn drop_grant(
        &self,
        name: &str,
        user: &str,
        generation: u32,
        is_reason: impl Fn(&AccessGrant) -> bool,
    ) -> Result<()> {
        let changed = self.core.change_cluster(name, |now| {
            let mut next = now.clone();
            let is_it = |it: &AccessGrant| it.generation == generation && is_reason(it);
            if next.access_grants.get(user).is_some_and(is_it) {
                next.access_grants.remove(user);
                next.revoked.insert(user.to_owned(), generation);
            }
            Ok(next)
        });
        changed.await.map(drop)
    }
}

/// Key of a grant: the same user with another role has another grant.
fn grant_key(principal: &str, role: &str) -> String {
    format!("{principal}:{role}")
}

/// The user name of a grant in the cluster.
pub(crate) fn user_name(key: &str, generation: u32) -> String {
    format!("strata:{key}:{generation}")
}
