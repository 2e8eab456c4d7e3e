//! The paths of the CA.

use super::operation::Operation;

type Path = (&'static str, Vec<(&'static str, Operation)>);

pub(super) fn paths() -> Vec<Path> {
    let show = Operation::new("ca", "getCa", "Its roots, and what depends on the old one")
        .tells("CertificateAuthority");
    let step = |name: &str, says: &str, body: &str| {
        Operation::new("ca", name, says)
            .takes(&["Idempotency-Key"])
            .body(body)
            .tells("CertificateAuthority")
            .if_there_is_any()
    };
    let rotate = step(
        "rotateCa",
        "Make a second root, which is trusted from now on and signs nothing",
        "CaStepRequest",
    );
    let activate = step(
        "activateCa",
        "Have the second root sign from now on; nodes renew by themselves",
        "CaStepRequest",
    );
    let retire = step(
        "retireCa",
        "Trust the first root no more, destroy its key, end what its certificates have open",
        "RetireCaRequest",
    );
    vec![
        ("/ca/", vec![("get", show)]),
        ("/ca/rotate", vec![("post", rotate)]),
        ("/ca/activate", vec![("post", activate)]),
        ("/ca/retire", vec![("post", retire)]),
    ]
}
