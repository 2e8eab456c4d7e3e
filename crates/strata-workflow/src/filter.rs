//! Which operations to list.

use crate::Operation;

/// Which operations to list. The default lets all through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only of this owner.
    pub owner: Option<String>,
    /// Only those that claim this.
    pub claim: Option<String>,
    /// Only those that have ended, or only those that have not.
    pub ended: Option<bool>,
    /// Only those that have left something behind.
    pub leftovers: bool,
}

impl Filter {
    pub(crate) fn matches(&self, operation: &Operation) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        is(&self.kind, &operation.kind)
            && is(&self.owner, &operation.owner)
            && self.claim.as_deref().is_none_or(|claim| {
                let mut claims = operation.claims.iter();
                claims.any(|it| it.key == claim)
            })
            && self
                .ended
                .is_none_or(|ended| ended == operation.has_ended())
            && (!self.leftovers || !operation.leftovers().is_empty())
    }
}
