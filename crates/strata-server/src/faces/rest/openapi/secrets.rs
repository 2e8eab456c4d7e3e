//! The paths of secrets.

use super::operation::Operation;

type Path = (&'static str, Vec<(&'static str, Operation)>);

pub(super) fn paths() -> Vec<Path> {
    let list = Operation::new("secret", "listSecrets", "List secrets")
        .takes(&["limit", "offset", "project"])
        .enumerates("Secret");
    let create = Operation::new("secret", "createSecret", "Create a secret")
        .takes(&["Idempotency-Key"])
        .body("NewSecret")
        .makes("Secret");
    let show = Operation::new("secret", "getSecret", "Get a secret, without its value")
        .one("Its name, or PROJECT/NAME.")
        .takes(&["project"])
        .tells("Secret");
    let update = Operation::new("secret", "updateSecret", "Replace the value of a secret")
        .one("Its name, or PROJECT/NAME.")
        .takes(&["project", "If-Match", "Idempotency-Key"])
        .body("SecretPatch")
        .changes("Secret");
    let delete = Operation::new("secret", "deleteSecret", "Delete a secret that is not used")
        .one("Its name, or PROJECT/NAME.")
        .takes(&["project", "If-Match", "Idempotency-Key"])
        .removes();
    vec![
        ("/secret/", vec![("get", list), ("put", create)]),
        (
            "/secret/{id}",
            vec![("get", show), ("patch", update), ("delete", delete)],
        ),
    ]
}
