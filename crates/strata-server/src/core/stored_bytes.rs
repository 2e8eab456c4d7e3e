//! How many bytes the records of each project take in the store, and about as
//! many in memory.

use std::collections::HashMap;

use strata_types::Label;

/// Bytes of records, by project.
#[derive(Debug, Default)]
pub(crate) struct StoredBytes {
    /// By key of the store.
    records: HashMap<String, (Label, usize)>,
    projects: HashMap<Label, usize>,
}

impl StoredBytes {
    /// A record was written.
    pub(super) fn insert(&mut self, key: &str, project: Label, bytes: usize) {
        self.remove(key);
        *self.projects.entry(project.clone()).or_default() += bytes;
        self.records.insert(key.to_owned(), (project, bytes));
    }

    /// A record is gone.
    pub(super) fn remove(&mut self, key: &str) {
        let Some((project, bytes)) = self.records.remove(key) else {
            return;
        };
        if let Some(all) = self.projects.get_mut(&project) {
            *all -= bytes;
            if *all == 0 {
                self.projects.remove(&project);
            }
        }
    }

    /// Of all records of a project.
    pub(super) fn of_project(&self, project: &Label) -> usize {
        self.projects.get(project).copied().unwrap_or(0)
    }

    /// Of one record; 0 where there is none.
    pub(super) fn of_record(&self, key: &str) -> usize {
        self.records.get(key).map_or(0, |(_, bytes)| *bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_has_the_bytes_of_its_records() {
        let mut stored = StoredBytes::default();
        let label = |text: &str| text.parse::<Label>().unwrap();
        stored.insert("instance/a", label("shop"), 10);
        stored.insert("secret/shop/a", label("shop"), 5);
        stored.insert("instance/b", label("rival"), 7);
        stored.insert("instance/a", label("shop"), 3);
        assert_eq!(stored.of_project(&label("shop")), 8);
        assert_eq!(stored.of_record("instance/a"), 3);
        stored.remove("instance/a");
        stored.remove("instance/a");
        stored.remove("secret/shop/a");
        assert_eq!(stored.of_project(&label("shop")), 0);
        assert_eq!(stored.of_project(&label("rival")), 7);
        assert_eq!(stored.projects.len(), 1);
    }
}
