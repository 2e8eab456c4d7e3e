//! The paths of certificates.

use super::operation::Operation;

type Path = (&'static str, Vec<(&'static str, Operation)>);

pub(super) fn paths() -> Vec<Path> {
    let list = Operation::new(
        "certificate",
        "listCertificates",
        "Those that have not expired",
    )
    .takes(&["limit", "offset"])
    .enumerates("Certificate");
    let show = Operation::new("certificate", "getCertificate", "One of them")
        .one("Its serial.")
        .tells("Certificate");
    let revoke = Operation::new(
        "certificate",
        "revokeCertificates",
        "Refuse them from now on, and end what they have open",
    )
    .takes(&["Idempotency-Key"])
    .body("RevokeRequest")
    .tells("RevokeResult")
    .if_there_is_any();
    vec![
        ("/certificate/", vec![("get", list)]),
        ("/certificate/revoke", vec![("post", revoke)]),
        ("/certificate/{id}", vec![("get", show)]),
    ]
}
