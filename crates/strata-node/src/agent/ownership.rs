//! Whose an instance is: of the control plane that assigned it, by its id.
//!
//! A server that has no record of an instance is not proof that the instance
//! was deleted: its store may be a new one, one that was rolled back, or one of
//! another control plane. So nothing is destroyed because a server does not
//! name it. What this control plane assigned and does not name is *orphaned*:
//! stopped, and destroyed after a grace period unless it is assigned again.
//! What another control plane assigned is left as it is, until an operator
//! decides what is to become of it.

use std::collections::HashSet;

use strata_types::Result;
use tokio::time::Instant;

use super::instances::{Instance, Instances};
use crate::blocking::blocking;

impl Instances {
    /// A server of this control plane is followed from now on. What an older
    /// release wrote down is of the one that was followed before.
    pub(super) fn follow_control_plane(&self, id: &str) -> Result<()> {
        let before = blocking(|| self.0.store.control_plane());
        if before.as_deref() == Some(id) {
            return Ok(());
        }
        let owner = before.as_deref().unwrap_or(id);
        for instance in self.table().values() {
            let mut state = instance.state();
            if state.assigned.control_plane.is_empty() {
                owner.clone_into(&mut state.assigned.control_plane);
                blocking(|| self.0.store.write(&state.assigned))?;
            }
        }
        if let Some(before) = &before {
            tracing::warn!(
                before,
                now = id,
                "another control plane is followed; instances of the previous one are left unchanged"
            );
        }
        blocking(|| self.0.store.write_control_plane(id))
    }

    /// Whether another control plane was followed than this one.
    pub(super) fn followed_another(&self, id: &str) -> bool {
        let before = blocking(|| self.0.store.control_plane());
        !id.is_empty() && before.is_some_and(|before| before != id)
    }

    /// Whether there is anything that may run only once and was assigned by
    /// another control plane than this one.
    pub(super) fn has_exclusive_of_others(&self, control_plane: &str) -> bool {
        let table = self.table();
        table.values().any(|instance| {
            let state = instance.state();
            !state.assigned.available && state.assigned.control_plane != control_plane
        })
    }

    /// The instances that another control plane assigned.
    fn of_others(&self, control_plane: &str) -> Vec<String> {
        let table = self.table();
        let others = table
            .iter()
            .filter(|(_, instance)| is_others(instance, control_plane));
        others.map(|(id, _)| id.clone()).collect()
    }

    /// Whether another control plane assigned an instance.
    pub(super) fn is_of_another(&self, id: &str, control_plane: &str) -> bool {
        let table = self.table();
        let found = table.get(id);
        found.is_some_and(|instance| is_others(instance, control_plane))
    }

    /// All that this control plane assigned was named. The rest of what it has
    /// here is orphaned.
    pub(super) fn orphan_all_but(&self, named: &HashSet<String>, control_plane: &str) {
        let others: HashSet<_> = self.of_others(control_plane).into_iter().collect();
        if !others.is_empty() {
            tracing::warn!(
                instances = others.len(),
                "instances of another control plane are left unchanged"
            );
        }
        for id in self.ids() {
            if !named.contains(&id) && !others.contains(&id) {
                self.orphan(&id);
            }
        }
    }

    /// The server has no record of an instance.
    pub(super) fn orphan(&self, id: &str) {
        let Some(instance) = self.table().get(id).cloned() else {
            return self.0.outbox.gone(id, 0, 0);
        };
        let until = Instant::now() + self.0.orphan_grace;
        {
            let mut state = instance.state();
            if state.going || state.orphaned_until.is_some() {
                return;
            }
            state.orphaned_until = Some(until);
        }
        tracing::warn!(id, grace = ?self.0.orphan_grace,
            "instance orphaned: the server has no record of it; stopped, and destroyed after the grace period");
        self.wake(&instance);
        let (instances, id) = (self.clone(), id.to_owned());
        self.0.tasks.restart("orphan-removal", move || {
            let (instances, id) = (instances.clone(), id.clone());
            async move {
                tokio::time::sleep_until(until).await;
                // It may have been assigned again, and orphaned again.
                let is_due = |state: &super::instances::State| state.orphaned_until == Some(until);
                let due = instances
                    .table()
                    .get(&id)
                    .is_some_and(|one| is_due(&one.state()));
                if due {
                    tracing::warn!(id, "orphaned instance destroyed");
                    instances.withdraw(&id, 0, false);
                }
            }
        });
    }

    /// The server cannot read its record: it goes on as it was last assigned.
    pub(super) fn keep(&self, id: &str) {
        let Some(instance) = self.table().get(id).cloned() else {
            return;
        };
        {
            let mut state = instance.state();
            state.fenced = false;
            state.orphaned_until = None;
        }
        self.wake(&instance);
        self.0.outbox.instance(id);
    }

    /// What others assigned is this control plane's, which has no record of
    /// it: orphaned, or destroyed at once together with what is orphaned.
    pub(super) fn take_over(&self, control_plane: &str, destroy: bool) -> Result<()> {
        for id in self.of_others(control_plane) {
            let Some(instance) = self.table().get(&id).cloned() else {
                continue;
            };
            {
                let mut state = instance.state();
                control_plane.clone_into(&mut state.assigned.control_plane);
                blocking(|| self.0.store.write(&state.assigned))?;
            }
            self.orphan(&id);
            self.0.outbox.instance(&id);
        }
        if destroy {
            for id in self.ids() {
                let orphaned = self.table().get(&id).cloned();
                if orphaned.is_some_and(|one| one.state().orphaned_until.is_some()) {
                    self.withdraw(&id, 0, false);
                }
            }
        }
        Ok(())
    }
}

fn is_others(instance: &Instance, control_plane: &str) -> bool {
    let state = instance.state();
    let owner = &state.assigned.control_plane;
    !control_plane.is_empty() && !owner.is_empty() && owner != control_plane
}
