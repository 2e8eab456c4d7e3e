//! Who may use a cluster, and with what: a certificate that ends soon, for a
//! name that the cluster knows only while it is admitted. Kubernetes cannot
//! revoke certificates; so a name is let in by a binding of its own, and what
//! is revoked loses that. Let in again, the same person has another name.
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
use crate::core::{Admission, Cluster, Kept, Who, Work, now_ms};

const ADMIN: &str = "cluster-admin";
const VIEW: &str = "view";
/// In the namespace `default`, and `view` elsewhere.
const EDIT: &str = "edit";
const USUAL: u64 = 12 * 3600;
const SHORTEST: u64 = 600;
const LONGEST: u64 = 7 * 24 * 3600;
/// How often somebody is let in anew who is let out at the same time.
const TRIES: usize = 4;
/// Until when somebody is let in is written down in steps of that.
const ROUND_MS: i64 = 10 * 60 * 1000;
/// How long the cluster may take to let somebody in.
const PATIENCE: Duration = Duration::from_secs(20);

impl Clusters {
    /// Credentials for whoever asks.
    pub async fn kubeconfig(
        &self,
        who: &Who,
        name: &str,
        ttl_seconds: Option<u64>,
    ) -> Result<Kubeconfig> {
        who.everywhere()?;
        let seconds = ttl_seconds.unwrap_or(USUAL);
        if !(SHORTEST..=LONGEST).contains(&seconds) {
            let why = format!("must be {SHORTEST} to {LONGEST} seconds");
            return Err(Error::invalid("ttlSeconds", why));
        }
        let cluster = self.core.cluster(name)?;
        if matches!(cluster.work, Work::Creating | Work::Deleting) || cluster.members.is_empty() {
            let why = format!("cluster {name} cannot be used now");
            return Err(Error::wrong_state(why)
                .with_hint(format!("see how it stands: strata cluster show {name}")));
        }
        let role = self.role_in(&cluster, who.role);
        let key = admission_key(&who.name, role);
        let until_ms = now_ms() + i64::try_from(seconds).unwrap_or(0) * 1000;
        // Whoever asks every second does not have it written every second.
        let written_ms = until_ms - until_ms.rem_euclid(ROUND_MS) + ROUND_MS;
        let mut admitted = None;
        for _ in 0..TRIES {
            let admission = self.admit(&cluster, &key, role, written_ms).await?;
            // Whoever was let out meanwhile comes in by another name.
            let now = self.core.newest_cluster(name).await?;
            let known = now.admissions.get(&key);
            if known.is_some_and(|it| it.generation == admission.generation) {
                admitted = Some(admission);
                break;
            }
            self.let_out(name, &key, admission.generation).await?;
        }
        let Some(admission) = admitted else {
            return Err(Error::unavailable("it is being revoked; try again"));
        };
        let user = user_name(&key, admission.generation);
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

    /// What somebody is in a cluster.
    fn role_in(&self, cluster: &Cluster, role: Role) -> &'static str {
        let held_to_a_level = || match cluster.spec.control_plane.pod_security {
            // Of a cluster from before there were levels nothing is asked.
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

    /// Where people reach the API of a cluster.
    pub(super) fn server_of(&self, cluster: &Cluster) -> String {
        format!("https://{}:{}", self.settings.host, cluster.port)
    }

    /// Written down first, so that whoever was let in is known.
    async fn admit(
        &self,
        cluster: &Kept<Cluster>,
        key: &str,
        role: &str,
        until_ms: i64,
    ) -> Result<Admission> {
        let name = cluster.name.as_str();
        let mut over = None;
        let changed = self.core.change_cluster(name, |now| {
            let mut next = now.clone();
            // What is over is not begun again by the same name: it may be let
            // out at this very moment, by whoever saw that.
            over = next.admissions.get(key).filter(|it| it.is_over(0)).cloned();
            if let Some(over) = &over {
                next.revoked.insert(key.to_owned(), over.generation);
                next.admissions.remove(key);
            }
            let fresh = Admission {
                generation: next.revoked.get(key).map_or(1, |last| last + 1),
                role: role.to_owned(),
                until_ms,
            };
            let entry = next.admissions.entry(key.to_owned()).or_insert(fresh);
            entry.until_ms = entry.until_ms.max(until_ms);
            Ok(next)
        });
        let now = changed.await?;
        let admission = now.admissions.get(key).cloned();
        let admission = admission.ok_or_else(|| Error::internal("nobody was let in"))?;
        if let Some(over) = over {
            self.let_out(name, key, over.generation).await?;
        }
        let facts = self.facts(name).await?;
        let user = user_name(key, admission.generation);
        let admitted = self.driver.admit(&facts, &user, Some(role));
        match tokio::time::timeout(PATIENCE, admitted).await {
            Ok(admitted) => admitted.map_err(driver_public)?,
            Err(_) => {
                return Err(Error::unavailable(format!(
                    "cluster {name} does not answer"
                )));
            }
        }
        Ok(admission)
    }

    /// Makes all credentials of somebody worthless, the caller's unless told.
    pub async fn revoke(&self, who: &Who, name: &str, user: Option<&str>) -> Result<()> {
        who.everywhere()?;
        let whose = user.unwrap_or(&who.name);
        if whose != who.name && who.role != Role::Admin {
            let why = "only an admin may revoke what others have";
            return Err(Error::new(ErrorKind::PermissionDenied, why));
        }
        let cluster = self.core.cluster(name)?;
        for role in [ADMIN, EDIT, VIEW] {
            let key = admission_key(whose, role);
            let Some(admission) = cluster.admissions.get(&key).cloned() else {
                continue;
            };
            self.let_out(name, &key, admission.generation).await?;
            let any = |_: &Admission| true;
            self.forget_user(name, &key, admission.generation, any)
                .await?;
            // Who was being let in at the same moment is out now as well.
            self.let_out(name, &key, admission.generation).await?;
        }
        Ok(())
    }

    async fn let_out(&self, name: &str, who: &str, generation: u32) -> Result<()> {
        let facts = self.facts(name).await?;
        let user = user_name(who, generation);
        let gone = self.driver.admit(&facts, &user, None);
        let gone = tokio::time::timeout(PATIENCE, gone).await;
        let silent = |_| Error::unavailable(format!("cluster {name} does not answer"));
        gone.map_err(silent)?.map_err(driver_public)
    }

    /// Written down only after the cluster has let them out, and only while
    /// what is known of them is still a reason.
    pub(crate) async fn forget_user(
        &self,
        name: &str,
        user: &str,
        generation: u32,
        is_reason: impl Fn(&Admission) -> bool,
    ) -> Result<()> {
        let changed = self.core.change_cluster(name, |now| {
            let mut next = now.clone();
            let is_it = |it: &Admission| it.generation == generation && is_reason(it);
            if next.admissions.get(user).is_some_and(is_it) {
                next.admissions.remove(user);
                next.revoked.insert(user.to_owned(), generation);
            }
            Ok(next)
        });
        changed.await.map(drop)
    }
}

/// Under what somebody's admission is kept. Two who have the same name and
/// another role are two.
fn admission_key(who: &str, role: &str) -> String {
    format!("{who}:{role}")
}

/// Somebody's name in a cluster.
pub(crate) fn user_name(key: &str, generation: u32) -> String {
    format!("strata:{key}:{generation}")
}
