//! What an operation does to a cluster, as its record and its messages name it.

pub(super) const CREATE: &str = "creating the cluster";
pub(super) const SCALE: &str = "changing node pools";
pub(super) const REPLACE: &str = "replacing failed machines";
pub(super) const UPGRADE: &str = "the upgrade";
pub(super) const RENEW: &str = "renewing certificates";
pub(super) const SNAPSHOT: &str = "taking a snapshot";
pub(super) const RESTORE: &str = "restoring the cluster";
pub(super) const DELETE: &str = "deleting the cluster";

/// The names of earlier releases, which records of failures still have.
const FORMER: [(&str, &str); 7] = [
    (CREATE, "building it"),
    (SCALE, "changing its pools"),
    (REPLACE, "replacing what died"),
    (UPGRADE, "its upgrade"),
    (SNAPSHOT, "keeping its state"),
    (RESTORE, "restoring it"),
    (DELETE, "deleting it"),
];

/// Whether a recorded name means this activity.
pub(super) fn is(recorded: &str, activity: &str) -> bool {
    recorded == activity || FORMER.contains(&(activity, recorded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_recorded_by_earlier_releases_are_recognised() {
        assert!(is("building it", CREATE));
        assert!(is(CREATE, CREATE));
        assert!(!is("building it", SCALE));
    }
}
