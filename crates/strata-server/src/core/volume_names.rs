//! The names of volumes on nodes and in the pool, where volumes of different
//! projects are different volumes, whatever they are called.

use sha2::{Digest as _, Sha256};
use strata_types::instance::PROJECT_VOLUME;
use strata_types::{Label, Result};

use super::DEFAULT_PROJECT;

/// The name on the node, or in the pool, of a volume of a project, which is
/// another one's than that of a project of the same name before it.
pub(crate) fn own_volume(project: &Label, succeeds_at_ms: i64, name: &Label) -> Result<Label> {
    if project.as_str() == DEFAULT_PROJECT {
        return Ok(name.clone());
    }
    let digest = Sha256::digest(match succeeds_at_ms {
        0 => format!("{project}/{name}"),
        at => format!("{project}@{at}/{name}"),
    });
    let hex: String = digest[..20]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Label::from_field("volumes", &format!("{PROJECT_VOLUME}{hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_of_one_name_are_different_ones_in_different_projects() {
        let label = |text: &str| -> Label { text.parse().unwrap() };
        let of = |project: &str| own_volume(&label(project), 0, &label("data")).unwrap();
        assert_eq!(of("default"), label("data"));
        assert_ne!(of("a"), of("b"));
        assert_eq!(of("a"), of("a"));
        assert!(of("a").as_str().starts_with(PROJECT_VOLUME));
        let later = own_volume(&label("a"), 7, &label("data")).unwrap();
        assert_ne!(later, of("a"));
        let default = own_volume(&label("default"), 7, &label("data")).unwrap();
        assert_eq!(default, label("data"));
    }
}
