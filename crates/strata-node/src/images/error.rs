//! What went wrong with an image, to the caller: which field, and what to do.

use strata_image::{SourceError, StoreError, UnpackError};
use strata_types::{Error, ErrorKind};

/// The public error. The kind is the store's own; here it gets its field and a
/// text for users of the command line and the configuration.
pub(super) fn public(error: StoreError) -> Error {
    let (field, hint) = match &error {
        StoreError::Source(source) => of_source(source),
        _ => (None, None),
    };
    let hint = match &error {
        StoreError::Unpack {
            source: UnpackError::ImageTooLarge(_) | UnpackError::TooLarge(_),
            ..
        } => Some("a larger `image_gib` of [images] in the node's configuration allows it".into()),
        _ if error.is_share() => Some(
            "delete instances of the project on this node; `project_share` of [images] in the \
             node's configuration is what the images of one project may take"
                .into(),
        ),
        _ if error.is_reserve() => Some(
            "free space with `strata image prune`; `disk_reserve` of [images] in the node's \
             configuration is what images leave free"
                .into(),
        ),
        _ => hint,
    };
    let mut public = Error::from(error);
    if let Some(hint) = hint {
        public = public.with_hint(hint);
    }
    match (field, public.kind()) {
        (Some(field), ErrorKind::Invalid | ErrorKind::NotFound) => public.in_field(field),
        _ => public,
    }
}

fn of_source(error: &SourceError) -> (Option<&'static str>, Option<String>) {
    let hint = match error {
        SourceError::Denied { host, .. } => format!(
            "give credentials for {host}: --user and --password-file of `strata image pull`, or \
             [images.registries.\"{host}\"] in the node's configuration; a registry may say this \
             of an image that is not there, too"
        ),
        SourceError::Connection { host, .. }
        | SourceError::Stalled { host, .. }
        | SourceError::TooSlow { host, .. } => format!(
            "is {host} up, and can the node reach it? One without TLS must be in plain_http of \
             [images] in the node's configuration"
        ),
        SourceError::PlainHttp(host) => {
            format!("use TLS, or add {host} to plain_http of [images] in the node's configuration")
        }
        SourceError::NotFound(_) => "check the name and the tag".to_owned(),
        SourceError::NoPlatform { .. } => {
            return (Some("platform"), None);
        }
        _ => return (Some("reference"), None),
    };
    (Some("reference"), Some(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_learn_what_to_do() {
        let denied = public(StoreError::Source(SourceError::Denied {
            host: "r.lan".into(),
            detail: "no".into(),
        }));
        assert_eq!(denied.kind(), ErrorKind::PermissionDenied);
        assert!(
            denied
                .hint()
                .unwrap()
                .contains("[images.registries.\"r.lan\"]")
        );
        let unknown = public(StoreError::Source(SourceError::NotFound(
            "r.lan/x:1".into(),
        )));
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
        assert_eq!(unknown.field(), Some("reference"));
        let down = public(StoreError::Source(SourceError::Connection {
            host: "r.lan".into(),
            detail: "refused".into(),
        }));
        assert_eq!((down.kind(), down.field()), (ErrorKind::Unavailable, None));
    }
}
